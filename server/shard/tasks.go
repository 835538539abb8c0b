package shard

import "sync"

// tasks are the goroutines of a reign that nobody else waits for: deletions,
// look-ups, writes to be finished. Their zero value has none. It is safe for
// concurrent use: calls of the API may still be under way when a reign ends.
type tasks struct {
	mu    sync.Mutex
	ended bool
	under sync.WaitGroup
}

// Go runs do in a goroutine of its own. Once the end is waited for it does not: the
// lease is gone, and what do is about is the next leader's.
func (t *tasks) Go(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.under.Go(do)
	}
}

// Wait waits until all that have begun have ended, and lets no others begin.
func (t *tasks) Wait() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.under.Wait()
}
