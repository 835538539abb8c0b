package offers

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
)

func TestKeeperFollowsWhatItIsMadeOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := load(t, parts{groups: `"g": { "template": "t", "mode": "demand", "demand": { "disruption": [ { "nodes": 0, "schedule": "* * * * *", "duration": "20s" } ] } }`})
		in := input(cfg, nil)
		var types atomic.Pointer[[]driver.InstanceType]
		none := []driver.InstanceType(nil)
		types.Store(&none)
		made := 0
		k := NewKeeper(Sources{
			Config: func() *effective.Config { made++; return cfg }, Groups: func() []*effective.Group { return in.Groups },
			Types: func() ([]driver.InstanceType, bool) { return *types.Load(), true },
			Taken: func() map[string]int { return nil }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		if n := len(k.Book().Offers); n != 0 {
			t.Fatalf("%d offers before the first listing", n)
		}
		told := make(chan struct{}, 1)
		k.Notify(told)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx) }()
		types.Store(&listing)
		k.Wake()
		k.Wake() // a second one costs nothing
		synctest.Wait()
		if len(told) != 1 || len(k.Book().Offers) != 1 {
			t.Errorf("after a listing: told %d times, %d offers", len(told), len(k.Book().Offers))
		}
		<-told
		first := k.Book().Groups[0].Disruption[0].Until
		time.Sleep(time.Until(first) + time.Second)
		synctest.Wait()
		if now := k.Book().Groups[0].Disruption[0]; !now.Until.After(time.Now()) || len(told) != 1 {
			t.Errorf("when a window has closed the next one is %v to %v, told %d times", now.From, now.Until, len(told))
		}
		cancel()
		<-done
		if made > 6 {
			t.Errorf("the Book was made %d times", made)
		}
	})
}

// TestKeeperSaysOnceWhatIsNotOffered: from the beginning, not only what comes to lack later.
func TestKeeperSaysOnceWhatIsNotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := load(t, parts{groups: `"g": { "template": "t", "mode": "demand", "instance_type": ["unheard.of"] }`})
		in := input(cfg, nil)
		var log bytes.Buffer
		k := NewKeeper(Sources{
			Config: func() *effective.Config { return cfg }, Groups: func() []*effective.Group { return in.Groups },
			Types: func() ([]driver.InstanceType, bool) { return listing, true },
			Taken: func() map[string]int { return nil }, Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		cancel()
		<-done
		if n := strings.Count(log.String(), "the size of unheard.of is not known"); n != 1 {
			t.Errorf("said %d times:\n%s", n, log.String())
		}
	})
}
