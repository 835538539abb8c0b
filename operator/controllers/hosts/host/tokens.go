package host

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Tokens makes credentials as tokens of a service account, each bound to a Secret of its machine.
type Tokens struct {
	// Client writes to the cluster that Nodes join, past any cache.
	Client client.Client
	// Namespace and ServiceAccount are where and whose they are.
	Namespace, ServiceAccount string
}

var _ Credentials = (*Tokens)(nil)

// SecretName is the name of the Secret that the credentials of a machine are bound to.
func SecretName(machine string) string { return "hm-" + machine }

// Revoke implements [Credentials].
func (t *Tokens) Revoke(ctx context.Context, machine string) error {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: SecretName(machine)}}
	if err := t.Client.Delete(ctx, s); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Secret %s: %w", s.Name, err)
	}
	return nil
}

// bind makes the Secret that the credentials of a machine end with.
func (t *Tokens) bind(ctx context.Context, machine string) (string, error) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: t.Namespace, Name: SecretName(machine), Labels: map[string]string{hostsv1.LabelMachine: machine},
		Annotations: map[string]string{"kubernetes.io/description": "The credential with which host machine " + machine + " joins ends when this Secret is deleted. It holds nothing."},
	}}
	if err := t.Client.Create(ctx, s); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create Secret %s: %w", s.Name, err)
	}
	return s.Name, nil
}

// Issue implements [Credentials].
func (t *Tokens) Issue(ctx context.Context, machine string, life time.Duration) (Issued, error) {
	secret, err := t.bind(ctx, machine)
	if err != nil {
		return Issued{}, err
	}
	seconds := int64(life / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.ServiceAccount}}
	if err := t.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return Issued{}, fmt.Errorf("token of service account %s/%s: %w", t.Namespace, t.ServiceAccount, err)
	}
	id, err := tokenID(request.Status.Token)
	if err != nil {
		return Issued{}, fmt.Errorf("token of service account %s/%s: %w", t.Namespace, t.ServiceAccount, err)
	}
	return Issued{Token: request.Status.Token, ID: id, Until: request.Status.ExpirationTimestamp.Time}, nil
}

// tokenID is how the API server calls a token where it is used: `JTI=` and its claim jti. The token comes
// from the API server itself, so its signature is not looked at. No error names any of it.
func tokenID(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", errors.New("it is not a JSON Web Token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", errors.New("its claims are not base64")
	}
	var claims struct {
		ID string `json:"jti"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return "", errors.New("its claims are not JSON")
	}
	if claims.ID == "" {
		return "", errors.New("it has no ID: the API server must be of Kubernetes 1.31 or later")
	}
	return "JTI=" + claims.ID, nil
}
