package cli_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nstance.dev/admin/cli"
)

func TestTokens(t *testing.T) {
	c := newConsole(t)
	c.env["NSTANCE_ADMIN_TOKEN_FILE"] = filepath.Join(t.TempDir(), "tokens.json")
	token := strings.TrimSpace(c.ok(t, "token", "create", "--tenant", "red", "--note", "dash"))
	if !regexp.MustCompile(`^nst_[\w-]{43}$`).MatchString(token) {
		t.Errorf("the token is %q", token)
	}
	list := c.ok(t, "token", "list")
	if !strings.Contains(list, "red      read     good    2026-08-04") || strings.Contains(list, token[4:]) {
		t.Errorf("the tokens are\n%s", list)
	}
	id := strings.TrimSpace(c.ok(t, "token", "list", "-o", "name"))
	if got := c.ok(t, "token", "revoke", id, "--dry-run"); got != "would revoke "+id+"\n" {
		t.Errorf("a dry run says %q", got)
	}
	if got := c.fails(t, cli.ExitFailed, "token", "revoke", id, "tok0"); !strings.Contains(got, "tok0") {
		t.Errorf("an unknown id: %q", got)
	}
	if got := c.ok(t, "token", "revoke", id); got != "revoked "+id+"\n" {
		t.Errorf("it says %q", got)
	}
	if got := c.ok(t, "token", "list", "-o", "json"); strings.TrimSpace(got) != "[]" {
		t.Errorf("after that the tokens are %s", got)
	}
	if got := c.fails(t, cli.ExitFailed, "token", "create", "--access", "all"); !strings.Contains(got, "read, write") {
		t.Errorf("another access: %q", got)
	}
	if got := c.ok(t, "token", "create", "--dry-run", "--access", "write"); !strings.Contains(got, "would make a token to write tenant default") {
		t.Errorf("a dry run says %q", got)
	}
	delete(c.env, "NSTANCE_ADMIN_TOKEN_FILE")
	if got := c.fails(t, cli.ExitUsage, "token", "list"); !strings.Contains(got, "--token-file") {
		t.Errorf("without a file: %q", got)
	}
}

func TestServingNeedsATrustedCaller(t *testing.T) {
	c := newConsole(t)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no certificate":              {[]string{"serve"}, "--tls-cert"},
		"plain HTTP for everybody":    {[]string{"serve", "--plain-http", "--bind", "0.0.0.0:0", "--token-file", "x"}, "not of this box"},
		"plain HTTP without tokens":   {[]string{"serve", "--plain-http"}, "--token-file"},
		"a certificate without a key": {[]string{"serve", "--tls-cert", "x"}, "tls-key"},
		"a console for everybody":     {[]string{"console", "--bind", "0.0.0.0:0"}, "tunnel"},
		"a console with arguments":    {[]string{"console", "web"}, "web"},
	} {
		if got := c.fails(t, cli.ExitUsage, test.args...); !strings.Contains(got, test.want) {
			t.Errorf("%s: %q does not say %q", name, got, test.want)
		}
	}
}

// started runs a command that serves until the test ends, and returns what a pattern finds in
// what it prints.
func (c *console) started(t *testing.T, what string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c.out.tell()
	ended, code := make(chan struct{}), 0
	go func() {
		defer close(ended)
		code = c.run(ctx, args...)
	}()
	t.Cleanup(func() {
		cancel()
		if <-ended; code != cli.ExitOK {
			t.Errorf("it ends with code %d: %s", code, c.err.String())
		}
	})
	return c.printed(t, what, ended)
}

// printed waits until a command that runs has printed what a pattern finds.
func (c *console) printed(t *testing.T, what string, ended <-chan struct{}) string {
	t.Helper()
	for {
		if found := regexp.MustCompile(what).FindStringSubmatch(c.out.String()); found != nil {
			return found[1]
		}
		select {
		case <-c.out.wrote:
		case <-ended:
			t.Fatalf("it has ended and printed %q and %q", c.out.String(), c.err.String())
		}
	}
}

func answer(t *testing.T, url, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(text)
}

func TestServe(t *testing.T) {
	c := newConsole(t)
	delete(c.env, "NSTANCE_ADMIN_SHARD")
	file := filepath.Join(t.TempDir(), "tokens.json")
	token := strings.TrimSpace(c.ok(t, "token", "create", "--token-file", file))
	at := c.started(t, `api: (http://\S+)`, "serve", "--plain-http", "--bind", "127.0.0.1:0", "--token-file", file)
	if status, text := answer(t, at+"/v1/shards/local/groups", token); status != 200 || !strings.Contains(text, `"web"`) {
		t.Errorf("groups of local: %d %s", status, text)
	}
	if status, text := answer(t, at+"/v1/shards/other/groups", token); status != 200 || !strings.Contains(text, `"db"`) {
		t.Errorf("groups of other: %d %s", status, text)
	}
	if status, _ := answer(t, at+"/v1/shards/other/groups", ""); status != 401 {
		t.Errorf("without a token: %d", status)
	}
	if status, text := answer(t, at+"/health", ""); status != 200 || text != "ok\n" {
		t.Errorf("the health: %d %q", status, text)
	}
}

func TestConsole(t *testing.T) {
	c := newConsole(t)
	url := c.started(t, `console: (http://127\.0\.0\.1:\d+/\?token=\S+)`, "console")
	if status, text := answer(t, strings.Split(url, "?")[0], ""); status != 401 || !strings.Contains(text, "An address works once") {
		t.Errorf("without the token: %d %s", status, text)
	}
	// The answer is a cookie, which this client does not keep, and leads back to the page.
	if status, _ := answer(t, url, ""); status != 401 {
		t.Errorf("the address: %d", status)
	}
	if next := c.printed(t, `(?s)console: .*console: (http://\S+)`, nil); next == url {
		t.Error("the address is printed again, and works once")
	}
}
