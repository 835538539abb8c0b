package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"nstance.dev/server/outbound/outboundtest"
)

// TestS2_ConnectionsAreBounded: nothing that a leader has written waits in its machine for long.
func TestS2_ConnectionsAreBounded(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, urls := range [][]*url.URL{{address}, {address, address}} {
		transport, err := transportOf(Options{URLs: urls, InsecureTLS: true})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: transport}
		outboundtest.Bounded(t, func(ctx context.Context) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := answer.Body.Close(); err != nil {
				t.Error(err)
			}
		})
		client.CloseIdleConnections()
	}
}
