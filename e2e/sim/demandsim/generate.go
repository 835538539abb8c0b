package demandsim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"nstance.dev/e2e/sim"
)

// perHour is how many events of a kind an hour has where a seed has them at all.
var perHour = map[string]int{
	"set": 16, "scale": 24, "roll": 4, "drop": 5,
	"room": 6, "script": 10, "kill": 8, "notice": 6, "price": 4,
	"away": 4, "restart": 3, "forge": 3, "refuse": 3, "blob": 3, "failover": 4, "pause": 2, "budget": 3, "crash": 4, "takeover": 2, "churn": 4,
}

// Generate makes the plan of a seed: a swarm, in which each seed turns on a random half of the
// faults. Mode is safety or liveness. All luck is in the plan; its run has none.
func Generate(seed uint64, mode string) sim.Plan {
	r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // luck that has to repeat
	p := sim.Plan{Seed: seed, Settings: map[string]string{"mode": mode}}
	pick := func(name string, values ...string) { p.Settings[name] = values[r.IntN(len(values))] }
	pick("clusters", "1", "2", "3")
	pick("boot", "0s", "30s", "1m", "3m")
	pick("length", "30m", "1h")
	pick("drain", "idle", "idle", "delete")
	pick("tick", "1s", "1s", "2s")
	consolidate := seed%4 == 3
	if consolidate { // a leader begins when it has known prices for an hour, and where nothing else is to be done
		p.Settings["consolidate"], p.Settings["length"] = "on", "3h"
	}
	scarce := mode == "safety" && seed%5 == 2
	if scarce { // there is too little for all, and tenants take machines of each other
		p.Settings["domain"], p.Settings["cpus"], p.Settings["clusters"] = "shared", "48", "3"
	}
	length, err := time.ParseDuration(p.Settings["length"])
	if err != nil {
		panic(err)
	}
	clusters, err := strconv.Atoi(p.Settings["clusters"])
	if err != nil {
		panic(err)
	}
	g := generator{Rand: r, clusters: clusters, length: length}
	for c := range clusters {
		p.Events = append(p.Events, g.event(time.Duration(1+c)*time.Second, "set")...)
	}
	for _, verb := range verbNames {
		if perHour[verb] == 0 {
			continue // stories alone have it
		}
		n := perHour[verb] * int(length/time.Minute) / 60
		if verb != "set" && verb != "scale" && r.IntN(2) == 0 {
			n = 0
		}
		if consolidate {
			n = quieter(verb, n, seed)
		}
		for range n {
			p.Events = append(p.Events, g.event(g.moment(), verb)...)
		}
	}
	if consolidate {
		for range 12 {
			p.Events = append(p.Events, sim.Event{At: g.moment(), Verb: "outdate", Args: []string{strconv.Itoa(g.IntN(100))}})
		}
	}
	if scarce {
		for range 8 {
			at := g.moment()
			kind := []string{"urgent", "boss"}[g.IntN(2)]
			p.Events = append(p.Events, sim.Event{At: at, Verb: "set", Args: []string{clusterName(g.IntN(clusters)), kind, kind + "-9", strconv.Itoa(1 + g.IntN(6))}})
		}
	}
	slices.SortStableFunc(p.Events, func(a, b sim.Event) int { return cmp.Compare(a.At, b.At) })
	return p
}

// quieter is how many of so many events a seed has in which machines are replaced by cheaper ones.
func quieter(verb string, n int, seed uint64) int {
	if seed%8 == 3 && slices.Contains([]string{"failover", "crash", "takeover", "pause"}, verb) {
		return 0
	}
	return n / 6
}

// generator makes events.
type generator struct {
	*rand.Rand

	clusters int
	length   time.Duration
}

// moment is a random whole second of the plan.
func (g generator) moment() time.Duration {
	return time.Duration(g.Int64N(int64(g.length/time.Second))) * time.Second
}

// event makes one of a kind at a time, with those that undo it.
func (g generator) event(at time.Duration, verb string) []sim.Event {
	one := func(args ...string) []sim.Event { return []sim.Event{{At: at, Verb: verb, Args: args}} }
	c := clusterName(g.IntN(g.clusters))
	lasts := time.Duration(5+g.IntN(300)) * time.Second
	offer := offers[g.IntN(len(offers))].name()
	kind := kindNames[g.IntN(len(kindNames))]
	name := fmt.Sprintf("%s-%d", kind, g.IntN(2))
	switch verb {
	case "set":
		return one(c, kind, name, strconv.Itoa(g.replicas(kind)))
	case "scale":
		return one(c, name, strconv.Itoa(g.replicas(kind)))
	case "roll", "drop":
		return one(c, name)
	case "budget":
		return one(c, name, "99")
	case "room":
		return append(one(offer, strconv.Itoa(g.IntN(4))), sim.Event{At: at + lasts, Verb: verb, Args: []string{offer, "-1"}})
	case "script":
		return one(offer, []string{"no-capacity", "quota", "never-boots", "never-joins"}[g.IntN(4)])
	case "kill", "notice":
		return one(strconv.Itoa(g.IntN(100)))
	case "price":
		return append(one(offer, strconv.Itoa(50+g.IntN(150))), sim.Event{At: at + lasts, Verb: verb, Args: []string{offer, "100"}})
	case "forge":
		return one(c)
	case "takeover":
		return one()
	case "crash":
		return one(strconv.Itoa(g.IntN(12)))
	case "churn":
		return one(c, strconv.Itoa(1+g.IntN(20)))
	case "failover", "pause":
		return one(lasts.String())
	default: // of a cluster, for a while
		return one(c, lasts.String())
	}
}

// replicas is how many Pods a workload of a kind wants; now and then it is none, or many.
func (g generator) replicas(kind string) int {
	most := map[string]int{"giant": 1, "gang": 3, "huge": 4, "gpu": 12, "tiny": 150, "apart": 6, "batch": 8}[kind]
	if most == 0 {
		most = 16
	}
	if g.IntN(5) == 0 {
		return 0
	}
	return 1 + g.IntN(most)
}

// clusterName is that of the nth cluster.
func clusterName(n int) string { return "cluster-" + string(rune('a'+n)) }
