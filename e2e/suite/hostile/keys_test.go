package hostile

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// outline is code and reason of an answer, without the text.
func outline(answer string) string {
	short, _, _ := strings.Cut(answer, ":")
	return short
}

// badKey is a public key that gets no certificate, with a proof if one can be made.
type badKey struct {
	name string
	weak bool // where it is not refused, it uses a nonce up
	text func(t *testing.T, token string) (key, proof []byte)
}

// keyRefusals are the answers to a bad key: the caller has shown a good nonce, so it may
// know what is wrong.
var keyRefusals = map[door]string{asAgent: "InvalidArgument INVALID_KEY", asOperator: "InvalidArgument INVALID_FIELD"}

func (k badKey) row(as door) attempt {
	return attempt{"F44", string(as) + ": " + k.name, keyRefusals[as], func(t *testing.T, w *world) string {
		token := w.victim.token
		switch {
		case as == asAgent && k.weak:
			token = w.outstanding(t, identity.DefaultTenant).token
		case as == asOperator:
			token = w.operatorToken(t).sign(t)
		}
		req := box.Registration(t, token, box.NewKey(t))
		req.PublicKeyPem, req.Proof = k.text(t, token)
		for as == asOperator && k.weak && bytes.Equal(req.Proof, make([]byte, ed25519.SignatureSize)) {
			req.RegistrationNonceJwt = w.operatorToken(t).sign(t) // another one may have a proof
			_, req.Proof = k.text(t, req.RegistrationNonceJwt)
		}
		return outline(w.ask(t, as, req))
	}}
}

// badKeys are keys of other kinds, other forms, and points under which anybody can sign.
var badKeys = func() (all []badKey) {
	for _, k := range []struct {
		name string
		key  func(t *testing.T) crypto.PublicKey
	}{
		{"a key on the curve P-256", func(t *testing.T) crypto.PublicKey { return curveKey(t).Public() }},
		{"an RSA key", func(t *testing.T) crypto.PublicKey { return rsaKey(t).Public() }},
		{"a key for X25519", func(t *testing.T) crypto.PublicKey {
			key, err := ecdh.X25519().GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			return key.PublicKey()
		}},
	} {
		all = append(all, badKey{k.name, false, func(t *testing.T, _ string) ([]byte, []byte) {
			der, err := x509.MarshalPKIXPublicKey(k.key(t))
			if err != nil {
				t.Fatal(err)
			}
			return pemOf("PUBLIC KEY", der), make([]byte, ed25519.SignatureSize)
		}})
	}
	for _, k := range []struct {
		name string
		text func(der []byte) []byte
	}{
		{"no key", func([]byte) []byte { return nil }},
		{"a key that is no PEM", func(der []byte) []byte { return der }},
		{"a key of 31 bytes", func(der []byte) []byte { return pemOf("PUBLIC KEY", der[:len(der)-1]) }},
		{"a key with bytes behind it", func(der []byte) []byte { return pemOf("PUBLIC KEY", append(bytes.Clone(der), 0)) }},
		{"a key that says that it is private", func(der []byte) []byte { return pemOf("PRIVATE KEY", der) }},
		{"two keys", func(der []byte) []byte { return slices.Concat(pemOf("PUBLIC KEY", der), pemOf("PUBLIC KEY", der)) }},
		{"a key with headers", func(der []byte) []byte {
			return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED"}, Bytes: der})
		}},
		{"a key with 8 KB behind it", func(der []byte) []byte {
			return append(pemOf("PUBLIC KEY", der), bytes.Repeat([]byte("\n"), 8<<10)...)
		}},
	} {
		all = append(all, badKey{k.name, false, func(t *testing.T, token string) ([]byte, []byte) {
			key := box.NewKey(t)
			return k.text(derOf(t, key.Public().(ed25519.PublicKey))), identity.SignProof(key, token)
		}})
	}
	for i, text := range weakPoints {
		name := "a point of small order, " + text[:4] + "…" + text[60:]
		if i == 0 {
			name = "the neutral point as a key, with a proof that anybody can make"
		}
		all = append(all, badKey{name, true, func(t *testing.T, token string) ([]byte, []byte) {
			point := ed25519.PublicKey(unhex(t, text))
			return pemOf("PUBLIC KEY", derOf(t, point)), proofUnder(t, point, token)
		}})
	}
	return all
}()

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// weakPoints are the points of Ed25519 whose order divides 8, the neutral one first, and
// two of them in a form that is not reduced.
var weakPoints = []string{
	"0100000000000000000000000000000000000000000000000000000000000000",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0000000000000000000000000000000000000000000000000000000000000080",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	out, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// proofUnder returns a proof under a weak point, which takes no private key: for most
// tokens one of eight candidates is valid. Else it returns zeros, which are not.
func proofUnder(t *testing.T, point ed25519.PublicKey, token string) []byte {
	t.Helper()
	for _, candidate := range weakPoints[:8] {
		proof := append(unhex(t, candidate), make([]byte, 32)...)
		if ed25519.Verify(point, []byte(token), proof) {
			return proof
		}
	}
	return make([]byte, ed25519.SignatureSize)
}

// badProofs are proofs of somebody who does not hold the private key.
var badProofs = func() (rows []attempt) {
	answers := map[door]string{asAgent: "InvalidArgument INVALID_PROOF", asOperator: "InvalidArgument INVALID_FIELD"}
	for _, p := range []struct {
		name  string
		proof func(t *testing.T, key ed25519.PrivateKey, token string) []byte
	}{
		{"no proof", func(*testing.T, ed25519.PrivateKey, string) []byte { return nil }},
		{"a proof of zeros", func(*testing.T, ed25519.PrivateKey, string) []byte { return make([]byte, ed25519.SignatureSize) }},
		{"a proof by another key", func(t *testing.T, _ ed25519.PrivateKey, token string) []byte {
			return identity.SignProof(box.NewKey(t), token)
		}},
		{"a proof over another token", func(_ *testing.T, key ed25519.PrivateKey, token string) []byte {
			return identity.SignProof(key, token+"x")
		}},
		{"a proof with its scalar raised by the group's order", func(_ *testing.T, key ed25519.PrivateKey, token string) []byte {
			return raised(identity.SignProof(key, token))
		}},
		{"the nonce's own signature as a proof", func(t *testing.T, _ ed25519.PrivateKey, token string) []byte {
			return signatureOf(t, token)
		}},
	} {
		for _, as := range []door{asAgent, asOperator} {
			rows = append(rows, attempt{"S10", string(as) + ": " + p.name, answers[as], func(t *testing.T, w *world) string {
				token := w.victim.token
				if as == asOperator {
					token = w.operatorToken(t).sign(t)
				}
				key := box.NewKey(t)
				req := box.Registration(t, token, key)
				req.Proof = p.proof(t, key, token)
				return outline(w.ask(t, as, req))
			}})
		}
	}
	return rows
}()

// hostnames are names that an agent claims and must not get.
var hostnames = func() (rows []attempt) {
	for _, h := range []struct{ name, claim string }{
		{"a path", "../../etc/hostname"},
		{"a line break", "web\nroot"},
		{"an escape of the terminal", "web\x1b[2J"},
		{"300 characters", strings.Repeat("a", 300)},
		{"a wildcard", "*.example"},
		{"the name of the cluster's services", "kubernetes.default.svc"},
		{"the name of this host", "localhost"},
		{"a server's name", "local.dev.nstance"},
		{"the name of all servers", "nstance-server"},
		{"the id of nobody", "mut068a3cp3thz5z2mv1gejwftabc"},
		{"an address", "10.0.0.1"},
	} {
		rows = append(rows, attempt{"S25", "an agent calls itself by " + h.name, "not called so", func(t *testing.T, w *world) string {
			m := w.member(t, identity.DefaultTenant, func(req *nstancev1.RegisterClientRequest) { req.Hostname = h.claim })
			status, err := w.operator(t, m.tenant).GetInstanceStatus(call(t), &nstancev1.GetInstanceStatusRequest{InstanceId: m.id.String()})
			if err != nil {
				return said(err)
			}
			if status.Hostname == m.id.String() || status.Hostname == "" {
				return "not called so"
			}
			return "called " + status.Hostname
		}})
	}
	return rows
}()
