package catalog_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/catalog"
	"nstance.dev/server/driver"
)

// TestRunListsWhenDue: at once, after each failure later than before, and twelve hours after
// a success; it ends when nothing may be listed any more.
func TestRunListsWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			b       catalog.Book
			began   = time.Now()
			asked   []time.Duration
			changed []time.Duration
			over    = errors.New("over")
		)
		answers := []error{errors.New("down"), errors.New("down"), nil, nil, over}
		b.Run(t.Context(), catalog.Listing{
			List: func(context.Context) ([]driver.InstanceType, error) {
				asked = append(asked, time.Since(began))
				return []driver.InstanceType{{Name: "small", VCPU: 2}}, answers[len(asked)-1]
			},
			Over:    func(err error) bool { return errors.Is(err, over) },
			Changed: func() { changed = append(changed, time.Since(began)) },
			Now:     time.Now, Log: slog.New(slog.DiscardHandler),
		})
		first := 90 * time.Second
		if want := []time.Duration{0, 30 * time.Second, first, first + 12*time.Hour, first + 24*time.Hour}; !slices.Equal(asked, want) {
			t.Errorf("listed after %v, want %v", asked, want)
		}
		if !slices.Equal(changed, []time.Duration{first}) {
			t.Errorf("changes after %v, want one, with the first listing that worked", changed)
		}
		if got := b.Offer([]string{"small"}); got.VCPU != 2 {
			t.Errorf("known: %+v", got)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var b catalog.Book
		b.Run(ctx, catalog.Listing{
			List: func(context.Context) ([]driver.InstanceType, error) { cancel(); return nil, nil },
			Over: func(error) bool { return false }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Changed: func() { t.Error("a listing counts whose context has ended") },
		})
	})
}

// TestRunListsPricesEveryHour, for as long as they count.
func TestRunListsPricesEveryHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			b     catalog.Book
			began = time.Now()
			asked []time.Duration
			over  = errors.New("over")
		)
		if b.Types() != nil {
			t.Error("types are known before a listing")
		}
		b.Run(t.Context(), catalog.Listing{
			List: func(context.Context) ([]driver.InstanceType, error) {
				asked = append(asked, time.Since(began))
				if len(asked) == 5 {
					return nil, over
				}
				return []driver.InstanceType{{Name: "small", SpotUSD: float64(len(asked))}}, nil
			},
			Over: func(err error) bool { return errors.Is(err, over) }, Changed: func() {},
			Prices: func() bool { return time.Since(began) < 150*time.Minute },
			Now:    time.Now, Log: slog.New(slog.DiscardHandler),
		})
		if want := []time.Duration{0, time.Hour, 2 * time.Hour, 14 * time.Hour, 26 * time.Hour}; !slices.Equal(asked, want) {
			t.Errorf("listed after %v, want %v", asked, want)
		}
		if types := b.Types(); len(types) != 1 || types[0].SpotUSD != 4 {
			t.Errorf("types %v, want those of the last listing", types)
		}
	})
}
