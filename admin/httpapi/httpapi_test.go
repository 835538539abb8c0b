package httpapi_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/admin/gateway"
	"nstance.dev/admin/httpapi"
	"nstance.dev/admin/shardclient"
	"nstance.dev/admin/shardclient/shardtest"
	"nstance.dev/admin/tokens"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an API for the tenants red and blue, over TLS.
type world struct {
	cluster *shardtest.Cluster
	address string
	file    *tokens.File
	shards  map[string]*shardtest.Shard // by tenant
}

func newWorld(t *testing.T) *world { return newWorldOf(t, 0) }

// newWorldOf is newWorld with so many calls at once; 0: as many as there may be otherwise.
func newWorldOf(t *testing.T, calls int) *world {
	t.Helper()
	w := &world{cluster: shardtest.NewCluster(t), file: tokens.Open(filepath.Join(t.TempDir(), "tokens.json"), nil), shards: map[string]*shardtest.Shard{}}
	gateways := map[string]*gateway.Gateway{}
	var first *shardclient.Identity
	for _, tenant := range []string{"red", "blue"} {
		id := w.identity(t, w.cluster.Identity(t, tenant))
		shard := &shardtest.Shard{Frozen: true}
		shard.AddGroup(&nstancev1.GroupStatus{Key: "marked-" + tenant, Size: 1})
		w.shards[tenant] = shard
		w.cluster.ListenAt(t, "s1", tenant+":1", shard)
		conn := shardclient.Dial(shardclient.Target{Shard: "s1", Addresses: []string{tenant + ":1"}}, id, shardclient.Options{DialContext: w.cluster.Dial})
		t.Cleanup(func() { _ = conn.Close() })
		var err error
		if gateways[tenant], err = gateway.New([]gateway.Shard{{Name: "s1", Conn: conn}}, gateway.Options{}); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = id
		}
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = "https://" + l.Addr().String()
	log := slog.New(slog.DiscardHandler)
	server := httpapi.New(httpapi.Options{Cluster: shardtest.ID, Gateways: gateways, Tokens: w.file.Check, Calls: calls, Log: log})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- httpapi.Listen(ctx, l, httpapi.TLS(w.cluster.ServerCert(t, "s1"), first.Roots()), server, log)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return w
}

func (w *world) identity(t *testing.T, dir string) *shardclient.Identity {
	t.Helper()
	id, err := shardclient.LoadIdentity(dir, "", "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// caller is who calls: with files of an identity, or a token, or neither, and what a browser
// says of the page.
type caller struct {
	dir, token string
	header     map[string]string
}

func (w *world) call(t *testing.T, who caller, method, path, body string) (int, string) {
	t.Helper()
	answer, done, err := w.send(t, who, method, path, body)
	if err != nil {
		return 0, err.Error()
	}
	defer done()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// send returns an answer whose body is not read yet, until done is called.
func (w *world) send(t *testing.T, who caller, method, path, body string) (answer *http.Response, done func(), err error) {
	t.Helper()
	roots := w.identity(t, w.cluster.Identity(t, "red")).Roots()
	conf := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: identity.ServerName("s1", shardtest.ID)}
	if who.dir != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(who.dir, "identity.crt"), filepath.Join(who.dir, "identity.key"))
		if err != nil {
			t.Fatal(err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: conf}
	r, err := http.NewRequestWithContext(t.Context(), method, w.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if who.token != "" {
		r.Header.Set("Authorization", "Bearer "+who.token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range who.header {
		r.Header.Set(name, value)
	}
	answer, err = (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		transport.CloseIdleConnections()
		return nil, nil, err
	}
	return answer, func() {
		_ = answer.Body.Close()
		transport.CloseIdleConnections()
	}, nil
}

func (w *world) token(t *testing.T, tenant string, access tokens.Access) string {
	t.Helper()
	token, _, err := w.file.Create(tokens.Token{Tenant: tenant, Access: access, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestF43_WhoMayCallWhat(t *testing.T) {
	w := newWorld(t)
	stranger := shardtest.NewCluster(t)
	readRed, writeRed, readGreen := w.token(t, "red", tokens.Read), w.token(t, "red", tokens.Write), w.token(t, "green", tokens.Read)
	const (
		list  = "/v1/shards/s1/groups"
		group = "/v1/shards/s1/groups/marked-red"
		size  = `{"config":{"size":2}}`
	)
	for name, test := range map[string]struct {
		who                caller
		method, path, body string
		status             int
		text               string
	}{
		"nobody":                              {caller{}, "GET", list, "", 401, "NO_CREDENTIALS"},
		"nobody asks for the health":          {caller{}, "GET", "/health", "", 200, "ok"},
		"an operator reads":                   {caller{dir: w.cluster.Identity(t, "red")}, "GET", list, "", 200, "marked-red"},
		"an operator writes":                  {caller{dir: w.cluster.Identity(t, "red")}, "PUT", group, size, 200, `"size":2`},
		"a viewer reads":                      {caller{dir: w.cluster.ViewerIdentity(t, "red")}, "GET", list, "", 200, "marked-red"},
		"a viewer writes":                     {caller{dir: w.cluster.ViewerIdentity(t, "red")}, "PUT", group, size, 403, "READ_ONLY"},
		"another tenant's operator":           {caller{dir: w.cluster.Identity(t, "blue")}, "GET", list, "", 200, "marked-blue"},
		"a tenant's that is not served":       {caller{dir: w.cluster.Identity(t, "green")}, "GET", list, "", 403, "UNKNOWN_TENANT"},
		"another cluster's operator":          {caller{dir: stranger.Identity(t, "red")}, "GET", list, "", 0, "certificate"},
		"a token reads":                       {caller{token: readRed}, "GET", list, "", 200, "marked-red"},
		"a token for reading writes":          {caller{token: readRed}, "PUT", group, size, 403, "READ_ONLY"},
		"a token for writing writes":          {caller{token: writeRed}, "PUT", group, size, 200, `"size":2`},
		"a tenant's token that is not served": {caller{token: readGreen}, "GET", list, "", 403, "UNKNOWN_TENANT"},
		"a token that there is not":           {caller{token: "nst_x"}, "GET", list, "", 401, "BAD_TOKEN"},
		"a wrong token and a certificate":     {caller{dir: w.cluster.Identity(t, "red"), token: "nst_x"}, "GET", list, "", 401, "BAD_TOKEN"},
		"a hash for a token":                  {caller{token: strings.Repeat("0", 64)}, "GET", list, "", 401, "BAD_TOKEN"},
	} {
		if status, text := w.call(t, test.who, test.method, test.path, test.body); status != test.status || !strings.Contains(text, test.text) {
			t.Errorf("%s: answer %d %s, want %d %s", name, status, text, test.status, test.text)
		}
	}
}

// Nothing that a caller of one tenant is answered, has a byte of another one's.
func TestS17_ATenantSeesNothingOfAnother(t *testing.T) {
	w := newWorld(t)
	red := caller{token: w.token(t, "red", tokens.Write)}
	for _, call := range [][3]string{
		{"GET", "/v1/shards", ""}, {"GET", "/v1/shards/s1/groups", ""}, {"GET", "/v1/shards/s1/instances", ""},
		{"GET", "/v1/shards/s1/groups/marked-blue/explanation", ""}, {"GET", "/v1/shards/s1/tenants/blue", ""},
		{"GET", "/config/status", ""}, {"GET", "/v1/shards/blue/groups", ""}, {"GET", "/openapi.json", ""},
		{"POST", "/group/scale", `{"group":"marked-blue","size":1}`},
	} {
		_, text := w.call(t, red, call[0], call[1], call[2])
		text = strings.ReplaceAll(text, "marked-blue/explanation", "")
		if strings.Contains(text, "marked-blue") && !strings.Contains(text, "not found") && !strings.Contains(text, "is new") {
			t.Errorf("%s %s answers %s", call[0], call[1], text)
		}
	}
	for _, call := range w.shards["blue"].Calls() {
		t.Errorf("a caller of red has made the call %s as blue", call)
	}
}

func TestARevokedTokenIsRefusedFromTheNextCallOn(t *testing.T) {
	w := newWorld(t)
	token := w.token(t, "red", tokens.Read)
	if status, text := w.call(t, caller{token: token}, "GET", "/v1/shards", ""); status != 200 {
		t.Fatalf("answer %d %s", status, text)
	}
	list, err := w.file.List()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.file.Revoke(list[0].ID); err != nil {
		t.Fatal(err)
	}
	if status, text := w.call(t, caller{token: token}, "GET", "/v1/shards", ""); status != 401 || !strings.Contains(text, "BAD_TOKEN") {
		t.Errorf("answer %d %s", status, text)
	}
}

// A browser with an operator's certificate shows it for whatever page it is on.
func TestF43_AnotherSitesPageUsesNoCertificate(t *testing.T) {
	w := newWorld(t)
	operator := caller{dir: w.cluster.Identity(t, "red")}
	const scale, drains = "/group/scale", "/v1/shards/s1/watch/instances?coordinatesDrains=true"
	for name, test := range map[string]struct {
		header       map[string]string
		method, path string
		refused      bool
	}{
		"a form scales a group":         {map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, "POST", scale, true},
		"an older browser's does":       {map[string]string{"Origin": "https://evil.example"}, "POST", scale, true},
		"a page of a neighbour does":    {map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "https://evil.example"}, "POST", scale, true},
		"a page takes over drains":      {map[string]string{"Sec-Fetch-Site": "cross-site"}, "GET", drains, true},
		"a program scales a group":      {nil, "POST", scale, false},
		"somebody types an address":     {map[string]string{"Sec-Fetch-Site": "none"}, "GET", "/v1/shards", false},
		"a page of the API's own reads": {map[string]string{"Sec-Fetch-Site": "same-origin"}, "GET", "/v1/shards", false},
	} {
		operator.header = test.header
		body := ""
		if test.method == "POST" {
			body = `{"group":"marked-red","size":3}`
		}
		status, text := w.call(t, operator, test.method, test.path, body)
		if refused := status == 403 && strings.Contains(text, "OTHER_SITE"); refused != test.refused || !refused && status != 200 {
			t.Errorf("%s: answer %d %s", name, status, text)
		}
	}
}

func TestOlderTLSIsRefused(t *testing.T) {
	w := newWorld(t)
	conf := &tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true} //nolint:gosec // what is tested is the version
	conn, err := (&tls.Dialer{Config: conf}).DialContext(t.Context(), "tcp", strings.TrimPrefix(w.address, "https://"))
	if err == nil {
		_ = conn.Close()
		t.Error("TLS 1.2 was spoken")
	}
}

// A tenant that has as many streams open as there may be takes no place of another one.
func TestS12_ATenantTakesNoPlaceOfAnother(t *testing.T) {
	w := newWorldOf(t, 1)
	red, blue := caller{token: w.token(t, "red", tokens.Read)}, caller{token: w.token(t, "blue", tokens.Read)}
	stream, end, err := w.send(t, red, "GET", "/v1/shards/s1/watch/groups", "")
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %v, %v", stream, err)
	}
	defer end()
	if status, text := w.call(t, red, "GET", "/v1/shards", ""); status != http.StatusTooManyRequests || !strings.Contains(text, "TOO_MANY_CALLS") {
		t.Errorf("beside its only stream the tenant is answered %d %s", status, text)
	}
	if status, text := w.call(t, blue, "GET", "/v1/shards", ""); status != http.StatusOK {
		t.Errorf("beside a stream of another tenant one is answered %d %s", status, text)
	}
}
