package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// Bounds of the election listener, which strangers can reach.
const (
	maxConns  = 256
	callLimit = 5 * time.Second
	idleLimit = time.Minute
)

// Serve answers on l with h until ctx ends. It closes l.
func Serve(ctx context.Context, l net.Listener, config *tls.Config, h http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: callLimit, ReadTimeout: callLimit, WriteTimeout: callLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: 8 << 10,
		// Handshakes that fail are the business of whoever came: at most worth a look.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(tls.NewListener(netutil.LimitListener(l, maxConns), config))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
