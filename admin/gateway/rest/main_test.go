package nstancev1_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.uber.org/goleak"

	rest "nstance.dev/admin/gateway/rest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is called is tested in package gateway; here, that a handler without its service
// answers, and leaves nothing running.
func TestTheHandlersStandByThemselves(t *testing.T) {
	mux := runtime.NewServeMux()
	if err := rest.RegisterOperatorServiceHandlerServer(t.Context(), mux, nstancev1.UnimplementedOperatorServiceServer{}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/groups": http.StatusNotImplemented, "/none": http.StatusNotFound} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if answer.Code != want {
			t.Errorf("%s answers %d, want %d", path, answer.Code, want)
		}
	}
}
