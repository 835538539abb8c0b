package demand_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
)

// racked is an offer in each of some racks.
func racked(group string, racks ...string) []demand.Offer {
	var offers []demand.Offer
	for _, rack := range racks {
		o := offerOf(group, "large", 16, 64, 760_000)
		o.Name += "-" + rack
		o.Class.Labels["rack"] = rack
		offers = append(offers, o)
	}
	return offers
}

func together(r demand.Row) demand.Row {
	r.Terms.Requirements = append(r.Terms.Requirements, match.Requirement{Key: "rack", Op: match.Same})
	r.Group = "group-" + r.Fingerprint
	r.Fingerprint += "+same"
	return r
}

func apart(r demand.Row) demand.Row {
	r.Spread = []demand.Spread{{TopologyKey: "rack", MaxSkew: 1}}
	r.Fingerprint += "+spread"
	return r
}

// story runs a shard of many clusters through random changes, and returns all that was decided.
func story(t *testing.T, seed uint64, workers int) string {
	rng := rand.New(rand.NewPCG(seed, 7))
	h := newHouse(t, demand.Settings{Workers: workers})
	h.boot, h.join = 20*time.Second, 10*time.Second
	events := withSpot()
	offers := slices.Concat(events[1].(demand.OffersChanged).Offers, racked("t/r", "r1", "r2", "r3"))
	h.tell(events[0], demand.GroupChanged{Group: demand.Group{Name: "t/r", Max: 40}}, demand.OffersChanged{Offers: offers})
	var trace strings.Builder
	for range 150 {
		for c := range 9 {
			if rng.IntN(4) > 0 {
				continue
			}
			name := fmt.Sprintf("c%d", c)
			rows := randomRows(rng, name)
			for i := range rows {
				switch rng.IntN(4) {
				case 0:
					rows[i] = together(rows[i])
				case 1:
					rows[i] = apart(rows[i])
				}
			}
			h.tell(needs(name, rows...)...)
		}
		if ids := h.sorted(); len(ids) > 0 && rng.IntN(3) == 0 {
			id := ids[rng.IntN(len(ids))]
			delete(h.machines, id)
			h.tell(demand.Gone{ID: id})
		}
		fmt.Fprintf(&trace, "%s\n%s", h.now.Format(time.TimeOnly), lines(h.step()))
		for _, s := range h.last.Shortfalls {
			fmt.Fprintf(&trace, "  short %s %s %v %s\n", s.Cluster, s.Fingerprint, s.Deficit, s.Reason)
		}
		h.progress(10 * time.Second)
	}
	return trace.String()
}

// E10: with any number of workers the same is decided.
func TestE10_WorkersDecideTheSame(t *testing.T) {
	for seed := range uint64(seeds(t, 3)) {
		one := story(t, seed, 1)
		if strings.Count(one, "provision") < 100 || !strings.Contains(one, "reclaim") {
			t.Fatalf("seed %d: a story in which little happens", seed)
		}
		for _, workers := range []int{1, 4, 16} {
			if got := story(t, seed, workers); got != one {
				t.Fatalf("seed %d: %d workers decide otherwise", seed, workers)
			}
		}
	}
}

// E9: a need's result does not depend on needs of lower precedence.
func TestE9_LowerNeedsChangeNothing(t *testing.T) {
	for seed := range seeds(t, 200) {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		high := row("high", 100, 1+rng.Int64N(60), 100<<rng.IntN(5), gi/4<<rng.IntN(4))
		if rng.IntN(3) == 0 {
			high = together(high)
		}
		results := map[string]bool{}
		for range 4 {
			h := newHouse(t, demand.Settings{})
			offers := racked("t/r", "r1", "r2")
			for i := range offers {
				offers[i].Limit = 2
			}
			offers = append(offers, offerOf("t/r", "small", 2, 8, 100_000))
			offers[2].Limit = 5
			h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/r", Max: -1}}, demand.OffersChanged{Offers: offers})
			rows := []demand.Row{high}
			for i := range rng.IntN(4) {
				low := row(fmt.Sprint("low", i), int32(rng.IntN(100)), 1+rng.Int64N(50), 200, gi)
				if rng.IntN(2) == 0 {
					low = together(low)
				}
				rows = append(rows, low)
			}
			rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			h.tell(needs("c", rows...)...)
			h.tell(needs("d", row("other", 50, rng.Int64N(80), 300, gi/2))...)
			var got []string
			for range 4 {
				for _, a := range h.step() {
					if a.Need == high.Key {
						got = append(got, a.Kind.String()+a.Offer)
					}
				}
				for _, s := range h.last.Shortfalls {
					if s.Need == high.Key {
						got = append(got, fmt.Sprint(s.Deficit, s.Reason))
					}
				}
				h.progress(time.Second)
			}
			results[strings.Join(got, " ")] = true
		}
		if len(results) != 1 {
			t.Fatalf("seed %d: %d different results: %v", seed, len(results), results)
		}
	}
}

// E2: slots, limits and pools are never passed, whatever fails.
func TestE2_LimitsHold(t *testing.T) {
	for seed := range seeds(t, 20) {
		rng := rand.New(rand.NewPCG(uint64(seed), 5))
		h := newHouse(t, demand.Settings{})
		h.boot = 15 * time.Second
		h.fault = func(string) (demand.Failure, bool) { return demand.Failure(rng.IntN(3)), rng.IntN(5) == 0 }
		small, large := offerOf("t/g", "small", 2, 8, 100_000), offerOf("t/g", "large", 16, 64, 760_000)
		small.Pools, large.Pools = []demand.PoolUse{{Pool: "vcpu", Units: 2}}, []demand.PoolUse{{Pool: "vcpu", Units: 16}}
		large.Limit = 3
		h.tell(demand.PoolChanged{Name: "vcpu", Limit: 100}, demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: 20}}, demand.OffersChanged{Offers: []demand.Offer{small, large}})
		for range 200 {
			name := fmt.Sprintf("c%d", rng.IntN(3))
			h.tell(needs(name, randomRows(rng, name)...)...)
			h.step()
			var units, larges int
			for _, m := range h.machines {
				if m.offer == "t/g-large" {
					larges++
					units += 16
				} else {
					units += 2
				}
			}
			if units > 100 || larges > 3 || len(h.machines) > 20 {
				t.Fatalf("seed %d: %d units, %d large machines, %d in all", seed, units, larges, len(h.machines))
			}
			h.progress(10 * time.Second)
		}
	}
}
