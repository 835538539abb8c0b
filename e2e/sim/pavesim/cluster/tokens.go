package cluster

import (
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/sim/objects"
)

// Marked stands in every token: wherever it is found a credential is.
const Marked = "marked-credential"

// token is one that was issued.
type token struct {
	secret string
	uid    types.UID // of the Secret that it is bound to
	until  time.Time
}

// issue answers a request for a token of a service account.
func (s *Server) issue(r *authenticationv1.TokenRequest) error {
	if r.Spec.BoundObjectRef == nil || r.Spec.ExpirationSeconds == nil {
		return errors.New("a token is bound to a Secret, and ends")
	}
	secret, there := objects.Find[*corev1.Secret](s.Store, r.Spec.BoundObjectRef.Name)
	if !there {
		return fmt.Errorf("there is no Secret %s", r.Spec.BoundObjectRef.Name)
	}
	s.issued++
	id := fmt.Sprintf("t%d", s.issued)
	until := time.Now().Add(time.Duration(*r.Spec.ExpirationSeconds) * time.Second)
	s.tokens["JTI="+id] = token{secret.Name, secret.UID, until}
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"jti":%q}`, id))
	r.Status = authenticationv1.TokenRequestStatus{Token: "e30." + claims + "." + Marked, ExpirationTimestamp: metav1.NewTime(until)}
	return nil
}

// Expired reports whether the token of an ID has lived for as long as it may.
func (s *Server) Expired(id string) bool {
	t, issued := s.tokens[id]
	return issued && !time.Now().Before(t.until)
}

// Bound returns the Secret that the token of an ID is bound to; false: it cannot be used any more.
func (s *Server) Bound(id string) (secret string, usable bool) {
	t, issued := s.tokens[id]
	if !issued || !time.Now().Before(t.until) {
		return t.secret, false
	}
	stored, there := objects.Find[*corev1.Secret](s.Store, t.secret)
	return t.secret, there && stored.UID == t.uid
}
