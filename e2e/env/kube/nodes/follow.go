package nodes

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
)

// Follow runs an agent for each machine that list returns, from the time on at which it
// first does until it no longer does, or returns it with another life, and asks again after
// every pause. It returns nil when ctx ends, and all agents end with it.
//
// A machine that is gone says nothing more; its Node is for others to delete. While list
// fails, nobody knows which machines there are, and those that run go on.
func Follow(ctx context.Context, client kubernetes.Interface, log *slog.Logger, pause time.Duration, list func(context.Context) ([]Machine, error)) error {
	var running errgroup.Group
	type life struct{ name, life string }
	off := map[life]context.CancelFunc{}
	for ctx.Err() == nil {
		machines, err := list(ctx)
		if err != nil {
			log.WarnContext(ctx, "which machines there are is not known", "error", err)
			wait(ctx, pause)
			continue
		}
		there := map[life]bool{}
		for _, machine := range machines {
			there[life{machine.Name, machine.Life}] = true
		}
		for lived, end := range off {
			if !there[lived] {
				end()
				delete(off, lived)
			}
		}
		for _, machine := range machines {
			this := life{machine.Name, machine.Life}
			if off[this] != nil {
				continue
			}
			lives, end := context.WithCancel(ctx)
			off[this] = end
			running.Go(func() error { return New(client, machine, log).Run(lives) })
		}
		wait(ctx, pause)
	}
	for _, end := range off {
		end()
	}
	return running.Wait()
}

// wait waits, at most until ctx ends.
func wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
