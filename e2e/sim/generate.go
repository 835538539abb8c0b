package sim

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Generate makes the plan of a seed: a swarm, in which each seed turns on a random
// half of the faults, with likelihoods of its own, so that rare kinds are not
// always drowned by frequent ones. Mode is safety or liveness.
func Generate(seed uint64, mode string) Plan {
	d := dice{seed}
	p := Plan{Seed: seed, Settings: map[string]string{"mode": mode}, Weather: map[string]float64{}}
	pick := func(name string, values ...string) { p.Settings[name] = values[d.below(len(values), "set", name)] }
	pick("servers", "1", "2", "2", "2", "3")
	pick("drain", "0s", "20s", "1m", "5m")
	pick("lag", "0s", "0s", "15s")
	pick("operator", "yes", "yes", "no")
	pick("eligible", "", "", "", "4m")
	pick("delete", "1s", "5s", "40s")
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if d.chance(0.5, "weather", kind) {
			luck := d.unit("likely", kind)
			p.Weather[kind] = kinds[kind] * luck * luck
		}
	}
	p.Events = events(d, p)
	return p
}

// perMinute is how many events of a kind a minute has where a seed has them at all.
var perMinute = map[string]float64{
	"upsert": 1, "delete-group": 0.15, "create": 0.3, "remove": 0.3, "decrement": 0.2, "discard": 0.1, "ack": 0.2,
	"kill": 0.5, "halt": 0.3, "vanish": 0.3, "hang": 0.2, "reboot": 0.5, "restart": 0.3, "steal": 0.3,
	"crash": 0.3, "stop": 0.2, "freeze": 0.3, "skew": 0.1,
	"cut": 0.6, "full": 0.05, "storm": 0.2, "linger": 0.05, "plant": 0.03, "lose-lock": 0.05, "config": 0.2, "notice": 0.2, "pause": 0.1, "crash-leader": 0.1, "freeze-leader": 0.1,
	"crash-release": 0.2, "crash-release-leader": 0.2, "release": 0.3,
}

// events are what happens besides the weather.
func events(d dice, p Plan) []Event {
	length := p.duration("length")
	all := []Event{
		{d.between(time.Second, 2*time.Second, "first"), "upsert", []string{"web", "4"}},
		{d.between(2*time.Second, 3*time.Second, "second"), "upsert", []string{"b.api", "2"}},
	}
	for _, verb := range slices.Sorted(maps.Keys(perMinute)) {
		if verb != "upsert" && !d.chance(0.5, "verb", verb) {
			continue
		}
		n := int(perMinute[verb]*length.Minutes() + d.unit("how many", verb))
		for i := range n {
			at := d.between(5*time.Second, length, verb, i)
			all = append(all, arrange(d, p, at, verb, i)...)
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return all
}

// arrange makes the ith event of a kind, with those that undo it.
func arrange(d dice, p Plan, at time.Duration, verb string, i int) []Event {
	one := func(args ...string) []Event { return []Event{{at, verb, args}} }
	group := choose(d, []string{"web", "web", "db", "b.api"}, verb, i, "group")
	server := string(rune('a' + d.below(p.number("servers"), verb, i, "server")))
	number := strconv.Itoa(d.below(100, verb, i, "number"))
	lasts := d.between(time.Second, time.Minute, verb, i, "lasts").Round(time.Millisecond)
	again := Event{at + lasts, "start", []string{server}}
	switch verb {
	case "upsert":
		size := d.below(7, verb, i, "size")
		if d.chance(0.05, verb, i, "large") {
			size += 25
		}
		return one(group, strconv.Itoa(size))
	case "delete-group", "create":
		return one(group)
	case "crash", "crash-release", "crash-release-leader", "release":
		return crash(d, at, verb, i, server, lasts)
	case "stop":
		return append(one(server), again)
	case "freeze":
		return one(server, lasts.String())
	case "skew":
		return one(server, d.between(-30*time.Second, 30*time.Second, verb, i, "skew").Round(time.Millisecond).String())
	case "cut":
		ends := choose(d, [][]string{
			{server, theStore}, {theStore, server}, {server, theCloud}, {theCloud, server},
			{server, theAgents}, {theAgents, server}, {server, theOperators}, {theOperators, server}, {"a", "b"}, {"b", "a"},
		}, verb, i, "ends")
		return one(ends[0], ends[1], (2 * lasts).String())
	case "pause":
		return one(group, (3 * lasts).String())
	case "crash-leader", "freeze-leader":
		return one(lasts.String())
	case "full":
		return one((2 * lasts).String())
	case "storm":
		return one(choose(d, slices.Sorted(maps.Keys(kinds)), verb, i, "kind"), lasts.String())
	case "linger":
		return one(lasts.String(), "8m")
	case "plant", "lose-lock":
		return one()
	case "config":
		name := choose(d, []string{"jobs", "vars", "files", "drain", "infra", "infra"}, verb, i, "part")
		value := map[string]string{"jobs": strconv.Itoa(d.below(5, verb, i)), "drain": "15s"}[name]
		return one(name, cmp.Or(value, "edit-"+strconv.Itoa(i)))
	default:
		return one(group, number)
	}
}

// crash makes the ith crash of a kind, after which the lease is given back or not.
func crash(d dice, at time.Duration, verb string, i int, server string, lasts time.Duration) []Event {
	again := Event{at + lasts, "start", []string{server}}
	after := d.between(0, 2*time.Second, verb, i, "after").Round(time.Millisecond).String()
	switch verb {
	case "crash":
		return []Event{{at, verb, []string{server, choose(d, []string{"keep", "lose"}, verb, i, "cache")}}, again}
	case "crash-release":
		return []Event{{at, verb, []string{server, after}}, again}
	case "crash-release-leader":
		return []Event{{at, verb, []string{after, lasts.String()}}}
	default:
		return []Event{{at, verb, []string{server}}}
	}
}

func choose[T any](d dice, from []T, words ...any) T { return from[d.below(len(from), words...)] }
