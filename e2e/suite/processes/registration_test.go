package processes_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/pki"
)

// newcomer speaks to the registration port of a box.
type newcomer struct {
	t      *testing.T
	client nstancev1.RegistrationServiceClient
}

func newNewcomer(t *testing.T, b *box.Box) newcomer {
	t.Helper()
	settings, err := box.AnonymousTLS(filepath.Join(b.Identity(), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := b.Leader()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := box.Dial(addrs.Registration, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return newcomer{t, nstancev1.NewRegistrationServiceClient(conn)}
}

func (n newcomer) agent(req *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), box.CallTimeout)
	defer cancel()
	return n.client.RegisterAgent(ctx, req)
}

func (n newcomer) operator(req *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), box.CallTimeout)
	defer cancel()
	return n.client.RegisterOperator(ctx, req)
}

// keyOf returns the private key of a machine.
func keyOf(t *testing.T, b *box.Box, id string) ed25519.PrivateKey {
	t.Helper()
	text, err := os.ReadFile(b.Path("machines", id, "identity", "identity.key"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pki.ParsePrivateKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys[0]
}

var tokenForm = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// nonceOf returns the nonce that a machine was made with.
func nonceOf(t *testing.T, b *box.Box, id string) string {
	t.Helper()
	userdata, err := os.ReadFile(b.Path("machines", id, "userdata"))
	if err != nil {
		t.Fatal(err)
	}
	token := tokenForm.FindString(string(userdata))
	if token == "" {
		t.Fatalf("the user data of %s has no nonce", id)
	}
	return token
}

// checkRefusal compares an error with the code and reason that it must have.
func checkRefusal(t *testing.T, what string, err error, code codes.Code, reason string) {
	t.Helper()
	if got := status.Code(err); got != code || reasonOf(err) != reason {
		t.Errorf("%s: %s %s (%v), and must be %s %s", what, got, reasonOf(err), err, code, reason)
	}
}

func TestS9_NonceLetsOneKeyIn(t *testing.T) {
	t.Parallel()
	b, p := up(t, 1)
	id := b.RecordIDs()[0]
	token, key := nonceOf(t, b, id), keyOf(t, b, id)

	check := func(when string) {
		t.Helper()
		n := newNewcomer(t, b)
		_, err := n.agent(box.Registration(t, token, box.NewKey(t)))
		checkRefusal(t, when+", another key", err, codes.AlreadyExists, "ALREADY_REGISTERED")
		again, err := n.agent(box.Registration(t, token, key))
		if err != nil {
			t.Fatalf("%s, the same key: %v", when, err)
		}
		if leaf := parseLeaf(t, again.ClientCertificatePem); leaf.Subject.CommonName != id || !key.Public().(ed25519.PublicKey).Equal(leaf.PublicKey) {
			t.Errorf("%s, the same key: a certificate for %s", when, leaf.Subject)
		}
	}
	check("at once")

	// What another key was refused, it is refused by every later server too (F39).
	p.Kill()
	if err := os.RemoveAll(b.Path("cache")); err != nil {
		t.Fatal(err)
	}
	b.Dev(1)
	b.Await("the shard is served again", func() error {
		_, err := b.Groups()
		return err
	})
	check("after the loss of server and cache")
	if !strings.Contains(b.AdminOK("instance", "list", "-o", "name").Out, id) {
		t.Errorf("%s is not listed any more", id)
	}
}

func parseLeaf(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("the answer has no certificate")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

func TestF42_ForgedTokensAreRefused(t *testing.T) {
	t.Parallel()
	b, _ := up(t, 1)
	id := b.RecordIDs()[0]
	good := nonceOf(t, b, id)
	claims, err := identity.DecodeNonceUnverified(good)
	if err != nil {
		t.Fatal(err)
	}
	signing := nonceKeys(t, b)
	n := newNewcomer(t, b)
	for what, token := range forgeries(t, good, claims, signing) {
		_, err := n.agent(box.Registration(t, token, box.NewKey(t)))
		checkRefusal(t, what, err, codes.PermissionDenied, "REGISTRATION_REFUSED")
	}

	// A stolen nonce is no use without the key that goes with it either.
	stranger, owner := box.NewKey(t), box.NewKey(t)
	req := box.Registration(t, good, owner)
	req.Proof = identity.SignProof(stranger, good)
	_, err = n.agent(req)
	checkRefusal(t, "a key that the caller does not hold", err, codes.InvalidArgument, "INVALID_PROOF")
	req = box.Registration(t, good, owner)
	req.PublicKeyPem = curveKey(t)
	_, err = n.agent(req)
	checkRefusal(t, "a key of another kind", err, codes.InvalidArgument, "INVALID_KEY")
}

// nonceKeys returns the keys with which the cluster signs its nonces.
func nonceKeys(t *testing.T, b *box.Box) []ed25519.PrivateKey {
	t.Helper()
	keys, err := pki.EnsureNonceKeys(t.Context(), b.Secrets(), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// forgeries returns tokens that must not let anybody in, by what is wrong with
// them. Those that the cluster's own key signed are what a thief of nonces, or a
// mistake, could produce.
func forgeries(t *testing.T, good string, claims identity.NonceClaims, keys []ed25519.PrivateKey) map[string]string {
	t.Helper()
	signed := func(keys []ed25519.PrivateKey, change func(*identity.NonceClaims)) string {
		c := claims
		change(&c)
		signer, err := pki.NewNonceSigner(keys, nil)
		if err != nil {
			t.Fatal(err)
		}
		token, err := signer.Sign(c)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	unknown, err := identity.NewID("dev")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	now := time.Now().Unix()
	kid := pki.KeyID(keys[0].Public().(ed25519.PublicKey))
	return map[string]string{
		"expired":               signed(keys, func(c *identity.NonceClaims) { c.IssuedAt, c.NotBefore, c.ExpiresAt = now-600, now-600, now-60 }),
		"not valid yet":         signed(keys, func(c *identity.NonceClaims) { c.IssuedAt, c.NotBefore, c.ExpiresAt = now+300, now+300, now+600 }),
		"a second nonce":        signed(keys, func(c *identity.NonceClaims) { c.TokenID = "" }),
		"of another cluster":    signed(keys, func(c *identity.NonceClaims) { c.ClusterID = "other" }),
		"of another shard":      signed(keys, func(c *identity.NonceClaims) { c.Shard = "other" }),
		"of another tenant":     signed(keys, func(c *identity.NonceClaims) { c.Tenant = "other" }),
		"for nobody":            signed(keys, func(c *identity.NonceClaims) { c.Subject = string(unknown) }),
		"for an operator":       signed(keys, operatorClaims),
		"signed by a stranger":  signed([]ed25519.PrivateKey{box.NewKey(t)}, func(*identity.NonceClaims) {}),
		"with a known key's id": withSignature(t, map[string]string{"alg": "EdDSA", "typ": "JWT", "kid": kid}, parts[1], func(text []byte) []byte { return ed25519.Sign(box.NewKey(t), text) }),
		"without a signature":   withSignature(t, map[string]string{"alg": "none", "typ": "JWT", "kid": kid}, parts[1], func([]byte) []byte { return nil }),
		"signed with the public key as a password": withSignature(t, map[string]string{"alg": "HS256", "typ": "JWT", "kid": kid}, parts[1], func(text []byte) []byte {
			mac := hmac.New(sha256.New, keys[0].Public().(ed25519.PublicKey))
			mac.Write(text)
			return mac.Sum(nil)
		}),
		"with other claims": parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"kind":"agent"}`)) + "." + parts[2],
		"cut":               good[:len(good)-8],
		"no token":          "nonsense",
		"empty":             "",
	}
}

// operatorClaims turns the claims of an agent's nonce into those of an operator's.
func operatorClaims(c *identity.NonceClaims) {
	*c = identity.NonceClaims{
		Kind: identity.NonceOperator, Subject: c.ClusterID, ClusterID: c.ClusterID, Tenant: c.Tenant,
		IssuedAt: c.IssuedAt, NotBefore: c.NotBefore, ExpiresAt: c.ExpiresAt,
	}
}

// withSignature makes a token with any header and signature.
func withSignature(t *testing.T, header map[string]string, payload string, sign func([]byte) []byte) string {
	t.Helper()
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	signed := base64.RawURLEncoding.EncodeToString(text) + "." + payload
	return signed + "." + base64.RawURLEncoding.EncodeToString(sign([]byte(signed)))
}

// curveKey returns a public key that is good, and not of Ed25519.
func curveKey(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func TestS9_OperatorNonceLetsOneKeyIn(t *testing.T) {
	t.Parallel()
	b, _ := up(t, 1)
	token, key := b.OperatorNonce(identity.DefaultTenant), box.NewKey(t)

	n := newNewcomer(t, b)
	first, err := n.operator(box.Registration(t, token, key))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.operator(box.Registration(t, token, key)); err != nil {
		t.Errorf("the same key again: %v", err)
	}
	_, err = n.operator(box.Registration(t, token, box.NewKey(t)))
	checkRefusal(t, "another key", err, codes.AlreadyExists, "ALREADY_REGISTERED")
	_, err = n.agent(box.Registration(t, token, box.NewKey(t)))
	checkRefusal(t, "as an agent", err, codes.PermissionDenied, "REGISTRATION_REFUSED")
	_, err = n.operator(box.Registration(t, nonceOf(t, b, b.RecordIDs()[0]), box.NewKey(t)))
	checkRefusal(t, "an agent's nonce", err, codes.PermissionDenied, "REGISTRATION_REFUSED")

	// The certificate is good for what it says.
	dir := b.Path("newcomer")
	writeIdentity(t, b, dir, first.ClientCertificatePem, key)
	addrs, err := b.Leader()
	if err != nil {
		t.Fatal(err)
	}
	client, err := b.Operator(addrs.Operator, dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), box.CallTimeout)
	defer cancel()
	if _, err := client.ListGroups(ctx, &emptypb.Empty{}); err != nil {
		t.Errorf("with its certificate: %v", err)
	}
}

// writeIdentity makes a folder as [box.ClientTLS] reads it.
func writeIdentity(t *testing.T, b *box.Box, dir string, cert []byte, key ed25519.PrivateKey) {
	t.Helper()
	ca, err := os.ReadFile(filepath.Join(b.Identity(), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	private, err := pki.EncodePrivateKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"ca.crt": ca, "identity.crt": cert, "identity.key": private} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
