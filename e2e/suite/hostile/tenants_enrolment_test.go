package hostile

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/pki"
)

// enrolment are attempts with nonces and certificates of operators.
func enrolment() []attempt {
	return []attempt{
		{"S9", "the nonce of an operator lets a second key in", "AlreadyExists ALREADY_REGISTERED", func(t *testing.T, w *world) string {
			token := w.operatorNonce(t, attacker)
			if _, err := w.newcomer(t).RegisterOperator(call(t), box.Registration(t, token, box.NewKey(t))); err != nil {
				return said(err)
			}
			_, err := w.newcomer(t).RegisterOperator(call(t), box.Registration(t, token, box.NewKey(t)))
			return reason(err)
		}},
		{"F42", "the nonce of an operator lets a machine in", refused, func(t *testing.T, w *world) string {
			_, err := w.newcomer(t).RegisterAgent(call(t), box.Registration(t, w.operatorNonce(t, attacker), box.NewKey(t)))
			return said(err)
		}},
		{"F42", "the nonce of a machine lets an operator in", refused, func(t *testing.T, w *world) string {
			_, err := w.newcomer(t).RegisterOperator(call(t), box.Registration(t, w.outstanding(t, victim).token, box.NewKey(t)))
			return said(err)
		}},
		{"S11", "a renewal brings another tenant's certificate", "CN=dev,O=zeta", func(t *testing.T, w *world) string {
			key, err := pki.EncodePublicKey(box.NewKey(t).Public().(ed25519.PublicKey))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := w.operator(t, attacker).RenewCertificate(call(t), &nstancev1.RenewCertificateRequest{PublicKeyPem: key})
			if err != nil {
				return said(err)
			}
			return leafOf(t, resp.ClientCertificatePem).Subject.String()
		}},
		{"F44", "a renewal takes a key of another kind", "InvalidArgument INVALID_FIELD", func(t *testing.T, w *world) string {
			_, err := w.operator(t, attacker).RenewCertificate(call(t), &nstancev1.RenewCertificateRequest{PublicKeyPem: curvePEM(t)})
			return reason(err)
		}},
		{"F44", "a renewal takes no key", "InvalidArgument INVALID_FIELD", func(t *testing.T, w *world) string {
			_, err := w.operator(t, attacker).RenewCertificate(call(t), &nstancev1.RenewCertificateRequest{PublicKeyPem: []byte("x")})
			return reason(err)
		}},
	}
}

// operatorNonce is a good nonce for an operator of a tenant.
func (w *world) operatorNonce(t *testing.T, tenant string) string {
	t.Helper()
	signer, err := pki.NewNonceSigner(w.nonceKeys, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	token, err := signer.Sign(identity.NonceClaims{
		Kind: identity.NonceOperator, Subject: box.Cluster, ClusterID: box.Cluster, Tenant: tenant,
		IssuedAt: now, NotBefore: now, ExpiresAt: now + 600,
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func leafOf(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("not a certificate: %.80q", text)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// curvePEM is a public key that is good, and not of Ed25519.
func curvePEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(curveKey(t).Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// unharmed look whether the rows before did what they were not told to have done.
func unharmed() []attempt {
	return []attempt{
		{"S12", "after all of it: the machines of others", "all are there", func(t *testing.T, w *world) string {
			for _, tenant := range []string{victim, admin} {
				list, err := w.operator(t, tenant).ListInstances(call(t), &nstancev1.ListInstancesRequest{})
				if err != nil {
					return said(err)
				}
				if len(list.Instances) < w.tenants[tenant] {
					return fmt.Sprintf("%d instances of %s, and there were at least %d", len(list.Instances), tenant, w.tenants[tenant])
				}
				for _, in := range list.Instances {
					if in.Condemned != nil || in.Tenant != tenant {
						return in.String()
					}
				}
			}
			return "all are there"
		}},
		{"S12", "after all of it: the groups of others", "none is paused, deleted or changed", func(t *testing.T, w *world) string {
			for _, tenant := range []string{victim, admin} {
				list, err := w.operator(t, tenant).ListGroups(call(t), &emptypb.Empty{})
				if err != nil {
					return said(err)
				}
				for _, g := range list.Groups {
					if g.Pause != nil || g.Deleting || g.Suspended || g.Tenant != tenant || g.Manager != "" {
						return g.String()
					}
				}
			}
			return "none is paused, deleted or changed"
		}},
	}
}
