package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/admin/console"
	"nstance.dev/admin/gateway"
	"nstance.dev/admin/hub"
	"nstance.dev/admin/shardclient"
	"nstance.dev/admin/shardclient/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a console of shard s1 with a listener.
type world struct {
	t      *testing.T
	shard  *shardtest.Shard
	server *console.Server
	http   *httptest.Server
	tokens chan string // of addresses that were printed after the first one
}

func newWorld(t *testing.T, change func(*console.Options)) *world {
	t.Helper()
	c := shardtest.NewCluster(t)
	id, err := shardclient.LoadIdentity(c.Identity(t, "default"), shardtest.ID, "default", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, shard: &shardtest.Shard{Frozen: true}, tokens: make(chan string, 300)}
	w.shard.AddGroup(&nstancev1.GroupStatus{Key: "web", Size: 3})
	c.ListenAt(t, "s1", "a:1", w.shard)
	conn := shardclient.Dial(shardclient.Target{Shard: "s1", Addresses: []string{"a:1"}}, id, shardclient.Options{DialContext: c.Dial})
	follow := hub.New([]hub.Shard{{Name: "s1", API: nstancev1.NewOperatorServiceClient(conn), Leader: conn.Leader}}, hub.Options{Log: slog.New(slog.DiscardHandler)})
	calls, err := gateway.New([]gateway.Shard{{Name: "s1", Conn: conn}}, gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opts := console.Options{
		Who: id.Peer, Version: "v1", Hub: follow, Gateway: calls, AllowActions: true,
		LoggedIn: func(token string) { w.tokens <- token }, Heartbeat: 50 * time.Millisecond,
	}
	if change != nil {
		change(&opts)
	}
	if w.server, err = console.New(opts); err != nil {
		t.Fatal(err)
	}
	w.http = httptest.NewServer(w.server)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { follow.Run(ctx) })
	t.Cleanup(func() {
		w.http.CloseClientConnections()
		w.http.Close()
		cancel()
		running.Wait()
		_ = conn.Close()
	})
	return w
}

// browser is one that has logged in.
type browser struct {
	w      *world
	client *http.Client
	token  string // of actions
}

func (w *world) stranger() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	transport := &http.Transport{}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &browser{w: w, client: &http.Client{Jar: jar, Transport: transport}}
}

func (w *world) browser(token string) *browser {
	w.t.Helper()
	b := w.stranger()
	if status, _, _ := b.do("GET", "/?token="+url.QueryEscape(token), "", nil); status != 200 {
		w.t.Fatalf("the login answers %d", status)
	}
	var session struct {
		ActionToken string
		Actions     []string
	}
	_, text, _ := b.do("GET", "/api/console/session", "", nil)
	if err := json.Unmarshal([]byte(text), &session); err != nil {
		w.t.Fatal(err)
	}
	b.token = session.ActionToken
	return b
}

// do makes a request, with some headers; one that is "-" is left out, and Host is the host.
func (b *browser) do(method, path, body string, headers map[string]string) (int, string, http.Header) {
	b.w.t.Helper()
	r, err := http.NewRequestWithContext(b.w.t.Context(), method, b.w.http.URL+path, strings.NewReader(body))
	if err != nil {
		b.w.t.Fatal(err)
	}
	if method != "GET" {
		r.Header.Set("Origin", b.w.http.URL)
		r.Header.Set("Content-Type", "application/json")
		if b.token != "" {
			r.Header.Set("X-Nstance-Token", b.token)
		}
	}
	for name, value := range headers {
		switch {
		case value == "-":
			r.Header.Del(name)
		case name == "Host":
			r.Host = value
		default:
			r.Header.Set(name, value)
		}
	}
	answer, err := b.client.Do(r)
	if err != nil {
		b.w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Header
}

func (b *browser) wants(name string, status int, text string) func(int, string, http.Header) {
	return func(gotStatus int, gotText string, _ http.Header) {
		b.w.t.Helper()
		if gotStatus != status || !strings.Contains(gotText, text) {
			b.w.t.Errorf("%s: answer %d %.300s, want %d %s", name, gotStatus, gotText, status, text)
		}
	}
}

func TestF43_AnAddressWorksOnce(t *testing.T) {
	w := newWorld(t, nil)
	first := w.server.Token()
	jarless := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.http.URL+"/shards?token="+first, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := jarless.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/shards" || len(answer.Cookies()) != 1 {
		t.Fatalf("the login answers %d, to %s, with cookies %v", answer.StatusCode, answer.Header.Get("Location"), answer.Cookies())
	}
	if c := answer.Cookies()[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || len(c.Value) != 43 {
		t.Errorf("the cookie is %+v", c)
	}
	second := <-w.tokens
	s := w.stranger()
	s.wants("the same address again", 401, "An address works once")(s.do("GET", "/?token="+first, "", nil))
	s.wants("without an address", 401, "An address works once")(s.do("GET", "/", "", nil))
	s.wants("without an address, the API", 401, "NOT_LOGGED_IN")(s.do("GET", "/api/console/session", "", nil))
	s.wants("an empty token", 401, "An address works once")(s.do("GET", "/?token=", "", nil))
	s.wants("a token for the API", 401, "NOT_LOGGED_IN")(s.do("GET", "/api/console/session?token="+second, "", nil))
	s.wants("elsewhere", 401, "An address works once")(s.do("GET", "//evil.example/?token=x", "", nil))
	b := w.browser(second)
	b.wants("the next address", 200, `"role":"operator"`)(b.do("GET", "/api/console/session", "", nil))
}

func TestF43_RequestsOfOtherSites(t *testing.T) {
	w := newWorld(t, func(o *console.Options) { o.Hosts = []string{"console.example"} })
	b := w.browser(w.server.Token())
	const scale = `{"config":{"size":9}}`
	const group = "/api/v1/shards/s1/groups/web"
	for name, test := range map[string]struct {
		method, path, body string
		headers            map[string]string
		status             int
		text               string
	}{
		"another host":                   {"GET", "/api/console/session", "", map[string]string{"Host": "evil.example"}, 403, "BAD_HOST"},
		"another host, a page":           {"GET", "/", "", map[string]string{"Host": "evil.example:80"}, 403, "BAD_HOST"},
		"a name that begins like ours":   {"GET", "/api/console/session", "", map[string]string{"Host": "localhost.evil.example"}, 403, "BAD_HOST"},
		"an address of elsewhere":        {"GET", "/api/console/session", "", map[string]string{"Host": "192.0.2.1"}, 403, "BAD_HOST"},
		"another origin":                 {"GET", "/api/console/session", "", map[string]string{"Origin": "http://evil.example"}, 403, "BAD_ORIGIN"},
		"another port":                   {"PUT", group, scale, map[string]string{"Origin": "http://127.0.0.1:1"}, 403, "BAD_ORIGIN"},
		"no origin":                      {"PUT", group, scale, map[string]string{"Origin": "-"}, 403, "BAD_ORIGIN"},
		"an origin that is hidden":       {"PUT", group, scale, map[string]string{"Origin": "null"}, 403, "BAD_ORIGIN"},
		"another site's picture":         {"GET", "/api/v1/shards", "", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, "BAD_ORIGIN"},
		"a sister site":                  {"GET", "/api/v1/shards", "", map[string]string{"Sec-Fetch-Site": "same-site"}, 403, "BAD_ORIGIN"},
		"another site's link to the API": {"GET", "/api/v1/shards", "", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403, "BAD_ORIGIN"},
		"another site's link":            {"GET", "/", "", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200, "<div id=\"app\">"},
		"no header":                      {"PUT", group, scale, map[string]string{"X-Nstance-Token": "-"}, 403, "BAD_TOKEN"},
		"a wrong header":                 {"PUT", group, scale, map[string]string{"X-Nstance-Token": "x"}, 403, "BAD_TOKEN"},
		"the cookie alone is forged":     {"PUT", group, scale, map[string]string{"Cookie": "nstance-console=x"}, 200, `"size":9`},
		"a plan without an origin":       {"POST", "/api/v1/shards/s1/config:plan", "{}", map[string]string{"Origin": "-"}, 403, "BAD_ORIGIN"},
		"a plan without the header":      {"POST", "/api/v1/shards/s1/config:plan", "{}", map[string]string{"X-Nstance-Token": "-"}, 200, "rotations"},
		// Of a browser's cookies none is for another name, so it is asked to log in.
		"by a name that was given": {"GET", "/api/console/session", "", map[string]string{"Host": "Console.example:8088"}, 401, "NOT_LOGGED_IN"},
		"through a tunnel":         {"GET", "/api/console/session", "", map[string]string{"Host": "localhost:9999"}, 401, "NOT_LOGGED_IN"},
		"an action":                {"PUT", group, scale, nil, 200, `"size":9`},
	} {
		b.wants(name, test.status, test.text)(b.do(test.method, test.path, test.body, test.headers))
	}
	if status, text, _ := w.stranger().do("PUT", group, scale, map[string]string{"X-Nstance-Token": b.token}); status != 401 {
		t.Errorf("with the header and without the cookie: %d %s", status, text)
	}
}

func TestF43_AConsoleThatOnlyShows(t *testing.T) {
	for name, change := range map[string]func(*console.Options){
		"without leave": func(o *console.Options) { o.AllowActions = false },
		"as a viewer":   func(o *console.Options) { o.Who.Role = "viewer" },
	} {
		w := newWorld(t, change)
		b := w.browser(w.server.Token())
		b.wants(name, 200, `"actions":[]`)(b.do("GET", "/api/console/session", "", nil))
		b.wants(name, 403, "ACTIONS_OFF")(b.do("PUT", "/api/v1/shards/s1/groups/web", `{"config":{"size":9}}`, nil))
		b.wants(name, 403, "ACTIONS_OFF")(b.do("GET", "/api/v1/shards/s1/watch/instances?coordinatesDrains=true", "", nil))
		b.wants(name, 200, `"web"`)(b.do("GET", "/api/v1/shards/s1/groups", "", nil))
		if b.token != "" {
			t.Errorf("%s: there is a token for actions", name)
		}
	}
}

func TestPagesAndTheirHeaders(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser(w.server.Token())
	for _, path := range []string{"/", "/shards", "/groups/s1/default/web", "/api/console/session", "/assets/none.js"} {
		_, text, h := b.do("GET", path, "", nil)
		policy := h.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Frame-Options") != "DENY" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: headers are %v", path, h)
		}
		if strings.Contains(text, "<script>") || strings.Contains(text, "style=") || strings.Contains(text, "onload=") {
			t.Errorf("%s has something inline:\n%s", path, text)
		}
	}
	_, page, h := b.do("GET", "/groups/s1/default/web", "", nil)
	if h.Get("Cache-Control") != "no-cache" || !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
		t.Errorf("a page has the headers %v", h)
	}
	_, after, found := strings.Cut(page, `src="/assets/`)
	name, _, _ := strings.Cut(after, `"`)
	status, _, h := w.stranger().do("GET", "/assets/"+name, "", nil)
	if !found || status != 200 || !strings.Contains(h.Get("Cache-Control"), "immutable") || !strings.HasPrefix(h.Get("Content-Type"), "text/javascript") {
		t.Errorf("the script %s answers %d, %v", name, status, h)
	}
	if status, _, _ := b.do("GET", "/assets/none.js", "", nil); status != 404 {
		t.Errorf("a file that there is not answers %d", status)
	}
	if status, _, _ := b.do("GET", "/../console.go", "", nil); status != 200 {
		t.Errorf("a path that leads out answers %d, must be the page", status)
	}
}

// listen opens the stream of a browser and returns the events that come.
func (b *browser) listen(ctx context.Context) func() (name, data string) {
	b.w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.w.http.URL+"/api/console/events", nil)
	if err != nil {
		b.w.t.Fatal(err)
	}
	answer, err := b.client.Do(r)
	if err != nil {
		b.w.t.Fatal(err)
	}
	b.w.t.Cleanup(func() { _ = answer.Body.Close() })
	scanner := bufio.NewScanner(answer.Body)
	scanner.Buffer(nil, 1<<20)
	return func() (name, data string) {
		for scanner.Scan() {
			switch key, value, _ := strings.Cut(scanner.Text(), ": "); key {
			case "event":
				name = value
			case "data":
				return name, value
			}
		}
		return "", ""
	}
}

// until reads events until one has a name and a text.
func until(t *testing.T, next func() (string, string), name, text string) {
	t.Helper()
	for {
		n, data := next()
		if n == "" {
			t.Fatalf("the stream ended before %s with %s", name, text)
		}
		if n == name && strings.Contains(data, text) {
			return
		}
	}
}

func TestTheStream(t *testing.T) {
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := w.browser(w.server.Token()).listen(ctx)
	for _, want := range []string{"shard", "groups", "instances", "machines", "recent", "ready"} {
		until(t, next, want, "")
	}
	until(t, next, "ping", "now")
	w.shard.AddGroup(&nstancev1.GroupStatus{Key: "<script>alert(1)</script>"})
	until(t, next, "groups", `\u003cscript\u003e`)
}

// Fifty browsers look, and the shard has one stream of each kind.
func TestFiftyBrowsersAreOneStream(t *testing.T) {
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	token := w.server.Token()
	for range 50 {
		next := w.browser(token).listen(ctx)
		until(t, next, "ready", "")
		token = <-w.tokens
	}
	streams := map[string]int{}
	for _, call := range w.shard.Calls() {
		if strings.Contains(call, "Watch") {
			streams[call]++
		}
	}
	for call, n := range streams {
		if n != 1 {
			t.Errorf("%s was opened %d times", call, n)
		}
	}
	if len(streams) == 0 {
		t.Error("there is no stream")
	}
}

func TestHistory(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser(w.server.Token())
	for deadline := time.Now().Add(5 * time.Second); ; <-time.After(20 * time.Millisecond) {
		status, text, _ := b.do("GET", "/api/console/history?shard=s1&group=web&tenant=default", "", nil)
		if status == 200 && strings.Contains(text, `"running":3`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("answer %d %s", status, text)
		}
	}
	b.wants("an unknown group", 200, `"samples":[]`)(b.do("GET", "/api/console/history?shard=s9&group=web", "", nil))
}
