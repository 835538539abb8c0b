package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ParseStory reads a plan that a person wrote for a world with settings and verbs of its own: lines of
// "set NAME VALUE" for settings, and of "TIME VERB [ARGUMENT…]" for events. Settings are those that
// have a default; check says why there can be no event of a verb with such arguments.
func ParseStory(text string, defaults map[string]string, check func(verb string, args []string) error) (Plan, error) {
	p := Plan{Seed: 1, Settings: map[string]string{}}
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
		if err := check(words[1], words[2:]); err != nil {
			return p, fmt.Errorf("line %d: %w", n+1, err)
		}
		p.Events = append(p.Events, Event{At: at, Verb: words[1], Args: words[2:]})
	}
	slices.SortStableFunc(p.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return p, nil
}
