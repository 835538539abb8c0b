package pavesim

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
	r := dice{Rand: rand.New(rand.NewPCG(seed, 91))}
	r.machines = 1 + r.IntN(3)
	if r.IntN(5) == 0 {
		r.machines = 6 // enough for the brake
	}
	p := sim.Plan{
		Seed: seed, Weather: map[string]float64{},
		Settings: map[string]string{"mode": mode, "processes": fmt.Sprint(1 + r.IntN(2)), "machines": fmt.Sprint(r.machines), "length": "25m"},
	}
	for _, kind := range []string{"before", "after", "lost", "refused", "stall", "dies", "dies-looking", "repeat", "lag", "late", "forged"} {
		p.Weather[kind] = mosts[kind] * r.Float64()
	}
	p.Events = append(p.Events, sim.Event{Verb: "make", Args: []string{"gpu"}})
	for range 5 + r.IntN(14) {
		words := r.event()
		p.Events = append(p.Events, sim.Event{At: time.Duration(r.Int64N(int64(22 * time.Minute))).Truncate(time.Millisecond), Verb: words[0], Args: words[1:]})
	}
	more(&p, dice{Rand: rand.New(rand.NewPCG(seed, 92)), machines: r.machines})
	slices.SortStableFunc(p.Events, func(a, b sim.Event) int { return cmp.Compare(a.At, b.At) })
	return p
}

// more has machines of half of the plans brought to new versions, and operations asked for in half of them.
func more(p *sim.Plan, r dice) {
	if r.IntN(2) == 0 {
		p.Settings["rolling"] = fmt.Sprint(1 + r.IntN(2))
		if r.IntN(4) == 0 {
			p.Settings["window"] = r.one("4m", "12m")
		}
		for range 1 + r.IntN(3) {
			p.Events = append(p.Events, r.at("edit", "gpu", fmt.Sprint(r.IntN(9))))
		}
		for range r.IntN(4) {
			switch r.IntN(4) {
			case 0:
				p.Events = append(p.Events, r.at("stuck", r.machine(), r.one("on", "off")))
			case 1:
				p.Events = append(p.Events, r.at("pause-rollout", r.one("on", "off")))
			case 2:
				p.Events = append(p.Events, r.at("pause-all", r.one("on", "off")))
			default:
				p.Events = append(p.Events, r.at("resume"))
			}
		}
	}
	if r.IntN(2) == 0 {
		p.Settings["executors"] = fmt.Sprint(1 + r.IntN(3))
		for i := range 2 + r.IntN(6) {
			name := r.one(capture, capture, "reboot")
			if r.IntN(4) == 0 {
				p.Events = append(p.Events, r.at("fan", fmt.Sprintf("all-%d", i), fmt.Sprint(r.IntN(3)), name))
			} else {
				p.Events = append(p.Events, r.at("ask", fmt.Sprintf("op-%d", i), r.machine(), name))
			}
			if r.IntN(6) == 0 {
				p.Events = append(p.Events, r.at("cancel", fmt.Sprintf("op-%d", i)))
			}
		}
	}
}

// at is an event at some time.
func (r dice) at(verb string, args ...string) sim.Event {
	return sim.Event{At: time.Duration(r.Int64N(int64(22 * time.Minute))).Truncate(time.Millisecond), Verb: verb, Args: args}
}

// mosts are how likely each kind of fault is at most.
var mosts = map[string]float64{
	"before": 0.02, "after": 0.02, "lost": 0.05, "refused": 0.05, "stall": 0.1, "dies": 0.1, "dies-looking": 0.005, "repeat": 0.2, "lag": 0.01,
	"late": 0.3, "forged": 0.3,
}

// dice draw what happens in a plan.
type dice struct {
	*rand.Rand

	machines int
}

func (r dice) one(words ...string) string { return words[r.IntN(len(words))] }

func (r dice) machine() string { return fmt.Sprintf("m%d", r.IntN(r.machines)) }

// event is the verb and the arguments of something that happens.
func (r dice) event() []string {
	switch r.IntN(20) {
	case 0, 1:
		return []string{"edit", "gpu", fmt.Sprint(r.IntN(9))}
	case 2, 3, 4, 5, 6:
		return []string{"delete-node", r.machine()}
	case 7:
		return []string{"delete-nodes", fmt.Sprint(1 + r.IntN(r.machines))}
	case 8:
		return []string{r.one("restart-kubelet", "kill-paver", "kill-agent"), r.machine()}
	case 9:
		return []string{"pause", r.machine(), r.one("on", "off")}
	case 10:
		return []string{"policy", r.machine(), r.one("Hold", "Revert", "Revert")}
	case 11:
		return []string{"retry", r.machine(), fmt.Sprint(r.IntN(100))}
	case 12:
		return []string{"pin", r.machine(), r.one("newest", "1", "2")}
	case 13:
		return []string{"api", r.one("403", "404", "500", "timeout", "away"), r.one("30s", "5m", "1h")}
	case 14:
		return []string{"away", r.machine(), r.one("30s", "5m", "15m")}
	case 15:
		return []string{r.one("orphan", "end", "reboot"), r.machine()}
	case 16:
		return r.away()
	case 17:
		return []string{"steal", r.machine(), r.machine()}
	case 18:
		return []string{r.one("drop", "remake"), r.machine()}
	default:
		return []string{r.one("lose-journal", "reboot"), r.machine()}
	}
}

// away is a process that ends, for a moment or for long.
func (r dice) away() []string {
	switch r.IntN(4) {
	case 0:
		return []string{"kill-server"}
	case 1:
		return []string{"server-away", r.one("1m", "10m")}
	case 2:
		return []string{"operator-away", r.one("1m", "10m")}
	default:
		return []string{"kill-operator", r.one("a", "b")}
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
