package pki_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"nstance.dev/protos/identity"
	"nstance.dev/server/pki"
)

func claims() identity.NonceClaims {
	return identity.NonceClaims{
		Kind: identity.NonceAgent, Subject: agentID.String(), ClusterID: cluster, Tenant: "default",
		Shard: shard, Group: "web", ConfigHash: "sha256:0a1b",
		IssuedAt: start.Unix(), NotBefore: start.Unix(), ExpiresAt: start.Add(5 * time.Minute).Unix(),
		TokenID: "00112233445566778899aabbccddeeff",
	}
}

func newNonces(t testing.TB, keys ...ed25519.PrivateKey) (*pki.NonceSigner, *pki.NonceVerifier) {
	t.Helper()
	signer, err := pki.NewNonceSigner(keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	return signer, pki.NewNonceVerifier(cluster, keys)
}

func mustSign(t testing.TB, s *pki.NonceSigner, c identity.NonceClaims) string {
	t.Helper()
	token, err := s.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// byHand signs any header and claims, as a forger who had the key could.
func byHand(key ed25519.PrivateKey, header, claims string) string {
	e := base64.RawURLEncoding
	text := e.EncodeToString([]byte(header)) + "." + e.EncodeToString([]byte(claims))
	return text + "." + e.EncodeToString(ed25519.Sign(key, []byte(text)))
}

func TestNonceSignAndVerify(t *testing.T) {
	_, key := newKey(t)
	signer, verifier := newNonces(t, key)
	operator := identity.NonceClaims{
		Kind: identity.NonceOperator, Subject: cluster, ClusterID: cluster, Tenant: "default",
		IssuedAt: start.Unix(), ExpiresAt: start.Add(3 * time.Hour).Unix(),
	}
	filled, err := verifier.Verify(mustSign(t, signer, operator), start)
	if err != nil || len(filled.TokenID) != 32 || filled.NotBefore != operator.IssuedAt {
		t.Errorf("claims %+v, %v", filled, err)
	}
	token := mustSign(t, signer, claims())
	got, err := verifier.Verify(token, start)
	if diff := cmp.Diff(claims(), got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if unverified, err := identity.DecodeNonceUnverified(token); err != nil || unverified != got {
		t.Errorf("unverified %+v, %v", unverified, err)
	}
	if len(pki.HashNonce(token)) != 64 || pki.HashNonce(token) == pki.HashNonce(token+"x") {
		t.Error("the hash is not a SHA-256 in hex")
	}
}

func TestNonceKeysAreReplacedWithoutAGap(t *testing.T) {
	_, older := newKey(t)
	_, newer := newKey(t)
	oldSigner, _ := newNonces(t, older)
	signer, verifier := newNonces(t, newer, older)
	for name, token := range map[string]string{"older": mustSign(t, oldSigner, claims()), "newer": mustSign(t, signer, claims())} {
		if _, err := verifier.Verify(token, start); err != nil {
			t.Errorf("signed by the %s key: %v", name, err)
		}
	}
	if header, err := identity.DecodeNonceHeader(mustSign(t, signer, claims())); err != nil || header.KeyID != pki.KeyID(newer.Public().(ed25519.PublicKey)) {
		t.Errorf("the key id is %q, %v", header.KeyID, err)
	}
}

func TestS10_NonceTimes(t *testing.T) {
	_, key := newKey(t)
	signer, verifier := newNonces(t, key)
	token := mustSign(t, signer, claims())
	for name, tt := range map[string]struct {
		at time.Duration
		ok bool
	}{
		"31 s before its beginning": {-31 * time.Second, false},
		"30 s before its beginning": {-30 * time.Second, true},
		"in time":                   {time.Minute, true},
		"29 s after its end":        {5*time.Minute + 29*time.Second, true},
		"31 s after its end":        {5*time.Minute + 31*time.Second, false},
	} {
		if _, err := verifier.Verify(token, start.Add(tt.at)); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want it accepted: %v", name, err, tt.ok)
		}
	}
}

func TestF42_ForgedNonces(t *testing.T) {
	public, key := newKey(t)
	_, foreign := newKey(t)
	signer, verifier := newNonces(t, key)
	good := mustSign(t, signer, claims())
	kid := pki.KeyID(public)
	header := `{"alg":"EdDSA","typ":"JWT","kid":"` + kid + `"}`
	data, err := json.Marshal(claims())
	if err != nil {
		t.Fatal(err)
	}
	body := string(data)
	parts := strings.Split(good, ".")
	encode := base64.RawURLEncoding.EncodeToString
	hs256 := encode([]byte(`{"alg":"HS256","typ":"JWT","kid":"`+kid+`"}`)) + "." + parts[1]
	mac := hmac.New(sha256.New, public)
	mac.Write([]byte(hs256))
	none := encode([]byte(`{"alg":"none","kid":"` + kid + `"}`))
	change := func(f func(*identity.NonceClaims)) string {
		c := claims()
		f(&c)
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return byHand(key, header, string(data))
	}
	for _, tt := range []struct {
		name, token string
		cheap       bool // found out without a signature check
	}{
		{"algorithm none, no signature", none + "." + parts[1] + ".", true},
		{"algorithm none, a signature", none + "." + parts[1] + "." + parts[2], true},
		{"HMAC with the public key", hs256 + "." + encode(mac.Sum(nil)), true},
		{"unknown key id", byHand(key, `{"alg":"EdDSA","kid":"00000000"}`, body), true},
		{"no key id", byHand(key, `{"alg":"EdDSA"}`, body), true},
		{"key in the header", byHand(foreign, `{"alg":"EdDSA","kid":"`+kid+`","jwk":"x"}`, body), true},
		{"unencoded payload", byHand(key, `{"alg":"EdDSA","kid":"`+kid+`","b64":false,"crit":["b64"]}`, body), true},
		{"a megabyte", strings.Repeat("a", 1<<20), true},
		{"empty", "", true},
		{"another spelling of it", good + "\n", true},
		{"another cluster's key", byHand(foreign, header, body), false},
		{"claims of another token", parts[0] + "." + encode([]byte(strings.Replace(body, "default", "victim", 1))) + "." + parts[2], false},
		{"empty claims", byHand(key, header, "{}"), false},
		{"claims null", byHand(key, header, "null"), false},
		{"duplicate claims", byHand(key, header, `{"tenant":"other",`+body[1:]), false},
		{"duplicate claims in another case", byHand(key, header, `{"Tenant":"other",`+body[1:]), false},
		{"expired", change(func(c *identity.NonceClaims) {
			c.IssuedAt, c.NotBefore, c.ExpiresAt = c.IssuedAt-9000, c.NotBefore-9000, c.ExpiresAt-9000
		}), false},
		{"not yet valid", change(func(c *identity.NonceClaims) { c.NotBefore += 60 }), false},
		{"issued in the future", change(func(c *identity.NonceClaims) { c.IssuedAt += 60 }), false},
		{"without end", change(func(c *identity.NonceClaims) { c.ExpiresAt = 0 }), false},
		{"another cluster", change(func(c *identity.NonceClaims) { c.ClusterID = "other" }), false},
		{"another kind", change(func(c *identity.NonceClaims) { c.Kind = "root" }), false},
		{"no shard", change(func(c *identity.NonceClaims) { c.Shard = "" }), false},
		{"no token id", change(func(c *identity.NonceClaims) { c.TokenID = "" }), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := verifier.Verify(tt.token, start)
			if !errors.Is(err, pki.ErrNonce) || c != (identity.NonceClaims{}) {
				t.Fatalf("claims %+v, error %v, want ErrNonce", c, err)
			}
			if err.Error() != pki.ErrNonce.Error() {
				t.Errorf("the error says %q, more than it should", err)
			}
			if e, ok := errors.AsType[*pki.NonceError](err); !ok || e.Reason == nil || e.Reason.Error() == "" {
				t.Error("there is no reason for the log")
			} else if len(tt.token) > 0 && strings.Contains(e.Reason.Error(), tt.token) {
				t.Error("the reason for the log contains the token")
			}
			if err := verifier.CheckForm(tt.token); (err != nil) != tt.cheap {
				t.Errorf("CheckForm: %v, want an error: %v", err, tt.cheap)
			}
		})
	}
}

func TestBadClaimsAreNotSigned(t *testing.T) {
	_, key := newKey(t)
	signer, _ := newNonces(t, key)
	c := claims()
	c.Tenant = "../x"
	if token, err := signer.Sign(c); !errors.Is(err, identity.ErrNonceForm) || token != "" {
		t.Errorf("Sign = %q, %v, want ErrNonceForm", token, err)
	}
	if _, err := pki.NewNonceSigner(nil, nil); err == nil {
		t.Error("a signer without a key")
	}
}

func FuzzNonceVerify(f *testing.F) {
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", 32)))
	signer, verifier := newNonces(f, key)
	good := mustSign(f, signer, claims())
	f.Add(good)
	f.Add(good + ".")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		c, err := verifier.Verify(token, start)
		if err != nil && !errors.Is(err, pki.ErrNonce) {
			t.Fatalf("an error of another kind: %v", err)
		}
		if err == nil && (token != good || c != claims()) {
			t.Fatalf("forged: %q", token)
		}
	})
}
