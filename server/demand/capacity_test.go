package demand_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
)

// What the machines of a group take is what its bounds compare: at the bound it is full, and the need that lacks
// something counts for each group whose machines could serve it.
func TestUsage(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	sized := offerOf("t/small", "s", 4, 16, 196_000)
	sized.Capacity = []vector.Amount{{Name: "cpu", Amount: 4000}}
	h.tell(
		demand.GroupChanged{Group: demand.Group{Name: "t/small", Max: 2}}, demand.GroupChanged{Group: demand.Group{Name: "t/other", Max: 0}},
		demand.OffersChanged{Offers: []demand.Offer{sized, offerOf("t/other", "o", 4, 16, 200_000)}},
	)
	h.tell(needs("c", row("web", 0, 3, 4000, gi))...) // three machines, of which two may be bought
	h.settle(time.Second, 10)
	got := h.engine.Usage()
	small := got["t/small"]
	resources := map[string]int64{}
	for _, a := range small.Resources {
		resources[a.Name] = a.Amount
	}
	want := demand.Usage{Machines: 2, Resources: small.Resources, Spend: 392_000, Full: true, Shortfalls: 1}
	if diff := cmp.Diff(want, small, cmp.AllowUnexported(vector.Amount{})); diff != "" || resources["cpu"] != 8000 {
		t.Errorf("%s%v", diff, resources)
	}
	if other := got["t/other"]; other.Machines != 0 || !other.Full || other.Shortfalls != 1 {
		t.Errorf("a group that may have nothing: %+v", other)
	}

	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/small", Max: 3, MinIdle: 0}})
	h.settle(time.Second, 10)
	if u := h.engine.Usage()["t/small"]; u.Machines != 3 || !u.Full || u.Shortfalls != 0 {
		t.Errorf("with room for all: %+v", u)
	}
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/small", Max: 9, MinIdle: 2}})
	h.settle(time.Second, 10)
	if u := h.engine.Usage()["t/small"]; u.Machines != 5 || u.Idle != 2 || u.Full {
		t.Errorf("with two idle ones: %+v", u)
	}
}
