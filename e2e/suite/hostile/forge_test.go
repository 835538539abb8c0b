package hostile

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/url"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	"nstance.dev/server/pki"
)

// forgery is a certificate that is to be made: what the authority would issue to somebody,
// with changes, and whoever signs it.
type forgery struct {
	x509.Certificate
	key    crypto.Signer     // of the owner
	signer crypto.Signer     // the cluster's own key unless changed
	parent *x509.Certificate // of signer
	below  [][]byte          // certificates that are sent with it
}

// agentOf is a forgery that says what the certificate of an instance of this shard says.
func (w *world) agentOf(t *testing.T, tenant string, id identity.ID) *forgery {
	t.Helper()
	return w.forgeryOf(t, identity.RoleAgent, id.String(), tenant, identity.AgentURI(box.Cluster, box.Shard, id))
}

// operatorOf is a forgery that says what the certificate of an operator says.
func (w *world) operatorOf(t *testing.T, tenant string, id identity.ID) *forgery {
	t.Helper()
	return w.forgeryOf(t, identity.RoleOperator, box.Cluster, tenant, identity.OperatorURI(box.Cluster, id))
}

func (w *world) forgeryOf(t *testing.T, role identity.Role, commonName, tenant string, uri *url.URL) *forgery {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		t.Fatal(err)
	}
	return &forgery{
		Certificate: x509.Certificate{
			SerialNumber: serial, Subject: pkix.Name{CommonName: commonName, Organization: []string{tenant}}, URIs: []*url.URL{uri},
			NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			ExtraExtensions: []pkix.Extension{identity.RoleExtension(role)}, BasicConstraintsValid: true,
		},
		key: box.NewKey(t), signer: w.caKey, parent: w.authority,
	}
}

// twinOf is a forgery that says all that a genuine certificate says, for the same key.
func (w *world) twinOf(t *testing.T, cert tls.Certificate) *forgery {
	t.Helper()
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	key, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		t.Fatal("the owner's key does not sign")
	}
	out := &forgery{
		Certificate: x509.Certificate{
			SerialNumber: leaf.SerialNumber, Subject: leaf.Subject, URIs: leaf.URIs, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
			KeyUsage: leaf.KeyUsage, ExtKeyUsage: leaf.ExtKeyUsage, BasicConstraintsValid: true,
		},
		key: key, signer: w.caKey, parent: w.authority,
	}
	out.Subject.Names = nil // what stands in the fields counts
	for _, e := range leaf.Extensions {
		if e.Id.Equal(identity.RoleOID) {
			out.ExtraExtensions = append(out.ExtraExtensions, e)
		}
	}
	return out
}

// sign makes the certificate.
func (f *forgery) sign(t *testing.T) tls.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, &f.Certificate, f.parent, f.key.Public(), f.signer)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: append([][]byte{der}, f.below...), PrivateKey: f.key}
}

// token is a nonce that is to be made, part by part.
type token struct {
	header map[string]any
	claims map[string]any
	key    ed25519.PrivateKey // the cluster's own unless changed
}

// tokenOf is a token that says what the nonce of a machine says.
func (w *world) tokenOf(t *testing.T, o outstanding) *token {
	t.Helper()
	said, err := identity.DecodeNonceUnverified(o.token)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	key := w.nonceKeys[0]
	out := &token{
		header: map[string]any{"alg": identity.NonceAlgorithm, "typ": "JWT", "kid": pki.KeyID(key.Public().(ed25519.PublicKey))},
		key:    key,
	}
	if err := json.Unmarshal(text, &out.claims); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"iat", "nbf", "exp"} { // numbers with a fraction are another matter
		out.claims[name] = int64(out.claims[name].(float64))
	}
	return out
}

// with returns a copy of parts with one changed; nil removes it.
func with(parts map[string]any, name string, value any) map[string]any {
	out := maps.Clone(parts)
	out[name] = value
	if value == nil {
		delete(out, name)
	}
	return out
}

// sign writes the token with its signature.
func (k *token) sign(t *testing.T) string {
	t.Helper()
	return seal(encode(t, k.header), encode(t, k.claims), func(text []byte) []byte { return ed25519.Sign(k.key, text) })
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// seal writes a token of any header and claims, with any signature.
func seal(header, claims []byte, sign func(text []byte) []byte) string {
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(sign([]byte(text)))
}
