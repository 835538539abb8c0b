package hostile

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"nstance.dev/e2e/env/box"
	"nstance.dev/server/pki"
)

// forged is a token that is made of a proper one.
type forged struct {
	name  string
	forge func(t *testing.T, w *world, k *token) string
}

func randomHex(t *testing.T) string {
	t.Helper()
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(id)
}

// signers are tokens that say all the right things and that somebody else signed.
var signers = []forged{
	{"a stranger's signature", func(t *testing.T, _ *world, k *token) string {
		k.key = box.NewKey(t)
		return k.sign(t)
	}},
	{"a stranger's signature and key id", func(t *testing.T, _ *world, k *token) string {
		k.key = box.NewKey(t)
		k.header["kid"] = pki.KeyID(k.key.Public().(ed25519.PublicKey))
		return k.sign(t)
	}},
	{"the authority's signature", func(t *testing.T, w *world, k *token) string {
		k.key = w.caKey
		return k.sign(t)
	}},
	{"the authority's signature and key id", func(t *testing.T, w *world, k *token) string {
		k.key = w.caKey
		k.header["kid"] = pki.KeyID(w.caKey.Public().(ed25519.PublicKey))
		return k.sign(t)
	}},
	{"the signature of another token", func(t *testing.T, w *world, k *token) string {
		return k.signedBy(t, func([]byte) []byte { return signatureOf(t, w.victim.token) })
	}},
	{"a signature of zeros", func(t *testing.T, _ *world, k *token) string {
		return k.signedBy(t, func([]byte) []byte { return make([]byte, ed25519.SignatureSize) })
	}},
	{"a signature that fits the neutral point", func(t *testing.T, _ *world, k *token) string {
		return k.signedBy(t, func([]byte) []byte { return proofOfNothing() })
	}},
	{"a signature of half the length", func(t *testing.T, _ *world, k *token) string {
		return k.signedBy(t, func(text []byte) []byte { return ed25519.Sign(k.key, text)[:32] })
	}},
	{"a signature with a byte more", func(t *testing.T, _ *world, k *token) string {
		return k.signedBy(t, func(text []byte) []byte { return append(ed25519.Sign(k.key, text), 0) })
	}},
	{"no signature", func(t *testing.T, _ *world, k *token) string {
		return k.signedBy(t, func([]byte) []byte { return nil })
	}},
	{"a signature with its scalar raised by the group's order", func(t *testing.T, _ *world, k *token) string {
		return k.signedBy(t, func(text []byte) []byte { return raised(ed25519.Sign(k.key, text)) })
	}},
	{"a signature over the claims alone", func(t *testing.T, _ *world, k *token) string {
		return k.signedBy(t, func(text []byte) []byte {
			_, claims, _ := bytes.Cut(text, []byte("."))
			return ed25519.Sign(k.key, claims)
		})
	}},
	{"claims changed after they were signed", func(t *testing.T, _ *world, k *token) string {
		_, signature, _ := strings.Cut(k.sign(t), ".")
		_, signature, _ = strings.Cut(signature, ".")
		k.claims["tenant"] = "zeta"
		text := k.sign(t)
		return text[:strings.LastIndex(text, ".")+1] + signature
	}},
}

// signedBy writes the token with any signature.
func (k *token) signedBy(t *testing.T, sign func(text []byte) []byte) string {
	t.Helper()
	return seal(encode(t, k.header), encode(t, k.claims), sign)
}

// signatureOf decodes the signature of a token.
func signatureOf(t *testing.T, token string) []byte {
	t.Helper()
	out, err := base64.RawURLEncoding.DecodeString(token[strings.LastIndex(token, ".")+1:])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// proofOfNothing is a signature under the neutral point, of every text.
func proofOfNothing() []byte {
	out := make([]byte, ed25519.SignatureSize)
	out[0] = 1
	return out
}

// groupOrder is that of the subgroup of Ed25519 that is used.
var groupOrder, _ = new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)

// raised is a signature with another scalar that means the same.
func raised(signature []byte) []byte {
	out := bytes.Clone(signature)
	scalar := out[32:]
	reverse(scalar)
	new(big.Int).Add(new(big.Int).SetBytes(scalar), groupOrder).FillBytes(scalar)
	reverse(scalar)
	return out
}

func reverse(b []byte) {
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
}

// algorithms are tokens whose header names another algorithm than the one there is.
var algorithms = func() (all []forged) {
	for _, name := range []string{"none", "None", "NONE", "nOnE", "none "} {
		all = append(all, named(name))
	}
	all = append(all, forged{"algorithm none without a signature", func(t *testing.T, _ *world, k *token) string {
		k.header["alg"] = "none"
		return k.signedBy(t, func([]byte) []byte { return nil })
	}}, forged{"algorithm none and two parts", func(t *testing.T, _ *world, k *token) string {
		k.header["alg"] = "none"
		return strings.TrimSuffix(k.signedBy(t, func([]byte) []byte { return nil }), ".")
	}})
	for _, name := range []string{"", "eddsa", "EDDSA", "Ed25519", "Ed448", "EdDSA ", "HS256", "RS256", "PS256", "ES256K"} {
		all = append(all, named(name))
	}
	for _, password := range publicForms {
		all = append(all, forged{"HS256 with the public key as a password: " + password.name, func(t *testing.T, _ *world, k *token) string {
			k.header["alg"] = "HS256"
			return k.signedBy(t, macWith(password.of(t, k.key.Public().(ed25519.PublicKey))))
		}})
	}
	return append(all, []forged{
		{"EdDSA with an HMAC of the public key", func(t *testing.T, _ *world, k *token) string {
			return k.signedBy(t, macWith(k.key.Public().(ed25519.PublicKey)))
		}},
		{"ES256 with a stranger's key", func(t *testing.T, _ *world, k *token) string {
			k.header["alg"] = "ES256"
			key := curveKey(t)
			return k.signedBy(t, func(text []byte) []byte {
				sum := sha256.Sum256(text)
				r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
				if err != nil {
					t.Fatal(err)
				}
				out := make([]byte, 64)
				r.FillBytes(out[:32])
				s.FillBytes(out[32:])
				return out
			})
		}},
		{"RS256 with a stranger's key", func(t *testing.T, _ *world, k *token) string {
			k.header["alg"] = "RS256"
			key := rsaKey(t)
			return k.signedBy(t, func(text []byte) []byte {
				sum := sha256.Sum256(text)
				out, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
				if err != nil {
					t.Fatal(err)
				}
				return out
			})
		}},
	}...)
}()

// named is a proper token whose header names another algorithm.
func named(algorithm string) forged {
	return forged{"algorithm \"" + algorithm + "\"", func(t *testing.T, _ *world, k *token) string {
		k.header["alg"] = algorithm
		return k.sign(t)
	}}
}

func macWith(password []byte) func([]byte) []byte {
	return func(text []byte) []byte {
		mac := hmac.New(sha256.New, password)
		mac.Write(text)
		return mac.Sum(nil)
	}
}

// publicForms are ways in which a verifier could hold the public key.
var publicForms = []struct {
	name string
	of   func(*testing.T, ed25519.PublicKey) []byte
}{
	{"raw", func(_ *testing.T, key ed25519.PublicKey) []byte { return key }},
	{"DER", derOf},
	{"PEM", func(t *testing.T, key ed25519.PublicKey) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: derOf(t, key)})
	}},
	{"hex", func(_ *testing.T, key ed25519.PublicKey) []byte { return []byte(hex.EncodeToString(key)) }},
	{"base64", func(_ *testing.T, key ed25519.PublicKey) []byte {
		return []byte(base64.StdEncoding.EncodeToString(key))
	}},
}

func derOf(t *testing.T, key ed25519.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func curveKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
