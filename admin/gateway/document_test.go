package gateway_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"nstance.dev/admin/gateway"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// bodies are what calls need of a request beside their path.
var bodies = map[string]string{
	"PUT /v1/shards/{shard}/groups/{key}":                `{"config":{"size":2}}`,
	"POST /v1/shards/{shard}/instances":                  `{"instanceId":"knc068a3cp3thz5z2mv1gejwftzzz","config":{"group":"web"}}`,
	"POST /v1/shards/{shard}/pauses":                     `{"scope":"group","group":"web","reason":"test"}`,
	"PUT /v1/shards/{shard}/instances/{instanceId}/hold": `{"reason":"reboot"}`,
	"POST /v1/shards/{shard}/operations":                 `{"id":"op-1","instanceId":"` + instance + `","name":"powerOff"}`,
	"POST /group/scale":                                  `{"group":"web","size":2}`,
	"POST /v1/shards/{shard}/config:plan":                `{"config":"e30="}`,
}

// notInDocument are the calls of the service that HTTP does not have, and why.
var notInDocument = map[string]string{
	"RenewCertificate": "it would renew the gateway's own certificate",
}

// Each path of the document is called, and what is answered is what the document says of
// it; and there is no call of the service that none of them reaches.
func TestTheDocumentDescribesTheAPI(t *testing.T) {
	w := newWorld(t, gateway.Options{FirstAnswer: time.Millisecond})
	doc, err := openapi3.NewLoader().LoadFromData(gateway.Document())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("{shard}", "s1", "{key}", "web", "{group}", "web", "{instanceId}", instance,
		"{providerInstanceId}", "i-1", "{tenant}", "default", "{id}", "op-1")
	operations := 0
	paths := doc.Paths.InMatchingOrder()
	slices.Sort(paths)
	// What is there is read and changed before it is deleted.
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete} {
		for _, path := range paths {
			operation := doc.Paths.Value(path).GetOperation(method)
			if operation == nil {
				continue
			}
			operations++
			if path == "/health" {
				continue // the listener's: see package httpapi
			}
			name := method + " " + path
			url := fill.Replace(path)
			if slices.ContainsFunc(operation.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.Name == "all_shards" }) {
				url += "?shard=s1"
			}
			body := bodies[name]
			if operation.RequestBody != nil && body == "" {
				body = "{}"
			}
			check(t, w, router, name, httptest.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))
		}
	}
	if operations < 40 {
		t.Errorf("the document has %d operations", operations)
	}
	service := nstancev1.OperatorService_ServiceDesc
	var all []string
	for _, m := range service.Methods {
		all = append(all, m.MethodName)
	}
	for _, s := range service.Streams {
		all = append(all, s.StreamName)
	}
	for _, method := range all {
		if reached := w.calls.called(method) > 0; reached == (notInDocument[method] != "") {
			t.Errorf("%s: some path of the document reaches it: %v", method, reached)
		}
	}
}

// briefly is a request whose caller goes away soon.
func briefly(r *http.Request) (*http.Request, func()) {
	ctx, cancel := context.WithTimeout(r.Context(), 50*time.Millisecond)
	return r.WithContext(ctx), cancel
}

func check(t *testing.T, w *world, router routers.Router, name string, r *http.Request) {
	t.Helper()
	if r.ContentLength > 0 {
		r.Header.Set("Content-Type", asJSON)
	}
	route, params, err := router.FindRoute(r)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	request := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateRequest(t.Context(), request); err != nil {
		t.Errorf("%s: the request: %v", name, err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	stop := func() {}
	if strings.Contains(r.URL.Path, "/watch/") {
		r, stop = briefly(r)
	}
	w.gateway.For(gateway.Access{Write: true}).ServeHTTP(answer, r)
	stop()
	// Of these this shard is a fake that knows nothing; that they arrived is all there is to see.
	unimplemented := answer.Code == http.StatusNotImplemented && strings.Contains(answer.Body.String(), "not implemented")
	if answer.Code != http.StatusOK && !unimplemented {
		t.Errorf("%s: answer %d: %s", name, answer.Code, answer.Body)
	}
	if strings.HasPrefix(answer.Header().Get("Content-Type"), "text/event-stream") {
		request.Options.ExcludeResponseBody = true // events are no document
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request, Status: answer.Code, Header: answer.Header(), Body: io.NopCloser(bytes.NewReader(answer.Body.Bytes())),
		Options: request.Options,
	})
	if err != nil {
		t.Errorf("%s: the answer %s: %v", name, answer.Body, err)
	}
}
