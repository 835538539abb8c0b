package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// status is the process's plain HTTP port: for probes and for Prometheus.
type status struct {
	ready    atomic.Bool // a configuration is in force
	registry *prometheus.Registry
}

// handler serves /health and / (ready or 503), /livez, /readyz and /metrics.
func (s *status) handler() http.Handler {
	mux := http.NewServeMux()
	ready := probe(s.ready.Load)
	mux.HandleFunc("/{$}", ready)
	mux.HandleFunc("/health", ready)
	mux.HandleFunc("/readyz", ready)
	mux.HandleFunc("/livez", probe(func() bool { return true }))
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
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

// serve answers on l until ctx ends.
func (s *status) serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
