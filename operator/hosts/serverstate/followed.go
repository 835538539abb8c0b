// Package serverstate follows what an API server says of itself that host machines depend on: its
// version, which kubelets must not be ahead of, and whether the admission policies are in force
// that keep what machines refer to.
//
// Each is asked for at the start and then again and again; the last answer counts until there is
// another, so an outage changes nothing. It leaves to others what follows from an answer.
package serverstate

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"nstance.dev/operator/program"
)

// Followed is something of the API server that is asked for again and again. NewFollowed makes
// one; it is safe for concurrent use.
type Followed[T any] struct {
	interval time.Duration
	log      *slog.Logger
	fetch    func(context.Context) (T, error)
	last     atomic.Pointer[T]
}

// NewFollowed returns what asks in this interval.
func NewFollowed[T any](interval time.Duration, log *slog.Logger, fetch func(context.Context) (T, error)) *Followed[T] {
	return &Followed[T]{interval: interval, log: log, fetch: fetch}
}

// Get returns the last answer; the zero value before the first.
func (f *Followed[T]) Get() (answer T) {
	if last := f.last.Load(); last != nil {
		return *last
	}
	return answer
}

// Ask asks once.
func (f *Followed[T]) Ask(ctx context.Context) {
	answer, err := f.fetch(ctx)
	if err != nil {
		f.log.WarnContext(ctx, "no answer from the API server", "error", err)
		return
	}
	f.last.Store(&answer)
}

// Start asks at once and then in intervals, until ctx ends.
func (f *Followed[T]) Start(ctx context.Context) error {
	for {
		f.Ask(ctx)
		if program.Pause(ctx, f.interval) != nil {
			return nil //nolint:nilerr // the process ends, which is no failure
		}
	}
}
