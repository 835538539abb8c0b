// Package locks has locks by name.
package locks

import (
	"context"
	"sync"
)

// ByName are locks that are waited for no longer than a context lives. The
// zero value is ready for use. A name that nobody holds or waits for costs nothing.
type ByName struct {
	Width int // how many may have the turn of a name at once; 0: one

	mu   sync.Mutex
	held map[string]*turn
}

type turn struct {
	slot  chan struct{} // full while as many have it as may
	count int           // who have it and who wait
}

// Take waits for the turn of a name. leave gives it back.
func (t *ByName) Take(ctx context.Context, name string) (leave func(), err error) {
	t.mu.Lock()
	if t.held == nil {
		t.held = map[string]*turn{}
	}
	mine := t.held[name]
	if mine == nil {
		mine = &turn{slot: make(chan struct{}, max(1, t.Width))}
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

func (t *ByName) forget(name string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.count--; mine.count == 0 {
		delete(t.held, name)
	}
}
