package scale

import (
	"sync"
	"time"
)

// sayEvery is how often is said how far something is.
const sayEvery = 5 * time.Second

// follow says every few seconds how far something is, until it is done; then it says how
// long that took. So a run that hangs shows where.
func (w *world) follow(what string, howFar func() string) (done func()) {
	w.t.Helper()
	began, ended := time.Now(), make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		ticker := time.NewTicker(sayEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				w.t.Logf("%s: %s after %v", what, howFar(), time.Since(began).Round(time.Second))
			}
		}
	})
	return func() {
		w.t.Helper()
		close(ended)
		reader.Wait()
		w.t.Logf("measured: %s after %v", what, time.Since(began).Round(time.Millisecond))
	}
}
