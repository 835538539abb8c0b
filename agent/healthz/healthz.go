// Package healthz answers whether the agent's process is alive. It says nothing of the
// machine or of the server: whoever restarts the agent because the server is away only
// makes its return slower.
package healthz

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	requestTimeout = 5 * time.Second
	stopTimeout    = time.Second
)

// Handler answers GET and HEAD of /healthz with 200 and "ok".
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok") // a client that has gone away needs no answer
	})
	return mux
}

// Serve answers on l until ctx ends, and closes it. It returns nil then, else why it
// cannot go on.
func Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           Handler(),
		ReadTimeout:       requestTimeout,
		ReadHeaderTimeout: requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    8 << 10,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close() // what is left would keep the process from ending
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve health: %w", err)
}
