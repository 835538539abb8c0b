package box

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Within waits until check returns nil, and returns how long that took. It fails
// the test with the last error if it takes longer than bound.
func (b *Box) Within(bound time.Duration, what string, check func() error) time.Duration {
	b.t.Helper()
	start := time.Now()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := check()
		took := time.Since(start)
		switch {
		case err == nil && took <= bound:
			b.t.Logf("measured: %s after %v (bound %v)", what, took.Round(time.Millisecond), bound)
			return took
		case err == nil:
			b.t.Fatalf("%s after %v, and must be within %v", what, took, bound)
		case took > bound:
			b.t.Fatalf("not within %v: %s: %v", bound, what, err)
		}
		time.Sleep(pause)
	}
}

// Peak counts the machines' processes over and over until the returned function is
// called, which tells how many there were at most.
func (b *Box) Peak() (stop func() int) {
	most := 0
	end := repeat(2*time.Millisecond, func() { most = max(most, len(b.Machines())) })
	return func() int {
		end()
		return most
	}
}

// Changes notes which machines appear and vanish, as directories and as records,
// until the returned function is called, which tells them.
func (b *Box) Changes() (stop func() []string) {
	var changes []string
	note := func(what string, before, now []string) {
		for _, id := range now {
			if !slices.Contains(before, id) {
				changes = append(changes, fmt.Sprintf("%s %s appeared", what, id))
			}
		}
		for _, id := range before {
			if !slices.Contains(now, id) {
				changes = append(changes, fmt.Sprintf("%s %s vanished", what, id))
			}
		}
	}
	directories, records := b.Directories(), b.RecordIDs()
	end := repeat(10*time.Millisecond, func() {
		d, r := b.Directories(), b.RecordIDs()
		note("directory", directories, d)
		note("record", records, r)
		directories, records = d, r
	})
	return func() []string {
		end()
		return changes
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
			case <-time.After(max(pause, 3*time.Since(begin))):
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		wg.Wait()
	})
}
