package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"nstance.dev/server/conns"
)

// Bounds of the election listener, which strangers can reach.
const (
	perSource = 64 // connections
	callLimit = 5 * time.Second
	idleLimit = time.Minute
)

// Serve answers on l with h until ctx ends, in at most so many connections at once; 0: in any
// number. It closes l.
func Serve(ctx context.Context, l net.Listener, connections int, config *tls.Config, h http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: callLimit, ReadTimeout: callLimit, WriteTimeout: callLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: 8 << 10,
		// Handshakes that fail are the business of whoever came: at most worth a look.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(tls.NewListener(conns.Limit(l, conns.Options{Limits: conns.Limits{Total: connections, PerSource: perSource}}), config))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
