package demand_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"nstance.dev/server/demand"
)

// closedFrom9To17 is a group of which nothing is given back in office hours.
func closedFrom9To17(day time.Time) demand.GroupChanged {
	return demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1, Disruption: []demand.Budget{
		{Nodes: 0, From: day.Add(9 * time.Hour), Until: day.Add(17 * time.Hour)},
	}}}
}

// A closed window keeps surplus machines to its last millisecond, without anybody asking again; what the provider takes back
// goes at once.
func TestBudget_AClosedWindow(t *testing.T) {
	h := full(t, 10)
	h.now = epoch.Add(9*time.Hour - time.Minute)
	h.tell(closedFrom9To17(epoch))
	h.step()
	h.now = epoch.Add(9 * time.Hour)
	h.tell(needs("c", row("web", 0, 5, 2000, gi))...)
	h.step()
	for h.now = h.now.Add(2 * time.Minute); h.now.Before(epoch.Add(17*time.Hour - time.Second)); h.progress(time.Minute) {
		if acted := h.step(); len(acted) > 0 {
			t.Fatalf("%s: %s", h.now.Sub(epoch), lines(acted))
		}
		if h.now.Equal(epoch.Add(12*time.Hour + 2*time.Minute)) {
			h.tell(demand.Leaving{ID: "m00001"}) // one of those that serve
		}
	}
	if h.last.Next != epoch.Add(17*time.Hour) {
		t.Errorf("it is to be asked again at %s", h.last.Next)
	}
	h.now = epoch.Add(17*time.Hour - time.Millisecond)
	if acted := h.step(); len(acted) > 0 {
		t.Fatalf("a millisecond before: %s", lines(acted))
	}
	h.now = epoch.Add(17 * time.Hour)
	if n := kinds(h.step(), demand.Reclaim); n != 1 {
		t.Errorf("at 17:00 %d machines are given back, want the one of the cap", n)
	}
}

// A machine that the provider takes back while the window is closed is replaced at once, where nothing else can serve.
func TestBudget_ASpotNoticeIsObeyed(t *testing.T) {
	h := full(t, 3)
	h.now = epoch.Add(12 * time.Hour)
	h.tell(closedFrom9To17(epoch), demand.Leaving{ID: "m00001"})
	if n := kinds(h.step(), demand.Provision); n != 1 {
		t.Errorf("%d machines are bought for the one that goes", n)
	}
}

// Never more machines of a group drain for what is not urgent than its budgets allow, whatever else happens; what is taken for a
// higher priority is not asked.
func TestBudget_NeverMoreThanItAllows(t *testing.T) {
	for seed := range seeds(t, 30) {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 9))
			h := newHouse(t, demand.Settings{})
			g := thrifty(seed%2 == 0)
			h.tell(g, withSpot()[1])
			drained, most := 0, int64(-1)
			for range 1500 {
				if rng.IntN(40) == 0 {
					most = rng.Int64N(4)
					g.Group.Disruption = []demand.Budget{
						{Nodes: most}, {Nodes: 1 + rng.Int64N(5), From: h.now.Add(time.Minute), Until: h.now.Add(3 * time.Minute)},
						{Nodes: 0, Reasons: []demand.Reason{demand.ReasonEmpty}, From: h.now, Until: h.now.Add(2 * time.Minute)},
					}
					h.tell(g)
				}
				if rng.IntN(8) == 0 {
					h.tell(needs("c", randomRows(rng, "c")...)...)
				}
				draining := int64(0)
				for _, m := range h.machines {
					if m.state == demand.Draining {
						draining++
					}
				}
				n := int64(kinds(h.step(), demand.Reclaim))
				if drained += int(n); most >= 0 && n > 0 && draining+n > most {
					t.Fatalf("%s: %d machines drain, and the budget is %d", h.now.Sub(epoch), draining+n, most)
				}
				h.progressButDrains(time.Duration(1+rng.IntN(40))*time.Second, rng)
			}
			if drained == 0 {
				t.Error("nothing was given back")
			}
		})
	}
}

// progressButDrains is progress in which a drain takes a while.
func (h *house) progressButDrains(d time.Duration, rng *rand.Rand) {
	slow := map[*made]bool{}
	for _, id := range h.sorted() {
		if m := h.machines[id]; m.state == demand.Draining && rng.IntN(4) > 0 {
			slow[m], m.state = true, demand.Failed
		}
	}
	h.progress(d)
	for m := range slow {
		m.state = demand.Draining
	}
}
