package awsfake

import (
	"context"
	"sync"
	"time"
)

// guests are what the machines are made of: each starts when its machine has booted
// and ends with it. The zero value is ready for use.
type guests struct {
	mu     sync.Mutex
	now    map[string]guest
	closed bool
	all    sync.WaitGroup
}

// guest is one of them, from when its machine is turned on.
type guest struct {
	ended context.Context //nolint:containedctx // its end is what a guest is
	end   context.CancelFunc
	gone  chan struct{} // closed when nothing of it is left
}

// start runs a guest after the time that it takes to boot, and after the end of the
// one that was there before under its id. died is called if it cannot be started.
func (g *guests) start(id string, boot time.Duration, run func() (stop func(), err error), died func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	before, again := g.now[id]
	if again {
		before.end()
	}
	ended, end := context.WithCancel(context.Background())
	next := guest{ended, end, make(chan struct{})}
	if g.now == nil {
		g.now = map[string]guest{}
	}
	g.now[id] = next
	g.all.Go(func() {
		defer g.forget(id, next)
		defer close(next.gone)
		defer end()
		if again {
			<-before.gone
		}
		if !waits(ended, boot) {
			return
		}
		stop, err := run()
		if err != nil {
			died()
			return
		}
		<-ended.Done()
		stop()
	})
}

func (g *guests) forget(id string, gone guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now[id].gone == gone.gone {
		delete(g.now, id)
	}
}

// waits reports whether ctx lasts for as long as d.
func waits(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// stop ends a guest, if there is one, after a while, and does not wait for that.
func (g *guests) stop(id string, after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one, there := g.now[id]
	switch {
	case !there, g.closed:
	case after <= 0:
		one.end()
	default:
		g.all.Go(func() {
			if waits(one.ended, after) {
				one.end()
			}
		})
	}
}

// close ends all guests and waits for them. None starts any more.
func (g *guests) close() {
	g.mu.Lock()
	g.closed = true
	for _, one := range g.now {
		one.end()
	}
	g.mu.Unlock()
	g.all.Wait()
}
