package box_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"nstance.dev/e2e/box"
)

func TestS16_ServerKilledAndStartedAgainChangesNothing(t *testing.T) {
	for _, tc := range []struct {
		name      string
		loseCache bool
		bound     time.Duration // till the shard is served
	}{
		// The cache proves that the own predecessor is dead, so there is no lease to
		// wait for; without it there is.
		{"with its cache", false, time.Second},
		{"without its cache", true, lease + time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, p := up(t, 3)
			before := b.Machines()
			changes := b.Changes()
			time.Sleep(time.Second) // the cache's file is a moment behind

			p.Kill()
			if tc.loseCache {
				if err := os.RemoveAll(b.Path("cache")); err != nil {
					t.Fatal(err)
				}
			}
			again := b.Dev(3)
			b.Within(tc.bound, "the shard is served", func() error {
				_, err := b.Groups()
				return err
			})
			b.Within(agentsBack, "all agents are back", func() error { return b.Settled("web", 3, again.Started) })
			time.Sleep(7 * time.Second) // three rounds of garbage collection

			if seen := changes(); len(seen) > 0 {
				t.Errorf("machines came or went: %v", seen)
			}
			if now := b.Machines(); !slices.Equal(now, before) {
				t.Errorf("machines are %v, were %v", now, before)
			}
		})
	}
}

// However the server dies while it makes fifty machines, the next one ends with
// fifty machines, fifty records, and nothing else.
func TestF12_ServerKilledInTheMiddleOfAScaleUp(t *testing.T) {
	b, p := up(t, 0)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range *rounds {
		wait := time.Duration(random.Int64N(int64(700 * time.Millisecond)))
		p = killDuringScaleUp(t, b, p, round, wait)
		scaleToNothing(t, b)
	}
}

const crowd = 50

func killDuringScaleUp(t *testing.T, b *box.Box, p *box.Process, round int, wait time.Duration) *box.Process {
	t.Helper()
	peak := b.Peak()
	var call sync.WaitGroup
	call.Go(func() { _ = b.Scale("web", crowd) }) // the answer may die with the server
	time.Sleep(wait)
	p.Kill()
	call.Wait()
	records, processes := len(b.RecordIDs()), len(b.Machines())

	again := b.Dev(0)
	b.Within(10*time.Second, "the next server takes the size", func() error { return b.Scale("web", crowd) })
	b.Within(60*time.Second-time.Since(again.Started), "fifty machines run", func() error { return b.Settled("web", crowd, time.Time{}) })
	took := time.Since(again.Started)
	time.Sleep(3 * time.Second) // a round of garbage collection finds nothing to do
	if err := b.Settled("web", crowd, again.Started); err != nil {
		t.Errorf("it did not last: %v", err)
	}
	t.Logf("round %d: killed after %v with %d records and %d processes; at size %v after the restart; %d processes at most",
		round, wait.Round(time.Millisecond), records, processes, took.Round(time.Millisecond), peak())
	return again
}

func scaleToNothing(t *testing.T, b *box.Box) {
	t.Helper()
	if err := b.Scale("web", 0); err != nil {
		t.Fatal(err)
	}
	b.Within(30*time.Second, "all are gone", func() error { return b.Settled("web", 0, time.Time{}) })
}
