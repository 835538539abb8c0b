package demand_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"nstance.dev/server/demand"
)

// optimum is the least price of machines that together serve so many Pods of a core and unit bytes, found by trying: a
// machine serves as many as fit into it.
func optimum(offers []demand.Offer, pods, unit int64) int64 {
	known := map[int64]int64{}
	var least func(int64) int64
	least = func(left int64) int64 {
		if left <= 0 {
			return 0
		}
		if n, ok := known[left]; ok {
			return n
		}
		best := int64(1) << 60
		for _, o := range offers {
			a := o.Class.Allocatable
			best = min(best, o.PricePerHour+least(left-min(a[0].Amount/1000, a[1].Amount/unit)))
		}
		known[left] = best
		return best
	}
	return least(pods)
}

// What is bought costs little more than the best that could have been bought.
func TestCostAgainstTheOptimum(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 13))
	var ratios []int64 // in thousandths
	for range 1500 {
		var offers []demand.Offer
		for i := range 2 + rng.IntN(4) {
			cpu := int64(2) << rng.IntN(5)
			memory := cpu * []int64{2, 4, 8}[rng.IntN(3)]
			price := cpu*30_000 + memory*4_000
			offers = append(offers, offerOf("g", string(rune('a'+i)), cpu, memory, price*(90+rng.Int64N(21))/100))
		}
		h := newHouse(t, demand.Settings{})
		h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1}}, demand.OffersChanged{Offers: offers})
		pods, unit := 1+rng.Int64N(40), gi*(1+rng.Int64N(4))
		h.tell(needs("c", row("web", 0, pods, 1000, unit))...)
		h.step()
		offers = slices.DeleteFunc(offers, func(o demand.Offer) bool { return o.Class.Allocatable[1].Amount < unit })
		if len(offers) == 0 {
			continue
		}
		ratios = append(ratios, h.spend*1000/optimum(offers, pods, unit))
	}
	slices.Sort(ratios)
	var sum int64
	for _, r := range ratios {
		sum += r
	}
	mean, p95, worst := sum/int64(len(ratios)), ratios[len(ratios)*95/100], ratios[len(ratios)-1]
	t.Logf("mean %d, 95 of 100 below %d, worst %d thousandths of the optimum", mean, p95, worst)
	if mean > 1005 || p95 > 1010 || worst > 1150 {
		t.Errorf("mean %d, 95 of 100 below %d, worst %d thousandths of the optimum", mean, p95, worst)
	}
}
