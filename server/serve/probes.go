package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"nstance.dev/server/conns"
)

// Bounds of the plain HTTP ports.
const (
	scrapes      = 4  // of the metrics at once
	httpSource   = 16 // connections of one source
	httpIdle     = 15 * time.Second
	startupConns = 32 // before there is a configuration
)

// status is what the process's plain HTTP ports say: for probes, and for Prometheus.
type status struct {
	ready    atomic.Bool // a configuration is in force
	registry *prometheus.Registry
}

// newStatus is that of a process which is not ready.
func newStatus() *status {
	s := &status{registry: prometheus.NewRegistry()}
	s.registry.MustRegister(collectors.NewGoCollector(liveHeap), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

// liveHeap adds what the last garbage collection left, the one number of the heap
// that does not depend on when one looks.
var liveHeap = collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{
	Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`),
})

// probes serves /health and / (ready or 503), /livez and /readyz.
func (s *status) probes() *http.ServeMux {
	mux := http.NewServeMux()
	ready := probe(s.ready.Load)
	mux.HandleFunc("/{$}", ready)
	mux.HandleFunc("/health", ready)
	mux.HandleFunc("/readyz", ready)
	mux.HandleFunc("/livez", probe(func() bool { return true }))
	return mux
}

// metrics serves /metrics on mux.
func (s *status) metrics(mux *http.ServeMux) *http.ServeMux {
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapes}))
	return mux
}

// probe answers GET and HEAD with "ok", or 503.
func probe(ok func() bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if !ok() {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("not ready")) // the prober may have gone
			return
		}
		_, _ = w.Write([]byte("ok"))
	}
}

// serveHTTP answers on l with h until ctx ends, in at most so many connections at once.
func serveHTTP(ctx context.Context, l net.Listener, connections int, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: httpIdle, MaxHeaderBytes: 8 << 10,
	}
	l = conns.Limit(l, conns.Options{Limits: conns.Limits{Total: connections, PerSource: httpSource}})
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
