package program

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// The pauses between two attempts to reach the API server grow from the first to the longest.
const (
	firstAttempt   = time.Second
	longestAttempt = 5 * time.Second
	attemptTimeout = 10 * time.Second
)

// AwaitAPI returns nil once the API server is ready, or refuses to say so. Until then it logs what is in the way, and
// probes find the process alive and not ready: to end it would not help, and the pauses between the starts of a
// container grow to five minutes. The error is the reason of ctx, or why the server cannot be asked at all.
func AwaitAPI(ctx context.Context, api *rest.Config, probes string, log *slog.Logger) error {
	asking := rest.CopyConfig(api)
	asking.Timeout = attemptTimeout
	d, err := discovery.NewDiscoveryClientForConfig(asking)
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	waited, stop := time.Duration(0), func() {}
	defer func() { stop() }()
	for pause := firstAttempt; ; pause = min(2*pause, longestAttempt) {
		err := ready(ctx, d.RESTClient())
		if err == nil && waited > 0 {
			log.InfoContext(ctx, "API server ready", "server", api.Host, "waited", waited.String())
		}
		if err == nil {
			return nil
		}
		if waited == 0 {
			stop = serveWaiting(ctx, probes, "the API server", log)
		}
		log.WarnContext(ctx, "API server not ready; nothing is done before it is", "server", api.Host, "error", err, "retry_in", pause.String())
		if err := Pause(ctx, pause); err != nil {
			return err
		}
		waited += pause
	}
}

// ready asks an API server whether it is ready. One that does not let us ask is up.
func ready(ctx context.Context, client rest.Interface) error {
	code := 0
	err := client.Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).StatusCode(&code).Error()
	if code != 0 && code != http.StatusTooManyRequests && code < http.StatusInternalServerError {
		return nil
	}
	return err
}

// serveWaiting answers probes of a process that waits for something before it starts; stop ends that, and frees the address.
// Without it the process waits all the same.
func serveWaiting(ctx context.Context, address, what string, log *slog.Logger) (stop func()) {
	if address == "" || address == "0" {
		return func() {}
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		log.WarnContext(ctx, "probes are not answered while the process waits", "waits_for", what, "error", err)
		return func() {}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "waits for "+what, http.StatusServiceUnavailable)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: attemptTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until it is closed
	}()
	return func() {
		_ = server.Close()
		<-done
	}
}
