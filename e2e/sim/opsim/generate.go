package opsim

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"nstance.dev/e2e/sim"
)

// length is how long the faults of a generated plan last.
const length = 10 * time.Minute

// perMinute is how many events of a kind a minute has where a seed has them at all.
var perMinute = map[string]float64{
	"scale": 0.8, "shrink": 0.4, "remove": 0.2, "delete": 0.05, "restart": 0.1, "away": 0.1, "budget": 0.1, "stubborn": 0.1,
}

// Generate makes the plan of a seed: what package sim makes of it, without its callers of
// tenant default and with an operator instead, whose side has a swarm of faults of its own.
func Generate(seed uint64, mode string) sim.Plan {
	p := sim.Generate(seed, mode)
	p.Settings["operator"] = "guest"
	p.Settings["length"] = length.String()
	p.Events = slices.DeleteFunc(p.Events, callsForUs)
	luck := rand.New(rand.NewPCG(seed, 1))
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if on, much := luck.IntN(2) == 0, luck.Float64(); on {
			p.Weather[kind] = kinds[kind] * much * much
		}
	}
	p.Events = append(p.Events,
		sim.Event{At: 2 * time.Second, Verb: "guest", Args: []string{"scale", "web", "3"}},
		sim.Event{At: 20 * time.Second, Verb: "guest", Args: []string{"scale", "db", "1"}})
	for _, verb := range slices.Sorted(maps.Keys(perMinute)) {
		if verb != "scale" && luck.IntN(2) == 0 {
			continue
		}
		for range int(perMinute[verb]*length.Minutes() + luck.Float64()) {
			at := 30*time.Second + time.Duration(luck.Int64N(int64(length-30*time.Second)))
			p.Events = append(p.Events, sim.Event{At: at, Verb: "guest", Args: arrange(luck, verb)})
		}
	}
	if luck.IntN(2) == 0 {
		p.Events = append(p.Events, demands(luck)...)
	}
	slices.SortStableFunc(p.Events, func(a, b sim.Event) int { return cmp.Compare(a.At, b.At) })
	return p
}

// demands are Pods that ask for machines of their own, and their ends. They are few, so
// their names come back.
func demands(luck *rand.Rand) []sim.Event {
	var all []sim.Event
	for range 12 {
		at := 30*time.Second + time.Duration(luck.Int64N(int64(length-30*time.Second)))
		pod := strconv.Itoa(luck.IntN(3))
		args := [][]string{{"ask", pod, []string{"web", "db", "jobs"}[luck.IntN(3)]}, {"done", pod}, {"drop", pod}}[[]int{0, 0, 1, 2}[luck.IntN(4)]]
		all = append(all, sim.Event{At: at, Verb: "guest", Args: args})
	}
	return all
}

// callsForUs reports whether an event is a call of an operator of tenant default, or one
// that moves the clock by which a server counts the time of a drain.
func callsForUs(e sim.Event) bool {
	switch e.Verb {
	case "upsert", "delete-group", "create", "remove", "decrement", "discard", "ack":
		return !strings.HasPrefix(e.Args[0], "b.")
	}
	return e.Verb == "skew"
}

func arrange(luck *rand.Rand, verb string) []string {
	pool := []string{"web", "web", "db"}[luck.IntN(3)]
	lasts := time.Duration(luck.Int64N(int64(2 * time.Minute))).Round(time.Millisecond).String()
	switch verb {
	case "scale":
		return []string{verb, pool, strconv.Itoa(luck.IntN(6))}
	case "shrink", "remove":
		return []string{verb, pool, strconv.Itoa(luck.IntN(100))}
	case "delete":
		return []string{verb, pool}
	case "away":
		return []string{verb, (3 * time.Minute).String()}
	default:
		return []string{verb, lasts}
	}
}
