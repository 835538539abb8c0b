package hostsim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"nstance.dev/e2e/sim"
)

// Generate makes the plan of a seed.
func Generate(seed uint64, mode string) sim.Plan {
	r := dice{rand.New(rand.NewPCG(seed, 81))}
	p := sim.Plan{Seed: seed, Settings: map[string]string{"mode": mode, "processes": fmt.Sprint(1 + r.IntN(2))}, Weather: map[string]float64{}}
	for _, kind := range []string{"before", "after", "lost", "refused", "stall"} {
		p.Weather[kind] = 0.04 * r.Float64()
	}
	for _, c := range []string{"gpu", "web"} {
		p.Events = append(p.Events, sim.Event{Verb: "make", Args: []string{c, r.role()}})
	}
	for i := range 3 {
		p.Events = append(p.Events, sim.Event{Verb: "machine", Args: []string{fmt.Sprintf("m%d", i), r.one("a", "b")}})
	}
	for range 20 + r.IntN(50) {
		words := r.event()
		p.Events = append(p.Events, sim.Event{At: time.Duration(r.Int64N(int64(150 * time.Second))), Verb: words[0], Args: words[1:]})
	}
	slices.SortStableFunc(p.Events, func(a, b sim.Event) int { return cmp.Compare(a.At, b.At) })
	return p
}

// dice draw what happens in a plan.
type dice struct{ *rand.Rand }

func (r dice) one(words ...string) string { return words[r.IntN(len(words))] }

func (r dice) configuration() string { return r.one("gpu", "gpu", "web", "gpu-v1") }

func (r dice) machine() string { return fmt.Sprintf("m%d", r.IntN(4)) }

func (r dice) role() string { return r.one("a", "b", "a,b", "all", "none") }

// event is the verb and the arguments of something that a user does.
func (r dice) event() []string {
	switch r.IntN(18) {
	case 0, 1, 2, 3, 4:
		return []string{"edit", r.configuration(), fmt.Sprint(r.IntN(6))}
	case 5:
		return []string{"priority", r.configuration(), fmt.Sprint(r.IntN(4))}
	case 6:
		return []string{"selector", r.configuration(), r.role()}
	case 7:
		return []string{"limit", r.configuration(), fmt.Sprint(r.IntN(4))}
	case 8:
		return []string{"pause", r.configuration(), r.one("on", "off")}
	case 9:
		return []string{r.one("drop", "make", "make"), r.configuration(), r.role()}
	case 10:
		return []string{r.one("drop-version", "drop-version", "drop-versions"), r.configuration(), fmt.Sprint(1 + r.IntN(8))}
	case 11:
		return []string{"foreign", r.configuration(), fmt.Sprint(1 + r.IntN(2))}
	case 12:
		return []string{r.one("machine", "label"), r.machine(), r.one("a", "b")}
	case 13:
		return []string{"reselect", r.machine()}
	case 14:
		return []string{"refer", r.machine(), r.configuration(), r.one("newest", "1", "2", "3")}
	case 15:
		return []string{"unrefer", r.machine()}
	case 16:
		return []string{r.one("drop-machine", "drop-machine", "drop-machine", "drop-machines", "drop-machine"), r.machine()}
	default:
		return []string{"repave", r.machine()}
	}
}

// Parse reads a plan that a person wrote, as [sim.ParseStory] says.
func Parse(text string) (sim.Plan, error) {
	return sim.ParseStory(text, defaults, func(verb string, args []string) error {
		if n, known := verbs[verb]; !known || len(args) != n {
			return fmt.Errorf("there is no verb %q with %d arguments", verb, len(args))
		}
		return nil
	})
}
