package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"nstance.dev/admin/gateway"
)

func TestCalls(t *testing.T) {
	w := newWorld(t, gateway.Options{})
	var list struct{ Groups []struct{ Key string } }
	answer := w.do("GET", "/v1/shards/s1/groups", "", "")
	if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil || len(list.Groups) != 1 || list.Groups[0].Key != "web" {
		t.Errorf("the groups are %s, %v", answer.Body, err)
	}
	wantStatus(t, "scale", w.do("PUT", "/v1/shards/s1/groups/web", asJSON, `{"config":{"size":5}}`), 200, `"size":5`)
	wantStatus(t, "explain", w.do("GET", "/v1/shards/s1/instances/"+instance+"/explanation", "", ""), 200, `"instanceId":"`+instance)
	wantStatus(t, "a shard that nobody serves", w.do("GET", "/v1/shards/s2/groups", "", ""), 503, `"status":"UNAVAILABLE"`)
	wantStatus(t, "all shards", w.do("GET", "/v1/shards", "", ""), 200, `"shard":"s1","connected":true,"leader":"a:1"`, `"shard":"s2","connected":false,"error":"no server of shard s2 answered`)
}

func TestErrors(t *testing.T) {
	w := newWorld(t, gateway.Options{})
	for name, test := range map[string]struct {
		method, path, kind, body string
		status                   int
		texts                    []string
	}{
		"an unknown shard":              {"GET", "/v1/shards/s9/groups", "", "", 404, []string{`"reason":"UNKNOWN_SHARD"`, "s1, s2"}},
		"an unknown path":               {"GET", "/v1/shards/s1/nothing", "", "", 404, []string{"/openapi.json"}},
		"no path":                       {"GET", "/", "", "", 404, []string{`"code":5`}},
		"an unknown instance":           {"GET", "/v1/shards/s1/instances/knc9", "", "", 404, []string{`"status":"NOT_FOUND"`}},
		"a wrong method":                {"PATCH", "/v1/shards/s1/groups/web", asJSON, "{}", 405, []string{"PATCH"}},
		"a refusal with a reason":       {"PUT", "/v1/shards/s1/groups/new", asJSON, "{}", 400, []string{`"reason":"TEMPLATE_REQUIRED"`, `"@type":"type.googleapis.com/google.rpc.ErrorInfo"`}},
		"a field that there is not":     {"PUT", "/v1/shards/s1/groups/web", asJSON, `{"confg":{}}`, 400, []string{"confg"}},
		"no JSON":                       {"PUT", "/v1/shards/s1/groups/web", asJSON, `{`, 400, nil},
		"a form":                        {"PUT", "/v1/shards/s1/groups/web", "application/x-www-form-urlencoded", `size=5`, 400, []string{"BAD_CONTENT_TYPE"}},
		"a parameter that there is not": {"DELETE", "/v1/shards/s1/instances/" + instance + "?replaceFrist=true", "", "", 400, []string{"replaceFrist"}},
		"a parameter beside a body":     {"PUT", "/v1/shards/s1/groups/web?expectedEtag=1", asJSON, `{"config":{"size":1}}`, 400, []string{"expectedEtag"}},
		"a long body":                   {"POST", "/v1/shards/s1/config:plan", "text/plain", strings.Repeat("x", 5<<20), 413, []string{"longer than"}},
		"the gateway's own certificate": {"POST", "/v1/shards/s1/certificate:renew", asJSON, `{}`, 403, []string{"NOT_OVER_HTTP", "RenewCertificate over gRPC", "cluster register-operator"}},
		"a stream that there is not":    {"GET", "/v1/shards/s1/watch/all", "", "", 404, []string{"groups, instances, errors, machines"}},
		"a stream with a parameter":     {"GET", "/v1/shards/s1/watch/groups?since=1", "", "", 400, []string{"since"}},
		"to post to a stream":           {"POST", "/v1/shards/s1/watch/groups", asJSON, "{}", 405, nil},
	} {
		wantStatus(t, name, w.do(test.method, test.path, test.kind, test.body), test.status, append(test.texts, `"message":"`)...)
	}
}

// Whoever may read can change nothing: each call of the contract that changes something is
// refused before a shard hears of it.
func TestF43_ReadersChangeNothing(t *testing.T) {
	w := newWorld(t, gateway.Options{})
	read := gateway.Access{}
	for _, test := range [][3]string{
		{"PUT", "/v1/shards/s1/groups/web", `{"config":{"size":9}}`},
		{"DELETE", "/v1/shards/s1/groups/web", ""},
		{"DELETE", "/v1/shards/s1/instances/" + instance, ""},
		{"POST", "/v1/shards/s1/instances", `{}`},
		{"POST", "/v1/shards/s1/instances/" + instance + ":output", `{}`},
		{"POST", "/v1/shards/s1/pauses", `{}`},
		{"POST", "/v1/shards/s1/config:refresh", `{}`},
		{"POST", "/v1/shards/s1/x/config:plan", `{}`},
		{"POST", "/config/refresh", ""},
		{"POST", "/group/scale", `{"group":"web","size":9}`},
		{"GET", "/v1/shards/s1/watch/instances?coordinatesDrains=true", ""},
		{"GET", "/v1/shards/s1/watch/instances?coordinates_drains=1", ""},
		{"GET", "/v1/shards/s1/watch/instances?coordinatesDrains=perhaps", ""},
		{"GET", "/v1/shards/s1/watch/instances?coordinatesDrains=false&coordinates_drains=true", ""},
		{"GET", "/v1/shards/s1/watch/instances?coordinatesDrains=false&coordinatesDrains=true", ""},
	} {
		wantStatus(t, test[0]+" "+test[1], w.as(read, test[0], test[1], asJSON, test[2]), 403, "READ_ONLY")
	}
	for _, method := range []string{"UpsertGroup", "DeleteGroup", "DeleteInstance", "CreateInstance", "SetPause", "RefreshConfig", "WatchInstances", "ReadInstanceOutput"} {
		if n := w.calls.called(method); n != 0 {
			t.Errorf("%s was called %d times", method, n)
		}
	}
	wantStatus(t, "a plan", w.as(read, "POST", "/v1/shards/s1/config:plan", "application/jsonc", `{} // nothing`), 200, `"rotations":2`)
	wantStatus(t, "a list", w.as(read, "GET", "/v1/shards/s1/groups", "", ""), 200, `"web"`)
}

// What a caller proves itself with stays here.
func TestNoHeaderGoesOn(t *testing.T) {
	w := newWorld(t, gateway.Options{})
	seen := &headers{ClientConnInterface: w.calls}
	g, err := gateway.New([]gateway.Shard{{Name: "s1", Conn: seen}}, gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.gateway = g
	wantStatus(t, "list", w.do("GET", "/v1/shards/s1/groups", "", ""), 200)
	wantStatus(t, "scale", w.do("PUT", "/v1/shards/s1/groups/web", asJSON, `{"config":{"size":2}}`), 200)
	if len(seen.all) != 2 {
		t.Fatalf("%d calls were seen", len(seen.all))
	}
	for _, md := range seen.all {
		if len(md) != 0 {
			t.Errorf("a shard is sent %v", md)
		}
	}
}

// headers keeps what calls carry beside their messages.
type headers struct {
	grpc.ClientConnInterface
	all []metadata.MD
}

func (h *headers) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	h.all = append(h.all, md)
	return h.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func TestSeveralShards(t *testing.T) {
	w := newWorld(t, gateway.Options{})
	for name, test := range map[string]struct {
		method, path, body string
		status             int
		texts              []string
	}{
		"the configuration of one":   {"GET", "/config/status?shard=s1", "", 200, []string{`{"shards":[{"shard":"s1","etag":"e1","last_modified":"2026-05-04T03:02:01Z","size":1234}]}`}},
		"of all, one of which fails": {"GET", "/config/status?all_shards=true", "", 207, []string{`"etag":"e1"`, `{"shard":"s2","error":"no server`}},
		"of one that fails":          {"GET", "/config/status?shard=s2", "", 502, []string{`"error":"no server`}},
		"of none":                    {"GET", "/config/status", "", 400, []string{"all_shards=true"}},
		"of both":                    {"GET", "/config/status?all_shards=true&shard=s1", "", 400, nil},
		"of an unknown one":          {"GET", "/config/status?shard=s9", "", 404, nil},
		"with a typo":                {"GET", "/config/status?all-shards=true", "", 400, []string{"all-shards"}},
		"refresh":                    {"POST", "/config/refresh?shard=s1", "", 200, []string{`{"shards":[{"shard":"s1","updated":true,"etag":"e2"}]}`}},
		"scale":                      {"POST", "/group/scale?shard=s1", `{"group":"web","size":3}`, 200, []string{`{"results":[{"shard":"s1","group":"web","size":3}]}`}},
		"scale to zero":              {"POST", "/group/scale?shard=s1", `{"group":"web","size":0}`, 200, []string{`"size":0`}},
		"scale without a size":       {"POST", "/group/scale?shard=s1", `{"group":"web"}`, 400, nil},
		"scale with a typo":          {"POST", "/group/scale?shard=s1", `{"group":"web","size":3,"x":1}`, 400, nil},
		"to get a refresh":           {"GET", "/config/refresh?shard=s1", "", 405, nil},
	} {
		wantStatus(t, name, w.do(test.method, test.path, asJSON, test.body), test.status, test.texts...)
	}
}
