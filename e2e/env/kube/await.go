package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// Await waits until check returns nil, and logs how long that took. The test fails with
// the last error when its patience is over. It may be called by a cleanup too.
func Await(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	AwaitFor(t, Patience, what, check)
}

// AwaitFor is Await for what takes longer, with a limit of its own.
func AwaitFor(t testing.TB, limit time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit) // which is over when cleanups run
	defer cancel()
	start := time.Now()
	if err := await(ctx, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	t.Logf("measured: %s after %v", what, time.Since(start).Round(time.Millisecond))
}

// permanent is an error that no waiting ends.
type permanent struct{ error }

// await calls check until it returns nil or something permanent, or until ctx ends, and then returns
// what it said last. It pauses for a tenth of the time that it has waited, 10 ms to 1 s: tests that wait
// beside each other shall not keep busy what they wait for.
func await(ctx context.Context, check func(context.Context) error) error {
	for start := time.Now(); ; {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if final := (permanent{}); errors.As(err, &final) {
			return final.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(min(max(time.Since(start)/10, 10*time.Millisecond), time.Second)):
		}
	}
}
