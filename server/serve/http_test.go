package serve

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestProbes(t *testing.T) {
	s := &status{registry: prometheus.NewRegistry()}
	for _, tt := range []struct {
		ready        bool
		method, path string
		code         int
		body         string
	}{
		{false, "GET", "/health", 503, "not ready"},
		{false, "GET", "/livez", 200, "ok"},
		{true, "GET", "/health", 200, "ok"},
		{true, "GET", "/", 200, "ok"},
		{true, "HEAD", "/readyz", 200, "ok"},
		{true, "POST", "/health", 405, "method not allowed\n"},
		{true, "GET", "/elsewhere", 404, "404 page not found\n"},
		{true, "GET", "/metrics", 200, ""},
	} {
		s.ready.Store(tt.ready)
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, http.NoBody))
		if w.Code != tt.code || w.Body.String() != tt.body {
			t.Errorf("%s %s (ready %v) = %d %q, want %d %q", tt.method, tt.path, tt.ready, w.Code, w.Body, tt.code, tt.body)
		}
	}
}
