package serve

import (
	"net/http"
	"net/http/httptest"
	"sync"
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
		{true, "GET", "/metrics", 404, "404 page not found\n"},
	} {
		s.ready.Store(tt.ready)
		w := httptest.NewRecorder()
		s.probes().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, http.NoBody))
		if w.Code != tt.code || w.Body.String() != tt.body {
			t.Errorf("%s %s (ready %v) = %d %q, want %d %q", tt.method, tt.path, tt.ready, w.Code, w.Body, tt.code, tt.body)
		}
	}
}

// TestS22_ScrapesAtOnce: more scrapes at once than are served are turned away, and cost nothing.
func TestS22_ScrapesAtOnce(t *testing.T) {
	gate, begun := make(chan struct{}), make(chan struct{}, scrapes)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 {
		begun <- struct{}{}
		<-gate
		return 1
	}))
	s := &status{registry: registry}
	h := s.metrics(http.NewServeMux())
	scrape := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", http.NoBody))
		return w.Code
	}
	var slow sync.WaitGroup
	for range scrapes {
		slow.Go(func() {
			if code := scrape(); code != http.StatusOK {
				t.Errorf("a scrape is answered %d", code)
			}
		})
	}
	for range scrapes {
		<-begun
	}
	if code := scrape(); code != http.StatusServiceUnavailable {
		t.Errorf("one scrape more is answered %d, want 503", code)
	}
	close(gate)
	slow.Wait()
}
