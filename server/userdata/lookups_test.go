package userdata_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/userdata"
)

// TestLookupsFetchWhatIsAskedFor: once for all who ask at once. Where a request fails, an older
// copy serves, and who has asked is told so.
func TestLookupsFetchWhatIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const address = "https://host/userdata"
		down := errors.New("down")
		var fails error
		requests := 0
		var mu sync.Mutex // of all that the loop's goroutines read and write here
		l := userdata.NewLookups(func(context.Context, string) ([]byte, error) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			requests++
			return []byte("text"), fails
		}, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		type outcome struct {
			instead time.Time
			err     error
		}
		var told []outcome
		ended := func(instead time.Time, err error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, outcome{instead, err})
		}
		l.Ask(address, ended)
		l.Ask(address, ended)
		go l.Run(ctx)
		time.Sleep(2 * time.Second)
		fetched := time.Now().Add(-time.Second)
		mu.Lock()
		if data, err := l.Take(address, time.Now()); string(data) != "text" || err != nil || requests != 1 || len(told) != 1 || told[0] != (outcome{}) {
			t.Fatalf("%q, %v, after %d requests; told %v", data, err, requests, told)
		}
		fails = down
		mu.Unlock()
		l.Ask(address, ended)
		time.Sleep(2 * time.Second)
		if data, err := l.Take(address, time.Now()); string(data) != "text" || err != nil {
			t.Errorf("after a failure: %q, %v; want the copy", data, err)
		}
		mu.Lock()
		if len(told) != 2 || !told[1].instead.Equal(fetched) || !errors.Is(told[1].err, down) {
			t.Errorf("told %v, want the failure, and the copy of %v", told, fetched)
		}
		mu.Unlock()
		l.Ask(address, ended)
		synctest.Wait()
		cancel()
		time.Sleep(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 3 || told[2] != (outcome{}) {
			t.Errorf("told %v after the end of the loop", told)
		}
	})
}
