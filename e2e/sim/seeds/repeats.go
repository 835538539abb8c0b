package seeds

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/sim"
)

// Repeats runs each of some seeds twice, and demands that no promise is broken in one run
// alone, and that in as many of them as least says everything happens again at the same
// moment. It runs them on one processor, and logs where the others part. A seed that parts is
// run again, up to runs times in all, until a run is like one before it: a busy machine takes
// the processor away in the middle of a moment, and goroutines then go on in another order.
func (s *Search) Repeats(t *testing.T, first uint64, seeds, runs, least int) {
	t.Helper()
	defer onOneProcessor()()
	same := 0
	for seed := first; seed < first+uint64(seeds); seed++ {
		if s.repeats(t, s.plan(seed), runs) {
			same++
		}
	}
	if same < least {
		t.Errorf("%d of %d seeds repeat to the last event, want %d at least", same, seeds, least)
	}
}

// repeats runs a plan until two of its runs are alike, or it has run so many times.
func (s *Search) repeats(t *testing.T, p sim.Plan, runs int) bool {
	t.Helper()
	one := s.Play(t, p)
	were := [][]string{deeds(one.History)}
	for len(were) < runs {
		other := s.Play(t, p)
		if a, b := len(one.Violations), len(other.Violations); a != b {
			t.Errorf("seed %d: %d promises are broken in one run, and %d in another", p.Seed, a, b)
		}
		now := deeds(other.History)
		if slices.ContainsFunc(were, func(was []string) bool { return slices.Equal(was, now) }) {
			return true
		}
		last := were[len(were)-1]
		t.Logf("seed %d, mode %s: %d and %d events; %s", p.Seed, p.Settings["mode"], len(last), len(now), apart(last, now))
		were = append(were, now)
	}
	return false
}

// Agree runs each of some seeds twice, cut to a length, and demands that everything happens
// again at the same moment for so long at least. It is for worlds whose goroutines are not
// all the simulator's. Runs that part sooner are logged, and the seed is run again, up to runs
// times in all, until a run agrees for long enough with one before it.
func (s *Search) Agree(t *testing.T, first uint64, seeds, runs int, length, least time.Duration) {
	t.Helper()
	for seed := first; seed < first+uint64(seeds); seed++ {
		p := s.plan(seed)
		p.Settings["length"] = length.String()
		p.Events = slices.DeleteFunc(p.Events, func(e sim.Event) bool { return e.At > length })
		if longest := s.agree(t, p, runs, least); longest < least {
			t.Errorf("seed %d: of %d runs none agrees with another for longer than %v, want %v", seed, runs, longest, least)
		}
	}
}

// agree is for how long two of some runs of a plan agree at the most. It ends with the first
// two that do for as long as least says.
func (s *Search) agree(t *testing.T, p sim.Plan, runs int, least time.Duration) time.Duration {
	t.Helper()
	were := [][]string{deeds(s.Play(t, p).History)}
	var longest time.Duration
	for len(were) < runs && longest < least {
		now := deeds(s.Play(t, p).History)
		for _, was := range were {
			if slices.Equal(was, now) {
				return math.MaxInt64
			}
			longest = max(longest, moment(was, now))
		}
		last := were[len(were)-1]
		t.Logf("seed %d, mode %s: %d and %d events; %s", p.Seed, p.Settings["mode"], len(last), len(now), apart(last, now))
		were = append(were, now)
	}
	return longest
}

// moment is when two histories part that do.
func moment(one, other []string) time.Duration {
	at := parting(one, other)
	line := one[max(0, at-1)]
	seconds, _, _ := strings.Cut(line, " ")
	f, _ := strconv.ParseFloat(seconds, 64) // it is ours
	return time.Duration(f * float64(time.Second))
}

// deeds is a history without what callers hear on their streams: at the moment in which a
// stream ends it is open whether they hear another word.
func deeds(history []string) []string {
	return slices.DeleteFunc(history, func(line string) bool {
		return strings.Contains(line, " sees: ") || strings.Contains(line, " hears: ")
	})
}

// apart says where two histories part; empty: nowhere.
func apart(one, other []string) string {
	at := parting(one, other)
	if at == len(one) && at == len(other) {
		return ""
	}
	const shown = 3
	part := func(all []string) string {
		return strings.Join(all[min(at, len(all)):min(at+shown, len(all))], "\n    ")
	}
	return fmt.Sprintf("after %d of them, the last\n    %s\nthe one goes on with\n    %s\nand the other with\n    %s",
		at, strings.Join(one[max(0, at-shown):at], "\n    "), part(one), part(other))
}
