package outbound_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"nstance.dev/server/lease"
	"nstance.dev/server/outbound"
	"nstance.dev/server/outbound/outboundtest"
)

// TestS2_TheLimitIsBelowTheMargin of each lease, and of the shortest until one is known.
func TestS2_TheLimitIsBelowTheMargin(t *testing.T) {
	if least := lease.Margin(lease.MinLease); outbound.Limit() >= least {
		t.Errorf("limit %v before a lease is known, want below %v", outbound.Limit(), least)
	}
	for _, l := range []time.Duration{lease.MinLease, 15 * time.Second, lease.MaxLease} {
		margin := lease.Margin(l)
		outbound.Below(margin)
		if got := outbound.Limit(); got >= margin || got < margin/2 {
			t.Errorf("lease %v: limit %v, want a little below the margin, %v", l, got, margin)
		}
	}
}

func TestBound_asTheKernelSaysIt(t *testing.T) {
	outbound.BoundDefault()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	d := &net.Dialer{}
	outbound.Bound(d)
	for _, transport := range []*http.Transport{{DialContext: d.DialContext}, http.DefaultTransport.(*http.Transport).Clone()} {
		t.Cleanup(transport.CloseIdleConnections)
		outbound.Below(3 * time.Second)
		outboundtest.Bounded(t, func(ctx context.Context) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := answer.Body.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
