package images_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/server/driver"
	"nstance.dev/server/images"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lookups of images whose names are their filters; the options may be changed.
func lookups(change func(*images.Options)) *images.Lookups {
	o := images.Options{
		Resolve: func(_ context.Context, q driver.ImageQuery) (string, error) {
			return "img of " + q.Filters[0].Values[0], nil
		},
		Over:     func(error) bool { return false },
		Interval: func() time.Duration { return interval },
		Ended:    func(string, images.State, error) {},
		Dropped:  func(string) {},
		Now:      time.Now, Log: slog.New(slog.DiscardHandler),
	}
	change(&o)
	return images.NewLookups(o)
}

// TestLookupsRun: each image is looked up at once, again in the interval, and what is added
// to the configuration meanwhile is not kept waiting.
func TestLookupsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dropped []string
		var looked atomic.Int32
		l := lookups(func(o *images.Options) {
			o.Dropped = func(key string) { dropped = append(dropped, key) }
			o.Ended = func(key string, now images.State, err error) {
				looked.Add(1)
				if now.ID != "img of "+key || err != nil {
					t.Errorf("%s stands for %+v: %v", key, now, err)
				}
			}
		})
		l.Configure(map[string]images.Wanted{"a": debian("a", ""), "b": debian("b", "")}, nothing)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go l.Run(ctx)
		synctest.Wait()
		if n := looked.Load(); n != 2 {
			t.Errorf("at once: %d look-ups, want 2", n)
		}
		time.Sleep(time.Minute)
		l.Configure(map[string]images.Wanted{"a": debian("a", ""), "c": debian("c", "")}, nothing)
		synctest.Wait()
		if n := looked.Load(); n != 3 || !slices.Equal(dropped, []string{"b"}) {
			t.Errorf("after a change: %d look-ups, want 3; dropped %q", n, dropped)
		}
		time.Sleep(interval)
		synctest.Wait()
		if n := looked.Load(); n != 5 {
			t.Errorf("an interval later: %d look-ups, want 5", n)
		}
	})
}

// TestL7_OneLookupThatHangsHoldsNoOtherUp: four may hang before the fifth waits.
func TestL7_OneLookupThatHangsHoldsNoOtherUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int32
		l := lookups(func(o *images.Options) {
			o.Resolve = func(ctx context.Context, _ driver.ImageQuery) (string, error) {
				begun.Add(1)
				<-ctx.Done()
				return "", ctx.Err()
			}
			o.Ended = func(key string, _ images.State, _ error) { t.Errorf("%s was told after the end", key) }
		})
		wanted := map[string]images.Wanted{}
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			wanted[key] = debian(key, "")
		}
		l.Configure(wanted, nothing)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { l.Run(ctx); close(ended) }()
		synctest.Wait()
		if n := begun.Load(); n != 4 {
			t.Errorf("%d look-ups under way, want 4", n)
		}
		cancel()
		<-ended
	})
}

// TestALookupThatIsOverTellsNothing: what a provider answers to who no longer leads is not
// believed.
func TestALookupThatIsOverTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := errors.New("not leader")
		l := lookups(func(o *images.Options) {
			o.Resolve = func(context.Context, driver.ImageQuery) (string, error) { return "", over }
			o.Over = func(err error) bool { return errors.Is(err, over) }
			o.Ended = func(key string, _ images.State, _ error) { t.Errorf("%s was told", key) }
		})
		l.Configure(map[string]images.Wanted{"a": debian("a", "img-f")}, nothing)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go l.Run(ctx)
		synctest.Wait()
		if s := l.Get("a"); !s.Pending {
			t.Errorf("it stands for %+v", s)
		}
	})
}
