package hostsim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"nstance.dev/e2e/sim"
)

// Generate makes the plan of a seed.
func Generate(seed uint64, mode string) sim.Plan {
	r := rand.New(rand.NewPCG(seed, 81))
	p := sim.Plan{Seed: seed, Settings: map[string]string{"mode": mode, "processes": fmt.Sprint(1 + r.IntN(2))}, Weather: map[string]float64{}}
	for _, kind := range []string{"before", "after", "lost", "refused", "stall"} {
		p.Weather[kind] = 0.04 * r.Float64()
	}
	one := func(words ...string) string { return words[r.IntN(len(words))] }
	configuration := func() string { return one("gpu", "gpu", "web", "gpu-v1") }
	machine := func() string { return fmt.Sprintf("m%d", r.IntN(4)) }
	role := func() string { return one("a", "b", "a,b", "all", "none") }
	add := func(verb string, args ...string) {
		p.Events = append(p.Events, sim.Event{At: time.Duration(r.Int64N(int64(150 * time.Second))), Verb: verb, Args: args})
	}
	for _, c := range []string{"gpu", "web"} {
		p.Events = append(p.Events, sim.Event{Verb: "make", Args: []string{c, role()}})
	}
	for i := range 3 {
		p.Events = append(p.Events, sim.Event{Verb: "machine", Args: []string{fmt.Sprintf("m%d", i), one("a", "b")}})
	}
	for range 20 + r.IntN(50) {
		switch r.IntN(18) {
		case 0, 1, 2, 3, 4:
			add("edit", configuration(), fmt.Sprint(r.IntN(6)))
		case 5:
			add("priority", configuration(), fmt.Sprint(r.IntN(4)))
		case 6:
			add("selector", configuration(), role())
		case 7:
			add("limit", configuration(), fmt.Sprint(r.IntN(4)))
		case 8:
			add("pause", configuration(), one("on", "off"))
		case 9:
			add(one("drop", "make", "make"), configuration(), role())
		case 10:
			add(one("drop-version", "drop-version", "drop-versions"), configuration(), fmt.Sprint(1+r.IntN(8)))
		case 11:
			add("foreign", configuration(), fmt.Sprint(1+r.IntN(2)))
		case 12:
			add(one("machine", "label"), machine(), one("a", "b"))
		case 13:
			add("reselect", machine())
		case 14:
			add("refer", machine(), configuration(), one("newest", "1", "2", "3"))
		case 15:
			add("unrefer", machine())
		case 16:
			add(one("drop-machine", "drop-machine", "drop-machine", "drop-machines", "drop-machine"), machine())
		default:
			add("repave", machine())
		}
	}
	slices.SortStableFunc(p.Events, func(a, b sim.Event) int { return cmp.Compare(a.At, b.At) })
	return p
}

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
		if args, known := verbs[words[1]]; !known || len(words)-2 != args {
			return p, fmt.Errorf("line %d: there is no verb %q with %d arguments", n+1, words[1], len(words)-2)
		}
		p.Events = append(p.Events, sim.Event{At: at, Verb: words[1], Args: words[2:]})
	}
	slices.SortStableFunc(p.Events, func(a, b sim.Event) int { return cmp.Compare(a.At, b.At) })
	return p, nil
}
