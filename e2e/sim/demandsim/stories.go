package demandsim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"nstance.dev/e2e/sim"
)

// Parse reads a plan that a person wrote: lines of "set NAME VALUE" for settings, then of
// "TIME VERB ARGUMENT…" for events.
func Parse(text string) (sim.Plan, error) {
	p := sim.Plan{Seed: 1, Settings: map[string]string{}}
	for n, line := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) == 3 && words[0] == "set" {
			if _, known := defaults[words[1]]; !known {
				return p, fmt.Errorf("line %d: there is no setting %q", n+1, words[1])
			}
			p.Settings[words[1]] = words[2]
			continue
		}
		at, err := time.ParseDuration(words[0])
		if err != nil || len(words) < 2 {
			return p, fmt.Errorf("line %d: must be a setting, or a time and a verb: %q", n+1, line)
		}
		if _, known := verbs[words[1]]; !known {
			return p, fmt.Errorf("line %d: there is no verb %q", n+1, words[1])
		}
		p.Events = append(p.Events, sim.Event{At: at, Verb: words[1], Args: words[2:]})
	}
	slices.SortStableFunc(p.Events, func(a, b sim.Event) int { return cmp.Compare(a.At, b.At) })
	return p, nil
}
