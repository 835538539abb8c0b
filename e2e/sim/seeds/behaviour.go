package seeds

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/e2e/sim"
)

// Behaviour is a directory with what was observed when plans were played by some build:
// every call of the driver, write to the storage and event, with its moment. A change that
// is to leave behaviour as it is records the plans before and compares after.
//
// Plans are played on one processor. Where goroutines part all the same, as package sim
// says, the rest of a plan is open: each is recorded twice, and what is kept is how both runs
// begin.
type Behaviour string

// plays is how often a plan may be played until it begins as recorded: what is open in a
// world may be open earlier than two runs have shown.
const plays = 4

// Record plays a plan twice and keeps how both runs begin.
func (b Behaviour) Record(t *testing.T, s *Search, name string, p sim.Plan) {
	t.Helper()
	one, other := s.behave(t, p), s.behave(t, p)
	at := parting(one, other)
	t.Logf("%s: %d of %d events", name, at, len(one))
	text := strings.Join(one[:at], "\n") + "\n"
	if err := os.MkdirAll(string(b), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Compare plays a plan and fails unless it begins as it was recorded.
func (b Behaviour) Compare(t *testing.T, s *Search, name string, p sim.Plan) {
	t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		t.Fatal(err)
	}
	recorded := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	best, diff := -1, ""
	for range plays {
		now := s.behave(t, p)
		at := parting(recorded, now)
		if at == len(recorded) {
			return
		}
		if at > best {
			best, diff = at, apart(recorded, now)
		}
	}
	t.Errorf("%s: it was recorded otherwise: %s", name, diff)
}

// behave plays a plan and returns what happened, an event on a line.
func (s *Search) behave(t *testing.T, p sim.Plan) []string {
	t.Helper()
	defer onOneProcessor()()
	events := deeds(s.Play(t, p).History)
	for i, event := range events {
		events[i] = strings.ReplaceAll(event, "\n", "; ")
	}
	return events
}

func (b Behaviour) path(name string) string {
	return filepath.Join(string(b), strings.NewReplacer(" ", "-", "/", "-", ",", "", ":", "").Replace(name)+".txt")
}

// Seeds are the plans of the first so many seeds, by name.
func (s *Search) Seeds(n int) map[string]sim.Plan {
	plans := map[string]sim.Plan{}
	for seed := range uint64(n) {
		plans[fmt.Sprintf("seed %d", seed+1)] = s.plan(seed + 1)
	}
	return plans
}

// parting is how many lines two histories begin with alike.
func parting(one, other []string) int {
	at := 0
	for at < len(one) && at < len(other) && one[at] == other[at] {
		at++
	}
	return at
}
