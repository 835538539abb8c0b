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
	ends   map[string]context.CancelFunc
	closed bool
	all    sync.WaitGroup
}

// start runs a guest after the time that it takes to boot. died is called if it
// cannot be started. A guest that was there before under that id is ended.
func (g *guests) start(id string, boot time.Duration, run func() (stop func(), err error), died func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	if end := g.ends[id]; end != nil {
		end()
	}
	ctx, end := context.WithCancel(context.Background())
	if g.ends == nil {
		g.ends = map[string]context.CancelFunc{}
	}
	g.ends[id] = end
	g.all.Go(func() {
		defer end()
		booted := time.NewTimer(boot)
		defer booted.Stop()
		select {
		case <-booted.C:
		case <-ctx.Done():
			return
		}
		stop, err := run()
		if err != nil {
			died()
			return
		}
		<-ctx.Done()
		stop()
	})
}

// stop ends a guest, if there is one, and does not wait for that.
func (g *guests) stop(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if end := g.ends[id]; end != nil {
		end()
		delete(g.ends, id)
	}
}

// close ends all guests and waits for them. None starts any more.
func (g *guests) close() {
	g.mu.Lock()
	g.closed = true
	for id, end := range g.ends {
		end()
		delete(g.ends, id)
	}
	g.mu.Unlock()
	g.all.Wait()
}
