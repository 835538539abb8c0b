package box

import (
	"sync"
	"time"
)

// Patience is how long a test waits for something that must happen: long enough for
// a box that is busy with other things. How fast it happens is measured elsewhere.
const Patience = 90 * time.Second

// Await waits until check returns nil, logs how long that took, and returns it. The
// test fails with the last error when its patience is over.
func (b *Box) Await(what string, check func() error) time.Duration {
	b.t.Helper()
	return b.AwaitFor(Patience, what, check)
}

// AwaitFor is [Box.Await] with a patience of its own, for what the cluster takes its time with.
func (b *Box) AwaitFor(patience time.Duration, what string, check func() error) time.Duration {
	b.t.Helper()
	start := time.Now()
	var last error // what was missing
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := check()
		took := time.Since(start)
		if err == nil {
			b.t.Logf("measured: %s after %v; until then: %v", what, took.Round(time.Millisecond), last)
			return took
		}
		if took > patience {
			b.t.Fatalf("not within %v: %s: %v", patience, what, err)
		}
		last = err
		time.Sleep(pause)
	}
}

// repeat calls look over and over and once more at the end, in a goroutine of its
// own until the returned function is called. Between two looks it pauses, and for
// longer than they take: what is looked at needs the processor too.
func repeat(pause time.Duration, look func()) (stop func()) {
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			begin := time.Now()
			look()
			select {
			case <-ended:
				look()
				return
			case <-time.After(max(pause, 4*time.Since(begin))):
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		wg.Wait()
	})
}
