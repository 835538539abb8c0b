package s3_test

import (
	"context"
	"net/http"
	"testing"

	"nstance.dev/server/objectstore/s3"
	"nstance.dev/server/outbound/outboundtest"
)

// TestS2_ConnectionsAreBounded: nothing that a leader has written waits in its machine for long.
func TestS2_ConnectionsAreBounded(t *testing.T) {
	s := open(t, answer(http.StatusNotFound, "NoSuchKey"), s3.Options{})
	outboundtest.Bounded(t, func(ctx context.Context) { _, _ = s.PutIfAbsent(ctx, "key", []byte("x")) })
}
