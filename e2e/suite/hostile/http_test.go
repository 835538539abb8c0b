package hostile

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	"nstance.dev/server/pki"
)

// web is the HTTP API of a world, for all of its tenants, and its web console.
type web struct {
	start   sync.Once
	api     string // host:port
	console string
	file    string // of tokens
}

// facing starts the API and the console, of this tree: the servers behind them may be another
// release's.
func (w *world) facing(t *testing.T) *web {
	t.Helper()
	w.web.start.Do(func() {
		cert, key := w.Path("api.crt"), w.Path("api.key")
		w.apiCertificate(t, cert, key)
		path := w.Path("tokens.json")
		w.web.file = path
		w.From("")
		defer w.From(fromOf(t))
		servers := "--servers=" + box.Shard + "=" + w.addrs.Operator
		p := w.Start("nstance-admin", "serve", "--bind", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--token-file", path,
			servers, "--identity-dir", w.operatorDir(admin), "--tenant-identity-dir", w.operatorDir(attacker), "--tenant-identity-dir", w.operatorDir(victim))
		w.web.api = w.printed(p, regexp.MustCompile(`api: https://(\S+)`))
		p = w.Start("nstance-admin", "console", servers, "--identity-dir", w.operatorDir(admin), "--allow-actions")
		w.web.console = w.printed(p, regexp.MustCompile(`console: http://([^/]+)/`))
	})
	return &w.web
}

// fromOf is where the programs under attack are; empty: those of this tree.
func fromOf(t *testing.T) string {
	if *programs == "" {
		return ""
	}
	return strings.TrimSuffix(program(t, ""), "/")
}

func (w *world) printed(p *box.Process, what *regexp.Regexp) (found string) {
	w.Await("a program is ready", func() error {
		if m := what.FindStringSubmatch(p.Output()); m != nil {
			found = m[1]
			return nil
		}
		return fmt.Errorf("it has printed %q", p.Output())
	})
	return found
}

func (w *world) apiCertificate(t *testing.T, certPath, keyPath string) {
	t.Helper()
	key := w.newKey(t)
	f := w.forgeryOf(t, identity.RoleOperator, "api", admin, nil)
	f.URIs, f.ExtraExtensions, f.DNSNames = nil, nil, []string{box.ServerName}
	f.ExtKeyUsage, f.key = append(f.ExtKeyUsage[:0], 1), key // for servers
	cert := f.sign(t)
	private, err := pki.EncodePrivateKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	for path, data := range map[string][]byte{certPath: text, keyPath: private} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// httpToken is one for a tenant.
func (w *world) httpToken(t *testing.T, tenant string, access string, good time.Duration) string {
	t.Helper()
	out, err := exec.CommandContext(call(t), box.Program(t, "nstance-admin"), "token", "create", //nolint:gosec // it is ours
		"--token-file", w.facing(t).file, "--tenant", tenant, "--access", access, "--expires", good.String()).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// askAPI makes a call of the API and returns the code of HTTP, the reason, and all of the answer.
func (w *world) askAPI(t *testing.T, settings *tls.Config, method, path, body string, headers ...string) (outcome, text string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: settings, DialContext: w.dialHTTP()}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(call(t), method, "https://"+w.facing(t).api, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = "//" + w.facing(t).api + path // as it stands
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	answer, err := (&http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		return "handshake", err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	data, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20)) // a connection that is cut has said what it had to say
	outcome = fmt.Sprint(answer.StatusCode)
	if m := reasonText.FindSubmatch(data); m != nil {
		outcome += " " + string(m[1])
	}
	return outcome, string(data)
}

var hashText = regexp.MustCompile(`"sha256": "([0-9a-f]{64})"`)

var reasonText = regexp.MustCompile(`"reason":"([A-Z_]+)"`)

func (w *world) dialHTTP() func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := dialFrom(w.source())
	return func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) }
}

// overHTTP are attempts on the HTTP API and the web console.
func overHTTP() (rows []attempt) {
	return slices.Concat(httpCertificates(), httpTokens(), httpSight(), httpRequests(), consoleRequests())
}

const httpRefused = "refused"

// httpCertificates are the twins of an operator's certificate, shown to the API. Whether its
// record names it only the shards know; all else is looked at here.
func httpCertificates() (rows []attempt) {
	for _, c := range slices.Concat(organizations, commonNames, roles, uris, usages) {
		if c.name == "a viewer's role" || c.held == nobodyKnown {
			continue // the one reads, see below; of the other no record says anything, and records are with the shards
		}
		rows = append(rows, attempt{"F43", "HTTP: " + c.name, httpRefused, func(t *testing.T, w *world) string {
			f := w.twinOf(t, w.genuine(t, asOperator).cert)
			c.change(t, w, f)
			outcome, _ := w.askAPI(t, w.as(f.sign(t)), "GET", "/v1/shards", "")
			if outcome == "handshake" || strings.HasPrefix(outcome, "401 ") || strings.HasPrefix(outcome, "403 ") {
				return httpRefused
			}
			return outcome
		}})
	}
	return append(rows,
		attempt{"F43", "HTTP: no certificate and no token", "401 NO_CREDENTIALS", func(t *testing.T, w *world) string {
			outcome, _ := w.askAPI(t, w.anonymous(), "GET", "/v1/shards", "")
			return outcome
		}},
		attempt{"F43", "HTTP: an agent", "403 WRONG_ROLE", func(t *testing.T, w *world) string {
			outcome, _ := w.askAPI(t, w.as(w.genuine(t, asAgent).cert), "GET", "/v1/shards", "")
			return outcome
		}},
		attempt{"F43", "HTTP: a viewer changes a group", "403 READ_ONLY", func(t *testing.T, w *world) string {
			outcome, _ := w.askAPI(t, w.as(w.viewer(t, admin)), "PUT", "/v1/shards/"+box.Shard+"/groups/web", `{"config":{"size":0}}`)
			return outcome
		}},
		attempt{"F43", "HTTP: TLS 1.2", "handshake", func(t *testing.T, w *world) string {
			settings := w.anonymous()
			settings.MinVersion, settings.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
			outcome, _ := w.askAPI(t, settings, "GET", "/health", "")
			return outcome
		}},
	)
}

// httpTokens are texts that are shown as a token.
func httpTokens() (rows []attempt) {
	add := func(name, held string, headers func(t *testing.T, w *world) []string) {
		rows = append(rows, attempt{"F43", "HTTP: " + name, held, func(t *testing.T, w *world) string {
			w.facing(t)
			outcome, _ := w.askAPI(t, w.anonymous(), "GET", "/v1/shards", "", headers(t, w)...)
			return outcome
		}})
	}
	fixed := func(headers ...string) func(*testing.T, *world) []string {
		return func(*testing.T, *world) []string { return headers }
	}
	add("an empty token", "401 BAD_TOKEN", fixed("Authorization: Bearer "))
	add("a made-up token", "401 BAD_TOKEN", fixed("Authorization: Bearer nst_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"))
	add("a password", "401 BAD_TOKEN", fixed("Authorization: Basic YWRtaW46YWRtaW4="))
	add("two tokens", "401 BAD_TOKEN", func(t *testing.T, w *world) []string {
		good := w.httpToken(t, attacker, "read", time.Hour)
		return []string{"Authorization: Bearer " + good, "Authorization: Bearer nst_x"}
	})
	add("a nonce as a token", "401 BAD_TOKEN", func(_ *testing.T, w *world) []string { return []string{"Authorization: Bearer " + w.victim.token} })
	add("the hash of a token", "401 BAD_TOKEN", func(t *testing.T, w *world) []string {
		w.httpToken(t, victim, "write", time.Hour)
		data, err := os.ReadFile(w.web.file)
		hash := hashText.FindSubmatch(data)
		if err != nil || hash == nil {
			t.Fatalf("the file of tokens is %q, %v", data, err)
		}
		return []string{"Authorization: Bearer " + string(hash[1])}
	})
	add("a token with a letter changed", "401 BAD_TOKEN", func(t *testing.T, w *world) []string {
		token := w.httpToken(t, victim, "write", time.Hour)
		return []string{"Authorization: Bearer " + token[:len(token)-2] + "-_"}
	})
	add("a token of a second", "401 TOKEN_EXPIRED", func(t *testing.T, w *world) []string {
		token := w.httpToken(t, attacker, "read", 2*time.Second)
		time.Sleep(3 * time.Second) // its end is a time of the clock
		return []string{"Authorization: Bearer " + token}
	})
	add("a token in a cookie", "401 NO_CREDENTIALS", func(t *testing.T, w *world) []string {
		return []string{"Cookie: token=" + w.httpToken(t, attacker, "read", time.Hour)}
	})
	return append(rows,
		attempt{"F43", "HTTP: a token for reading changes a group", "403 READ_ONLY", func(t *testing.T, w *world) string {
			token := w.httpToken(t, victim, "read", time.Hour)
			outcome, _ := w.askAPI(t, w.anonymous(), "PUT", "/v1/shards/"+box.Shard+"/groups/mute", `{"config":{"size":0}}`, "Authorization: Bearer "+token)
			return outcome
		}},
		attempt{"F43", "HTTP: a token for reading changes a group with another method's name", "403 READ_ONLY", func(t *testing.T, w *world) string {
			token := w.httpToken(t, victim, "read", time.Hour)
			outcome, _ := w.askAPI(t, w.anonymous(), "POST", "/v1/shards/"+box.Shard+"/groups/mute", `{"config":{"size":0}}`,
				"Authorization: Bearer "+token, "X-HTTP-Method-Override: PUT")
			return outcome
		}},
		attempt{"F43", "HTTP: a token for reading reads what a machine has written", "403 READ_ONLY", func(t *testing.T, w *world) string {
			token := w.httpToken(t, victim, "read", time.Hour)
			outcome, _ := w.askAPI(t, w.anonymous(), "POST", "/v1/shards/"+box.Shard+"/instances/"+w.foreign(t)+":output", `{}`, "Authorization: Bearer "+token)
			return outcome
		}},
		attempt{"S12", "HTTP: what another tenant's machine has written is read", "404 NOT_FOUND", func(t *testing.T, w *world) string {
			token := w.httpToken(t, attacker, "write", time.Hour)
			outcome, _ := w.askAPI(t, w.anonymous(), "POST", "/v1/shards/"+box.Shard+"/instances/"+w.foreign(t)+":output", `{}`, "Authorization: Bearer "+token)
			return outcome
		}},
		attempt{"F43", "HTTP: the operator's certificate is renewed for the attacker's key", "403 NOT_OVER_HTTP", func(t *testing.T, w *world) string {
			public, err := pki.EncodePublicKey(w.newKey(t).Public().(ed25519.PublicKey))
			if err != nil {
				t.Fatal(err)
			}
			token := w.httpToken(t, attacker, "write", time.Hour)
			outcome, _ := w.askAPI(t, w.anonymous(), "POST", "/v1/shards/"+box.Shard+"/certificate:renew", fmt.Sprintf(`{"publicKeyPem":%q}`, public), "Authorization: Bearer "+token)
			return outcome
		}},
	)
}

// httpSight looks for traces of other tenants in what one of them is answered.
func httpSight() (rows []attempt) {
	below := "/v1/shards/" + box.Shard
	for _, path := range []string{
		"/v1/shards", below + "/info", below + "/config", below + "/groups", below + "/instances?pageSize=1000", below + "/unmanaged", below + "/demand",
		below + "/groups/none/explanation", below + "/operations/op-1", "/config/status", "/openapi.json", below + "/tenants/none",
		below + "/watch/groups", below + "/watch/instances", below + "/watch/machines", "/v1/shards/none/groups", "/none",
	} {
		rows = append(rows, attempt{"S12", "HTTP: " + path, nothingOfOthers, func(t *testing.T, w *world) string {
			_, text := w.askAPI(t, w.anonymous(), "GET", path, "", "Authorization: Bearer "+w.httpToken(t, attacker, "write", time.Hour))
			return w.traces(t, text)
		}})
	}
	for _, header := range []string{
		"Grpc-Metadata-Tenant: acme", "Grpc-Metadata-Nstance-Tenant: acme", "X-Forwarded-Client-Cert: Subject=\"O=acme\"", "X-Tenant: acme", "Grpc-Metadata-Nstance-Manager: acme",
	} {
		rows = append(rows, attempt{"S12", "HTTP: " + header, nothingOfOthers, func(t *testing.T, w *world) string {
			outcome, text := w.askAPI(t, w.anonymous(), "GET", below+"/groups", "", header, "Authorization: Bearer "+w.httpToken(t, attacker, "read", time.Hour))
			if outcome != "200" {
				return outcome
			}
			return w.traces(t, text)
		}})
	}
	return append(rows,
		attempt{"S12", "HTTP: an instance of another tenant", "404 NOT_FOUND", func(t *testing.T, w *world) string {
			outcome, _ := w.askAPI(t, w.anonymous(), "GET", below+"/instances/"+w.foreign(t), "", "Authorization: Bearer "+w.httpToken(t, attacker, "read", time.Hour))
			return outcome
		}},
		attempt{"S12", "HTTP: the explanation of an instance of another tenant", "404 NOT_FOUND", func(t *testing.T, w *world) string {
			outcome, _ := w.askAPI(t, w.anonymous(), "GET", below+"/instances/"+w.foreign(t)+"/explanation", "", "Authorization: Bearer "+w.httpToken(t, attacker, "read", time.Hour))
			return outcome
		}},
		attempt{"S12", "HTTP: the groups of another tenant are confirmed", "403 NOT_ADMINISTRATOR", func(t *testing.T, w *world) string {
			outcome, _ := w.askAPI(t, w.anonymous(), "POST", below+"/groups:confirm", `{"tenant":"acme"}`, "Authorization: Bearer "+w.httpToken(t, attacker, "write", time.Hour))
			return outcome
		}},
	)
}

// httpRequests are requests that are none.
func httpRequests() (rows []attempt) {
	below := "/v1/shards/" + box.Shard
	add := func(name, held, method, path, body string, headers ...string) {
		rows = append(rows, attempt{"S14", "HTTP: " + name, held, func(t *testing.T, w *world) string {
			outcome, _ := w.askAPI(t, w.anonymous(), method, path, body, append(headers, "Authorization: Bearer "+w.httpToken(t, attacker, "write", time.Hour))...)
			return outcome
		}})
	}
	add("a path that leads out", "404 UNKNOWN_SHARD", "GET", "/v1/shards/../../etc/passwd", "")
	add("an escaped path that leads out", "404 UNKNOWN_SHARD", "GET", "/v1/shards/..%2f..%2fetc/passwd", "")
	add("a group with a path for a name", "400 INVALID_KEY", "PUT", below+"/groups/..%2f..%2fx", `{"config":{"template":"mute"}}`)
	add("a body of five megabytes", "413", "PUT", below+"/groups/x", `{"config":{"vars":{"values":{"a":"`+strings.Repeat("x", 5<<20)+`"}}}}`)
	add("a body that is nested ten thousand times", "400", "PUT", below+"/groups/x", strings.Repeat(`{"config":`, 10_000))
	add("a zero byte for an id", "400 INVALID_ID", "GET", below+"/instances/%00", "")
	add("headers of a megabyte", "431", "GET", "/v1/shards", "", "X-Long: "+strings.Repeat("a", 1<<20))
	add("TRACE", "405", "TRACE", "/v1/shards", "")
	add("profiles", "404", "GET", "/debug/pprof/", "")
	return rows
}

// consoleRequests are what a page of somebody else's could send to the console.
func consoleRequests() (rows []attempt) {
	add := func(name, held, method, path string, headers ...string) {
		rows = append(rows, attempt{"F43", "the console: " + name, held, func(t *testing.T, w *world) string {
			host := w.facing(t).console
			var said []string
			for _, h := range headers {
				said = append(said, strings.ReplaceAll(h, "CONSOLE", host))
			}
			return codeOf(w.asked(t, host, nil, method, path, said...))
		}})
	}
	add("a page without the address", "401", "GET", "/", "Host: CONSOLE")
	add("a made-up token", "401", "GET", "/?token=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "Host: CONSOLE")
	add("the API without a cookie", "401", "GET", "/api/v1/shards", "Host: CONSOLE")
	add("a made-up cookie", "401", "GET", "/api/console/session", "Host: CONSOLE", "Cookie: nstance-console=x")
	add("another name for this box", "403", "GET", "/", "Host: evil.example")
	add("another name and no port", "403", "GET", "/api/v1/shards", "Host: evil.example")
	add("another site's form", "403", "POST", "/api/v1/shards/"+box.Shard+"/config:refresh", "Host: CONSOLE", "Origin: http://evil.example")
	add("another site's picture", "403", "GET", "/api/v1/shards", "Host: CONSOLE", "Sec-Fetch-Site: cross-site")
	add("a file of this box", "401", "GET", "/assets/../../../../etc/passwd", "Host: CONSOLE")
	return rows
}
