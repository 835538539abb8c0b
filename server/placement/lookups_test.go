package placement_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/placement"
)

// TestLookupsAskAboutSubnets: an answer fills the book; what the provider cannot say, a create
// shows; and after the end of the leader's term nothing is noted.
func TestLookupsAskAboutSubnets(t *testing.T) {
	over := errors.New("the term is over")
	for name, c := range map[string]struct {
		free  int
		err   error
		claim bool   // a machine may be tried there
		why   string // why not, if that is known
	}{
		"there is room":       {1, nil, true, ""},
		"there is none":       {0, nil, false, "n is full (0 free, 0 on their way)"},
		"the provider fails":  {0, driver.Fail(driver.Transient, "check", errors.New("away")), true, ""},
		"there is no subnet":  {0, driver.Fail(driver.MissingRef, "check", errors.New("none")), false, "n cannot be used: "},
		"the term is over":    {5, over, false, ""},
		"it cannot be parsed": {0, driver.Fail(driver.Invalid, "check", errors.New("odd")), false, "n cannot be used: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var ended []string
				l := placement.NewLookups(placement.Options{
					Check: func(_ context.Context, subnet string) (int, error) {
						time.Sleep(time.Second)
						if subnet != "n" {
							t.Errorf("asked about %q", subnet)
						}
						return c.free, c.err
					},
					Over: func(err error) bool { return errors.Is(err, over) },
					Ended: func(subnet string) {
						mu.Lock()
						defer mu.Unlock()
						ended = append(ended, subnet)
					},
					Now: time.Now, Log: slog.New(slog.DiscardHandler),
				})
				wish := placement.Wish{Types: []string{"small"}, Subnets: []string{"n"}}
				if first := l.Choose(wish, time.Now()); first.Claim != nil || !slices.Equal(first.Ask, []string{"n"}) {
					t.Fatalf("before anything is known: %+v", first)
				}
				ctx, cancel := context.WithCancel(t.Context())
				go l.Run(ctx)
				l.Ask("n")
				time.Sleep(2 * time.Second)
				choice := l.Choose(wish, time.Now())
				if (choice.Claim != nil) != c.claim || len(choice.Why) < len(c.why) || choice.Why[:len(c.why)] != c.why {
					t.Errorf("claim %v, because %q; want %v and %q", choice.Claim, choice.Why, c.claim, c.why)
				}
				mu.Lock()
				if !slices.Equal(ended, []string{"n"}) {
					t.Errorf("told the end of %q", ended)
				}
				mu.Unlock()
				cancel()
			})
		})
	}
}

// TestWhereNobodyCanBeAsked: every subnet has room until a create is refused.
func TestWhereNobodyCanBeAsked(t *testing.T) {
	l := placement.NewLookups(placement.Options{})
	c := l.Choose(placement.Wish{Types: []string{"small"}, Subnets: []string{"n"}}, time.Now())
	if c.Claim == nil || len(c.Ask) != 0 {
		t.Errorf("%+v, want a claim, and nobody to be asked", c)
	}
}
