package identity_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"nstance.dev/protos/identity"
)

func agentClaims() identity.NonceClaims {
	return identity.NonceClaims{
		Kind: identity.NonceAgent, Subject: vectors[0].id, ClusterID: "example", Tenant: "default",
		Shard: "us-west-2a", Group: "web", OnDemand: true, ConfigHash: "sha256:0a1b",
		IssuedAt: 1_800_000_000, NotBefore: 1_800_000_000, ExpiresAt: 1_800_000_300,
		TokenID: "00112233445566778899aabbccddeeff",
	}
}

func operatorClaims() identity.NonceClaims {
	return identity.NonceClaims{
		Kind: identity.NonceOperator, Subject: "example", ClusterID: "example", Tenant: "default",
		IssuedAt: 1_800_000_000, NotBefore: 1_800_000_000, ExpiresAt: 1_800_010_800,
		TokenID: "00112233445566778899aabbccddeeff",
	}
}

const goodHeader = `{"alg":"EdDSA","typ":"JWT","kid":"0a1b2c3d"}`

func token(header, claims string) string {
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(header)) + "." + e.EncodeToString([]byte(claims)) + "." + e.EncodeToString([]byte("signature"))
}

func marshal(t testing.TB, c identity.NonceClaims) string {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestDecodeNonceUnverified(t *testing.T) {
	for _, want := range []identity.NonceClaims{agentClaims(), operatorClaims()} {
		got, err := identity.DecodeNonceUnverified(token(goodHeader, marshal(t, want)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("claims differ (-want +got):\n%s", diff)
		}
	}
}

func TestAnOperatorsNonceHasNoClaimsOfAnAgent(t *testing.T) {
	for _, name := range []string{"shard", "group", "on_demand", "config_hash"} {
		if s := marshal(t, operatorClaims()); strings.Contains(s, name) {
			t.Errorf("%s names %s", s, name)
		}
	}
}

func TestF42_MalformedNonces(t *testing.T) {
	good := marshal(t, agentClaims())
	insert := func(claim string) string { return "{" + claim + "," + good[1:] }
	for _, tt := range []struct{ name, token, says string }{
		{"empty", "", "three parts"},
		{"one part", "abc", "three parts"},
		{"two parts", "a.b", "three parts"},
		{"four parts", "a.b.c.d", "three parts"},
		{"no signature", "e30.e30.", "three parts"},
		{"a megabyte", strings.Repeat("a", 1<<20), "at most 4096"},
		{"header is no base64url", "e3.e30.AA", "base64url"},
		{"header with a line break", "e3\n0.e30.AA", "character"},
		{"signature with a line break", token(goodHeader, good) + "\n", "character"},
		{"padding", "e30=.e30.AA", "character"},
		{"header is no object", token(`"EdDSA"`, good), "JSON object"},
		{"algorithm none", token(`{"alg":"none","kid":"0a1b2c3d"}`, good), "alg"},
		{"algorithm HS256", token(`{"alg":"HS256","kid":"0a1b2c3d"}`, good), "alg"},
		{"algorithm in lower case", token(`{"alg":"eddsa","kid":"0a1b2c3d"}`, good), "alg"},
		{"two algorithms", token(`{"alg":"EdDSA","alg":"none","kid":"0a1b2c3d"}`, good), `"alg" comes twice`},
		{"algorithm in upper case too", token(`{"alg":"EdDSA","ALG":"none","kid":"0a1b2c3d"}`, good), `"ALG" comes twice`},
		{"no key id", token(`{"alg":"EdDSA"}`, good), "kid is missing"},
		{"key in the header", token(`{"alg":"EdDSA","kid":"0a1b2c3d","jwk":"x"}`, good), `"jwk" is not known`},
		{"another type", token(`{"alg":"EdDSA","typ":"JWE","kid":"0a1b2c3d"}`, good), "typ"},
		{"claims are no JSON", token(goodHeader, "{"), "JSON"},
		{"claims with a tail", token(goodHeader, good+"{}"), "JSON"},
		{"claims null", token(goodHeader, "null"), "JSON object"},
		{"claims empty", token(goodHeader, "{}"), "kind"},
		{"a claim twice", token(goodHeader, insert(`"tenant":"other"`)), `"tenant" comes twice`},
		{"a claim twice in another case", token(goodHeader, insert(`"TENANT":"other"`)), `lower case`},
		{"a claim twice by an escape", token(goodHeader, insert(`"tenan\u0074":"other"`)), `"tenant" comes twice`},
		{"a claim in upper case", token(goodHeader, strings.Replace(good, `"tenant"`, `"Tenant"`, 1)), "lower case"},
		{"a nested claim", token(goodHeader, insert(`"x":{"y":1}`)), `"x" is not a string`},
		{"a claim null", token(goodHeader, insert(`"x":null`)), `"x" is not a string`},
		{"time as text", token(goodHeader, strings.Replace(good, `1800000300`, `"1800000300"`, 1)), "exp"},
		{"time as fraction", token(goodHeader, strings.Replace(good, `1800000300`, `1800000300.5`, 1)), "exp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := identity.DecodeNonceUnverified(tt.token)
			if !errors.Is(err, identity.ErrNonceForm) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want one that says %q", err, tt.says)
			}
			if c != (identity.NonceClaims{}) {
				t.Errorf("claims %+v beside an error", c)
			}
		})
	}
}

func TestUnknownClaimsAreIgnored(t *testing.T) {
	claims := `{"of_a_later_version":"x",` + marshal(t, agentClaims())[1:]
	got, err := identity.DecodeNonceUnverified(token(goodHeader, claims))
	if err != nil || got != agentClaims() {
		t.Errorf("claims %+v, error %v", got, err)
	}
}

func TestS10_NonceClaimsValidate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		from  identity.NonceClaims
		spoil func(*identity.NonceClaims)
		says  string
	}{
		{"no kind", agentClaims(), func(c *identity.NonceClaims) { c.Kind = "" }, "kind"},
		{"another kind", agentClaims(), func(c *identity.NonceClaims) { c.Kind = "server" }, "kind"},
		{"a subject that is no id", agentClaims(), func(c *identity.NonceClaims) { c.Subject = "web-1" }, "sub"},
		{"the id of an operator", agentClaims(), func(c *identity.NonceClaims) { c.Subject = "opr" + c.Subject[3:] }, "sub"},
		{"no cluster", agentClaims(), func(c *identity.NonceClaims) { c.ClusterID = "" }, "cluster_id"},
		{"a tenant that is a path", agentClaims(), func(c *identity.NonceClaims) { c.Tenant = "../x" }, "tenant"},
		{"no shard", agentClaims(), func(c *identity.NonceClaims) { c.Shard = "" }, "shard"},
		{"no group", agentClaims(), func(c *identity.NonceClaims) { c.Group = "" }, "group"},
		{"a hash with a line break", agentClaims(), func(c *identity.NonceClaims) { c.ConfigHash = "a\nb" }, "config_hash"},
		{"no end", agentClaims(), func(c *identity.NonceClaims) { c.ExpiresAt = 0 }, "exp"},
		{"no beginning", agentClaims(), func(c *identity.NonceClaims) { c.NotBefore = 0 }, "nbf"},
		{"an end beyond all clocks", agentClaims(), func(c *identity.NonceClaims) { c.ExpiresAt = 1 << 62 }, "out of range"},
		{"an end before the beginning", agentClaims(), func(c *identity.NonceClaims) { c.ExpiresAt = c.NotBefore }, "exp is not after"},
		{"no token id", agentClaims(), func(c *identity.NonceClaims) { c.TokenID = "" }, "jti"},
		{"an operator of another cluster", operatorClaims(), func(c *identity.NonceClaims) { c.Subject = "other" }, "sub"},
		{"an operator with a shard", operatorClaims(), func(c *identity.NonceClaims) { c.Shard = "a" }, "only the nonce of an agent"},
		{"an agent called operator", agentClaims(), func(c *identity.NonceClaims) { c.Kind = identity.NonceOperator }, "sub"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.from
			if err := c.Validate(); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			tt.spoil(&c)
			err := c.Validate()
			if !errors.Is(err, identity.ErrNonceForm) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Validate() = %v, want an error that says %q", err, tt.says)
			}
		})
	}
}

func FuzzDecodeNonceUnverified(f *testing.F) {
	f.Add(token(goodHeader, marshal(f, agentClaims())))
	f.Add(token(goodHeader, marshal(f, operatorClaims())))
	f.Add(token(`{"alg":"none"}`, "{}"))
	f.Add("..")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := identity.DecodeNonceUnverified(s)
		if err != nil {
			if !errors.Is(err, identity.ErrNonceForm) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("accepted claims do not validate: %v", err)
		}
		again, err := identity.DecodeNonceUnverified(token(goodHeader, marshal(t, c)))
		if err != nil || again != c {
			t.Fatalf("claims change when written and read again: %+v, %+v, %v", c, again, err)
		}
	})
}

func FuzzNonceClaimsJSON(f *testing.F) {
	f.Add([]byte(marshal(f, agentClaims())))
	f.Add([]byte(`{"kind":"agent","KIND":"operator"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c identity.NonceClaims
		if json.Unmarshal(data, &c) != nil {
			return
		}
		var fields map[string]any
		if json.Unmarshal(data, &fields) == nil && fields["tenant"] != nil && fields["tenant"] != c.Tenant {
			t.Fatalf("two readers of %q see tenants %v and %q", data, fields["tenant"], c.Tenant)
		}
	})
}
