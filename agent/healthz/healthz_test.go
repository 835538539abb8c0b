package healthz_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"nstance.dev/agent/healthz"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHandler(t *testing.T) {
	for _, tt := range []struct {
		method, path string
		code         int
		body         string
	}{
		{http.MethodGet, "/healthz", http.StatusOK, "ok"},
		{http.MethodHead, "/healthz", http.StatusOK, ""},
		{http.MethodPost, "/healthz", http.StatusMethodNotAllowed, "Method Not Allowed\n"},
		{http.MethodGet, "/", http.StatusNotFound, "404 page not found\n"},
	} {
		server := httptest.NewServer(healthz.Handler())
		request, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		server.Close()
		if err != nil || response.StatusCode != tt.code || string(body) != tt.body {
			t.Errorf("%s %s: %d %q, %v", tt.method, tt.path, response.StatusCode, body, err)
		}
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- healthz.Serve(ctx, l) }()
	response, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve() = %v", err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the port is still open")
	}
}

func TestServeReturnsWhyItCannotGoOn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := healthz.Serve(t.Context(), l); err == nil {
		t.Error("no error on a closed listener")
	}
}
