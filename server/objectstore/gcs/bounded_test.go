package gcs_test

import (
	"context"
	"net/http"
	"testing"

	"nstance.dev/server/objectstore/gcs"
	"nstance.dev/server/outbound"
	"nstance.dev/server/outbound/outboundtest"
)

// TestS2_ConnectionsAreBounded: nothing that a leader has written waits in its machine for long.
func TestS2_ConnectionsAreBounded(t *testing.T) {
	outbound.BoundDefault() // as a server's program does
	s := open(t, answer(http.StatusPreconditionFailed, "in test"), gcs.Options{})
	outboundtest.Bounded(t, func(ctx context.Context) { _, _ = s.PutIfAbsent(ctx, "key", []byte("x")) })
}
