package shard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"nstance.dev/server/lease"
)

// TestLeadershipEndsWithALaterLeader: the sign of one ends the term at once, the end of the
// lease ends it by itself, and what else fails does not.
func TestLeadershipEndsWithALaterLeader(t *testing.T) {
	for _, c := range []struct {
		err         error
		over, ended bool
	}{
		{nil, false, false},
		{errors.New("storage is away"), false, false},
		{fmt.Errorf("write: %w", lease.ErrNotLeader), true, false},
		{fmt.Errorf("read: %w", lease.ErrSuperseded), true, true},
	} {
		l := &leadership{}
		l.ctx, l.end = context.WithCancelCause(t.Context())
		if over := l.endIfOver(c.err); over != c.over || (l.ctx.Err() != nil) != c.ended {
			t.Errorf("%v: over is %t, ended is %t; want %t and %t", c.err, over, l.ctx.Err() != nil, c.over, c.ended)
		}
		if got := superseded(l.ctx); (got != nil) != c.ended {
			t.Errorf("%v: superseded says %v", c.err, got)
		}
	}
}

// TestEffectsEndWithTheTermAndTheCaller: whichever ends first.
func TestEffectsEndWithTheTermAndTheCaller(t *testing.T) {
	for name, end := range map[string]func(l *leadership, caller context.CancelFunc){
		"the term":   func(l *leadership, _ context.CancelFunc) { l.end(lease.ErrSuperseded) },
		"the caller": func(_ *leadership, caller context.CancelFunc) { caller() },
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &leadership{}
			l.ctx, l.end = context.WithCancelCause(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			bound, release := l.bound(ctx)
			defer release()
			if bound.Err() != nil {
				t.Fatalf("%s: it has ended before", name)
			}
			end(l, cancel)
			synctest.Wait()
			if bound.Err() == nil {
				t.Errorf("%s has ended, and what it asked for goes on", name)
			}
		})
	}
}
