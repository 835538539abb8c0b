package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plan is everything that makes a run what it is.
type Plan struct {
	Seed     uint64
	Settings map[string]string  // by name; see defaults
	Weather  map[string]float64 // how likely each kind of fault hits a call; until the faults end
	Events   []Event            // in order of time
}

// Event is one thing that is done to the world, at a time since the start.
type Event struct {
	At   time.Duration
	Verb string // one of verbs
	Args []string
}

// String is the event as [Parse] reads it.
func (e Event) String() string {
	return strings.Join(append([]string{e.At.String(), e.Verb}, e.Args...), " ")
}

// defaults are the settings of a plan that does not say otherwise.
var defaults = map[string]string{
	"mode":     "safety", // or liveness: the last server stays broken for ever
	"servers":  "2",
	"length":   "10m", // until the faults end
	"interval": "10s", // between the reports of an agent
	"drain":    "30s", // the timeout
	"timeout":  "2m",  // of a registration
	"boot":     "4s",  // the least that a machine takes to boot; at most twice as long
	"delete":   "3s",  // the least that a machine takes to go; at most twice as long
	"lag":      "0s",  // of the provider's listing
	"operator": "yes", // somebody drains the machines of tenant default; guest: see Guest
	"jobs":     "2",   // size of the static group
	"hosts":    "no",  // machines have node machines, so that their power can be switched: yes
	"eligible": "",    // the age at which machines are replaced, until the faults end
}

func (p Plan) setting(name string) string {
	if value, ok := p.Settings[name]; ok {
		return value
	}
	return defaults[name]
}

func (p Plan) duration(name string) time.Duration {
	d, err := time.ParseDuration(p.setting(name))
	if err != nil {
		panic(fmt.Sprintf("setting %s: %v", name, err))
	}
	return d
}

func (p Plan) number(name string) int {
	n, err := strconv.Atoi(p.setting(name))
	if err != nil {
		panic(fmt.Sprintf("setting %s: %v", name, err))
	}
	return n
}

// String is the plan as [Parse] reads it.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", p.Seed)
	for _, name := range slices.Sorted(maps.Keys(p.Settings)) {
		fmt.Fprintf(&b, "set %s %s\n", name, p.Settings[name])
	}
	for _, kind := range slices.Sorted(maps.Keys(p.Weather)) {
		fmt.Fprintf(&b, "weather %s %.4f\n", kind, p.Weather[kind])
	}
	for _, e := range p.Events {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

// Parse reads a plan. Lines are
//
//	seed N
//	set NAME VALUE
//	weather KIND PROBABILITY
//	advance DURATION          later events without a time happen so much later
//	[TIME] VERB [ARGUMENT…]   TIME since the start
//	# a comment
//
// Events without a time of their own happen one after another, a hundredth of a
// second apart.
func Parse(text string) (Plan, error) {
	p := Plan{Settings: map[string]string{}, Weather: map[string]float64{}}
	now := time.Duration(0)
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		at, err := p.parseLine(words, now)
		if err != nil {
			return p, fmt.Errorf("line %d: %w", n+1, err)
		}
		now = at
	}
	slices.SortStableFunc(p.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return p, nil
}

// apart is the time between two events that have no time of their own.
const apart = 10 * time.Millisecond

func (p *Plan) parseLine(words []string, now time.Duration) (time.Duration, error) {
	switch verb, args := words[0], words[1:]; {
	case verb == "seed" && len(args) == 1:
		seed, err := strconv.ParseUint(args[0], 10, 64)
		p.Seed = seed
		return now, err
	case verb == "set" && len(args) > 0:
		if _, known := defaults[args[0]]; !known {
			return now, fmt.Errorf("there is no setting %q", args[0])
		}
		p.Settings[args[0]] = strings.Join(args[1:], " ")
		return now, nil
	case verb == "weather" && len(args) == 2:
		chance, err := strconv.ParseFloat(args[1], 64)
		p.Weather[args[0]] = chance
		return now, err
	case verb == "advance" && len(args) == 1:
		d, err := time.ParseDuration(args[0])
		return now + d, err
	}
	if at, err := time.ParseDuration(words[0]); err == nil && len(words) > 1 {
		now, words = at, words[1:]
	}
	if _, known := verbs[words[0]]; !known {
		return now, fmt.Errorf("there is no verb %q", words[0])
	}
	p.Events = append(p.Events, Event{At: now, Verb: words[0], Args: words[1:]})
	return now + apart, nil
}
