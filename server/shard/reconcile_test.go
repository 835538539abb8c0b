package shard

import (
	"context"
	"testing"

	"nstance.dev/server/fleet"
)

// TestNoPassIsMadeAfterTheTerm: a reconciler without any of its parts takes what is queued
// and looks at nothing.
func TestNoPassIsMadeAfterTheTerm(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	end()
	r := &reconciler{queue: newQueue(nil, nil)}
	r.queue.Enqueue(fleet.GroupID{Name: "web"})
	r.queue.waiting.ShutDown()
	r.run(over)
	if n := r.queue.waiting.Len(); n != 0 {
		t.Errorf("%d groups are left", n)
	}
}
