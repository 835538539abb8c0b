package hostile

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
)

// headers are tokens that the cluster's own key signed, with a header that would change how
// they are read.
var headers = func() (all []forged) {
	for _, h := range []struct {
		name, parameter string
		value           any // nil: it is missing
	}{
		{"no algorithm", "alg", nil},
		{"a list of algorithms", "alg", []string{"EdDSA", "none"}},
		{"the algorithm null", "alg", json.RawMessage("null")},
		{"no key id", "kid", nil},
		{"an empty key id", "kid", ""},
		{"a key id that is a path", "kid", "../../../../dev/null"},
		{"a key id that is the path of a key", "kid", "registration-nonce.key"},
		{"a key id that is an SQL condition", "kid", "x' OR '1'='1"},
		{"a key id that is a command", "kid", "$(touch /tmp/x)"},
		{"a key id that is an address", "kid", "http://127.0.0.1:8990/key"},
		{"a key id of 3 KB", "kid", strings.Repeat("a", 3<<10)},
		{"a key id that is a number", "kid", 1},
		{"a key id that is a list", "kid", []string{"a"}},
		{"a key id that is an object", "kid", map[string]string{"a": "b"}},
		{"the key in the header", "jwk", map[string]string{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}},
		{"the address of keys", "jku", "http://127.0.0.1:8990/jwks"},
		{"a certificate in the header", "x5c", []string{"MIIB"}},
		{"the address of a certificate", "x5u", "http://127.0.0.1:8990/x5u"},
		{"the fingerprint of a certificate", "x5t", "dGVzdA"},
		{"a critical parameter", "crit", []string{"b64"}},
		{"an empty list of critical parameters", "crit", []string{}},
		{"claims that are not encoded", "b64", false},
		{"claims that are compressed", "zip", "DEF"},
		{"another type", "typ", "at+jwt"},
		{"a type in lower case", "typ", "jwt"},
		{"a token in a token", "cty", "JWT"},
		{"an unknown parameter", "x", "y"},
	} {
		all = append(all, forged{h.name, func(t *testing.T, _ *world, k *token) string {
			k.header = with(k.header, h.parameter, h.value)
			return k.sign(t)
		}})
	}
	for _, h := range []struct {
		name string
		kid  func(string) string
	}{
		{"a key id in other characters", otherCharacters},
		{"a key id with a NUL behind it", func(s string) string { return s + "\x00" }},
		{"a key id with a blank behind it", func(s string) string { return s + " " }},
		{"a key id that is cut short", func(s string) string { return s[:len(s)-1] }},
	} {
		all = append(all, forged{h.name, func(t *testing.T, _ *world, k *token) string {
			kid, ok := k.header["kid"].(string)
			if !ok || h.kid(kid) == kid {
				t.Fatalf("the key id %v does not change", k.header["kid"])
			}
			k.header["kid"] = h.kid(kid)
			return k.sign(t)
		}})
	}
	return append(all, []forged{
		{"an algorithm twice", func(t *testing.T, _ *world, k *token) string {
			return k.written(t, `{"alg":"none",`+string(encode(t, k.header))[1:], string(encode(t, k.claims)))
		}},
		{"a parameter in capitals beside it", func(t *testing.T, _ *world, k *token) string {
			return k.written(t, `{"ALG":"none",`+string(encode(t, k.header))[1:], string(encode(t, k.claims)))
		}},
		{"a header that is a list", func(t *testing.T, _ *world, k *token) string {
			return k.written(t, "["+string(encode(t, k.header))+"]", string(encode(t, k.claims)))
		}},
		{"a second header behind the first", func(t *testing.T, _ *world, k *token) string {
			return k.written(t, string(encode(t, k.header))+"{}", string(encode(t, k.claims)))
		}},
	}...)
}()

// otherCharacters is a key id, eight hexadecimal digits, as careless readers would take it for the same:
// in capitals, or with a full-width digit if it has no letter.
func otherCharacters(id string) string {
	if capitals := strings.ToUpper(id); capitals != id {
		return capitals
	}
	const wide = '０' - '0'
	return string(rune(id[0])+wide) + id[1:]
}

// written is the token with any text as header and claims, signed by the cluster's own key.
func (k *token) written(t *testing.T, header, claims string) string {
	t.Helper()
	return seal([]byte(header), []byte(claims), func(text []byte) []byte { return ed25519.Sign(k.key, text) })
}

// claimForms are tokens that the cluster's own key signed, with claims in a form that two
// readers could take for different things, or of somebody else.
var claimForms = func() (all []forged) {
	for _, c := range []struct{ name, front string }{
		{"the tenant twice", `"tenant":"default",`},
		{"the tenant twice, once in capitals", `"TENANT":"default",`},
		{"the kind twice", `"kind":"operator",`},
		{"the kind twice, once with a capital", `"Kind":"operator",`},
		{"the end twice", `"exp":9999999999,`},
		{"the end twice, once with an escape", `"\u0065xp":9999999999,`},
		{"an object among the claims", `"x":{"tenant":"zeta"},`},
		{"a list among the claims", `"x":[1],`},
		{"a thousand lists in each other", `"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `,`},
	} {
		all = append(all, forged{c.name, func(t *testing.T, _ *world, k *token) string {
			return k.written(t, string(encode(t, k.header)), "{"+c.front+string(encode(t, k.claims))[1:])
		}})
	}
	for _, c := range []struct{ name, claims string }{
		{"no claims", "{}"}, {"claims null", "null"}, {"claims that are text", `"default"`}, {"claims that are a list", "[]"}, {"claims that end early", `{"kind":"operator"`},
	} {
		all = append(all, forged{c.name, func(t *testing.T, _ *world, k *token) string {
			return k.written(t, string(encode(t, k.header)), c.claims)
		}})
	}
	for _, c := range []struct {
		name, claim string
		value       any
	}{
		{"another cluster", "cluster_id", "prod"},
		{"no cluster", "cluster_id", nil},
		{"a tenant that is not configured", "tenant", "nobody"},
		{"a tenant that is a path", "tenant", "../default"},
		{"a tenant in capitals", "tenant", "DEFAULT"},
		{"no tenant", "tenant", nil},
		{"a tenant that is a list", "tenant", []string{"default"}},
		{"a kind that there is not", "kind", "server"},
		{"no kind", "kind", nil},
		{"a subject that is nobody", "sub", "nobody"},
		{"no subject", "sub", nil},
		{"no token id", "jti", nil},
		{"a token id that is a path", "jti", "../../../../../../etc/passwd00000"},
		{"a token id in capitals", "jti", "ABCDEFABCDEFABCDEFABCDEFABCDEFAB"},
	} {
		all = append(all, forged{c.name, func(t *testing.T, _ *world, k *token) string {
			k.claims = with(k.claims, c.claim, c.value)
			return k.sign(t)
		}})
	}
	return all
}()

// times are tokens that the cluster's own key signed, with times at which they do not hold,
// or that are no times.
var times = func() (all []forged) {
	for _, c := range []struct {
		name          string
		iat, nbf, exp time.Duration // from now
	}{
		{"over since an hour", -2 * time.Hour, -2 * time.Hour, -time.Hour},
		{"over since 31 seconds", -time.Hour, -time.Hour, -31 * time.Second},
		{"not before an hour from now", -time.Minute, time.Hour, 2 * time.Hour},
		{"not before 40 seconds from now", -time.Minute, 40 * time.Second, 2 * time.Hour},
		{"made an hour from now", time.Hour, -time.Minute, 2 * time.Hour},
		{"over before it began", time.Minute, time.Minute, -time.Minute},
	} {
		all = append(all, forged{c.name, func(t *testing.T, _ *world, k *token) string {
			for name, d := range map[string]time.Duration{"iat": c.iat, "nbf": c.nbf, "exp": c.exp} {
				k.claims[name] = time.Now().Add(d).Unix()
			}
			return k.sign(t)
		}})
	}
	for _, c := range []struct{ name, exp string }{
		{"no end", ""},
		{"an end of zero", "0"},
		{"an end below zero", "-1"},
		{"an end with an exponent", "9e9"},
		{"an end with a fraction", "9999999999.5"},
		{"an end that is text", `"9999999999"`},
		{"an end that is true", "true"},
		{"an end that is null", "null"},
		{"an end after the year 9999", "253402300800"},
		{"an end beyond 64 bits", "18446744073709551617"},
		{"an end that is no JSON", "0x1"},
	} {
		all = append(all, forged{c.name, func(t *testing.T, _ *world, k *token) string {
			claims := string(encode(t, with(k.claims, "exp", nil)))
			if c.exp != "" {
				claims = `{"exp":` + c.exp + "," + claims[1:]
			}
			return k.written(t, string(encode(t, k.header)), claims)
		}})
	}
	return all
}()

// spellings are other texts that a careless reader takes for the same token. Each would
// have a hash of its own, so a nonce that was used would be good again.
var spellings = func() (all []forged) {
	for _, s := range []struct {
		name  string
		spell func(token string) string
	}{
		{"a line break behind it", func(s string) string { return s + "\n" }},
		{"a line break in it", func(s string) string { return s[:10] + "\n" + s[10:] }},
		{"a line break in the signature", func(s string) string { return s[:len(s)-5] + "\n" + s[len(s)-5:] }},
		{"a carriage return behind it", func(s string) string { return s + "\r" }},
		{"a blank before it", func(s string) string { return " " + s }},
		{"a blank behind it", func(s string) string { return s + " " }},
		{"a NUL behind it", func(s string) string { return s + "\x00" }},
		{"padding", func(s string) string { return s + "==" }},
		{"padding of the header", func(s string) string { return strings.Replace(s, ".", "=.", 1) }},
		{"other unused bits in the signature", func(s string) string { return s[:len(s)-1] + unusedBits(s[len(s)-1]) }},
		{"the other alphabet of base64", otherAlphabet},
		{"a fourth part", func(s string) string { return s + ".e30" }},
		{"an empty fourth part", func(s string) string { return s + "." }},
		{"an empty part before it", func(s string) string { return "." + s }},
		{"a scheme before it", func(s string) string { return "Bearer " + s }},
		{"a mark of the byte order before it", func(s string) string { return "\ufeff" + s }},
		{"the token as a JSON string", func(s string) string { return `"` + s + `"` }},
		{"escaped as in an address", func(s string) string { return strings.Replace(s, ".", "%2E", 1) }},
		{"5 KB behind it", func(s string) string { return s + strings.Repeat("A", 5<<10) }},
	} {
		all = append(all, forged{s.name, func(t *testing.T, w *world, k *token) string {
			token := k.sign(t)
			if _, agent := k.claims["shard"]; agent {
				token = w.victim.token
			}
			if s.spell(token) == token {
				t.Fatal("it is spelled in the same way")
			}
			return s.spell(token)
		}})
	}
	return all
}()

const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// unusedBits is a letter that differs from another one in bits that the last letter of a
// signature does not use.
func unusedBits(letter byte) string {
	return string(base64Letters[strings.IndexByte(base64Letters, letter)^1])
}

// otherAlphabet writes the signature with + and / and padding.
func otherAlphabet(token string) string {
	at := strings.LastIndex(token, ".") + 1
	signature, err := base64.RawURLEncoding.DecodeString(token[at:])
	if err != nil {
		return token
	}
	return token[:at] + base64.StdEncoding.EncodeToString(signature)
}

// agentClaims are tokens that the cluster's own key signed and that are not the nonce which
// the machine was made with.
var agentClaims = changed(
	change{"another shard", "shard", "other"},
	change{"no shard", "shard", nil},
	change{"another group", "group", "web"},
	change{"no group", "group", nil},
	change{"a group that is a path", "group", "../mute"},
	change{"another tenant", "tenant", "zeta"},
	change{"an operator's kind", "kind", "operator"},
	change{"on demand", "on_demand", true},
	change{"another configuration", "config_hash", "v1:0000"},
	change{"a configuration that is a path", "config_hash", "../x"},
	change{"another token id", "jti", "00000000000000000000000000000000"},
	change{"a later end", "exp", int64(9999999999)},
	change{"the id of nobody", "sub", "mut068a3cp3thz5z2mv1gejwftabc"},
	change{"the id of an operator", "sub", "opr068a3cp3thz5z2mv1gejwftabc"},
	change{"an id in capitals", "sub", "MUT068A3CP3THZ5Z2MV1GEJWFTABC"},
	change{"a claim more", "admin", true},
)

// operatorClaims are tokens for operators with claims that only agents have.
var operatorClaims = changed(
	change{"a shard", "shard", "local"},
	change{"a group", "group", "web"},
	change{"on demand", "on_demand", true},
	change{"a configuration", "config_hash", "v1:0000"},
	change{"an agent's kind", "kind", identity.NonceAgent},
	change{"the subject of another cluster", "sub", "prod"},
)

type change struct {
	name, claim string
	value       any // nil: it is missing
}

func changed(changes ...change) (all []forged) {
	for _, c := range changes {
		all = append(all, forged{c.name, func(t *testing.T, _ *world, k *token) string {
			k.claims = with(k.claims, c.claim, c.value)
			return k.sign(t)
		}})
	}
	return all
}
