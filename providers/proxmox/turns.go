package proxmox

import (
	"context"
	"sync"
)

// turns are locks by name that are waited for no longer than a context lives. The
// zero value is ready for use. A name that nobody holds or waits for costs nothing.
type turns struct {
	width int // how many may have the turn of a name at once; 0: one

	mu   sync.Mutex
	held map[string]*turn
}

type turn struct {
	slot  chan struct{} // full while as many have it as may
	count int           // who have it and who wait
}

// take waits for the turn of a name. leave gives it back.
func (t *turns) take(ctx context.Context, name string) (leave func(), err error) {
	t.mu.Lock()
	if t.held == nil {
		t.held = map[string]*turn{}
	}
	mine := t.held[name]
	if mine == nil {
		mine = &turn{slot: make(chan struct{}, max(1, t.width))}
		t.held[name] = mine
	}
	mine.count++
	t.mu.Unlock()

	select {
	case mine.slot <- struct{}{}:
		return func() { <-mine.slot; t.forget(name, mine) }, nil
	case <-ctx.Done():
		t.forget(name, mine)
		return nil, ctx.Err()
	}
}

func (t *turns) forget(name string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.count--; mine.count == 0 {
		delete(t.held, name)
	}
}
