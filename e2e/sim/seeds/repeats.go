package seeds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/sim"
)

// Repeats runs each of some seeds twice, and demands that no promise is broken in one run
// alone, and that in as many of them as least says everything happens again at the same
// moment. It logs where the others part.
func (s *Search) Repeats(t *testing.T, first uint64, seeds, least int) {
	t.Helper()
	same := 0
	for seed := first; seed < first+uint64(seeds); seed++ {
		p := s.plan(seed)
		one, other := s.Play(t, p), s.Play(t, p)
		if a, b := len(one.Violations), len(other.Violations); a != b {
			t.Errorf("seed %d: %d promises are broken in one run, and %d in the other", seed, a, b)
		}
		a, b := deeds(one.History), deeds(other.History)
		diff := apart(a, b)
		if diff == "" {
			same++
			continue
		}
		t.Logf("seed %d, mode %s: %d and %d events; %s", seed, p.Settings["mode"], len(a), len(b), diff)
	}
	if same < least {
		t.Errorf("%d of %d seeds repeat to the last event, want %d at least", same, seeds, least)
	}
}

// Agree runs each of some seeds twice, cut to a length, and demands that everything happens
// again at the same moment for so long at least. It is for worlds whose goroutines are not
// all the simulator's.
func (s *Search) Agree(t *testing.T, first uint64, seeds int, length, least time.Duration) {
	t.Helper()
	for seed := first; seed < first+uint64(seeds); seed++ {
		p := s.plan(seed)
		p.Settings["length"] = length.String()
		p.Events = slices.DeleteFunc(p.Events, func(e sim.Event) bool { return e.At > length })
		a, b := deeds(s.Play(t, p).History), deeds(s.Play(t, p).History)
		diff := apart(a, b)
		if diff == "" {
			continue
		}
		t.Logf("seed %d, mode %s: %d and %d events; %s", seed, p.Settings["mode"], len(a), len(b), diff)
		if at := moment(a, b); at < least {
			t.Errorf("seed %d: the runs part at %v, want %v at least", seed, at, least)
		}
	}
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
