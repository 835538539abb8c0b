package demand_test

import (
	"testing"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
)

// bought counts the actions of a kind by offer.
func bought(actions []demand.Action) map[string]int {
	n := map[string]int{}
	for _, a := range actions {
		if a.Kind == demand.Provision {
			n[a.Offer]++
		}
	}
	return n
}

func TestCheapestUnit(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{
		offerOf("t/g", "a", 2, 8, 100_000), offerOf("t/g", "b", 16, 64, 760_000),
	}})
	h.tell(needs("c", row("web", 0, 20, 1000, 2*gi))...)
	got := bought(h.step())
	if got["t/g-b"] != 1 || got["t/g-a"] != 2 || h.spend != 960_000 {
		t.Errorf("bought %v for %d millionths of a dollar, want one b and two a", got, h.spend)
	}
}

func TestPinnedBuysNothingThatIsInterrupted(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(withSpot()...)
	r := row("db", 0, 4, 1000, gi)
	r.Interruption = demand.Pinned
	h.tell(needs("c", r)...)
	if got := bought(h.step()); got["t/g-spot"] != 0 || len(got) == 0 {
		t.Errorf("bought %v", got)
	}
	h = newHouse(t, demand.Settings{})
	h.tell(withSpot()...)
	h.tell(needs("c", row("batch", 0, 8, 1000, 4*gi))...)
	if got := bought(h.step()); got["t/g-spot"] != 1 {
		t.Errorf("bought %v", got)
	}
}

// E3: however long a machine takes to boot, nothing is bought for a need twice.
func TestE3_BootTimesBuyNothingMore(t *testing.T) {
	var first int
	for _, boot := range []time.Duration{0, 30 * time.Second, time.Minute, 5 * time.Minute} {
		h := newHouse(t, demand.Settings{})
		h.boot, h.join = boot, boot/2
		h.tell(market()...)
		h.tell(needs("c", row("web", 0, 100, 500, gi), row("batch", -1, 30, 2000, 2*gi))...)
		for range 100 {
			h.step()
			h.progress(5 * time.Second)
			h.tell(needs("c", row("web", 0, 100, 500, gi), row("batch", -1, 30, 2000, 2*gi))...)
		}
		if first == 0 {
			first = len(h.machines)
		}
		if n := h.total[demand.Provision]; n != first || n == 0 {
			t.Errorf("with a boot of %s %d machines are bought, without %d", boot, n, first)
		}
	}
}

// E3: machines in flight count. Two clusters, one pool.
func TestE2_PoolIsNotSpentTwice(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	offers := []demand.Offer{offerOf("t/g", "small", 2, 8, 100_000), offerOf("u/g", "small", 2, 8, 100_000)}
	for i := range offers {
		offers[i].Pools = []demand.PoolUse{{Pool: "vcpu", Units: 2}}
	}
	h.tell(
		demand.PoolChanged{Name: "vcpu", Limit: 10}, demand.OffersChanged{Offers: offers},
		demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.GroupChanged{Group: demand.Group{Name: "u/g", Max: -1}},
	)
	h.tell(needs("low", row("a", 0, 10, 1000, gi))...)
	h.tell(needs("high", row("b", 5, 6, 1000, gi))...)
	h.step()
	if h.bound("high") != 3 || h.bound("low") != 2 {
		t.Errorf("high has %d, low %d machines; want 3 and 2", h.bound("high"), h.bound("low"))
	}
	if len(h.last.Shortfalls) != 1 || h.last.Shortfalls[0].Reason != demand.QuotaExhausted {
		t.Errorf("shortfalls %+v", h.last.Shortfalls)
	}
}

func TestReasonsOfShortfalls(t *testing.T) {
	tests := []struct {
		name string
		tell func(*house)
		want demand.Reason
	}{
		{"nothing matches", func(h *house) {
			r := row("a", 0, 1, 1000, gi)
			r.Terms.Requirements = []match.Requirement{where("gpu", "a100")}
			h.tell(needs("c", r)...)
		}, demand.NoMatchingOffer},
		{"no machine is large enough", func(h *house) { h.tell(needs("c", row("a", 0, 1, 64_000, gi))...) }, demand.NoMatchingOffer},
		{"a resource that nothing has", func(h *house) {
			r := row("a", 0, 1, 1000, gi)
			r.Aggregate = append(r.Aggregate, r.Aggregate[0])
			r.Aggregate[3].Name = "fpga"
			h.tell(needs("c", r)...)
		}, demand.NoMatchingOffer},
		{"the group is full", func(h *house) {
			h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: 0}})
			h.tell(needs("c", row("a", 0, 1, 1000, gi))...)
		}, demand.LimitReached},
		{"a taint that nothing tolerates", func(h *house) {
			o := offerOf("t/g", "small", 2, 8, 1)
			o.Class.Taints = []match.Taint{{Key: "dedicated", Effect: match.NoSchedule}}
			h.tell(demand.OffersChanged{Offers: []demand.Offer{o}})
			h.tell(needs("c", row("a", 0, 1, 1000, gi))...)
		}, demand.NoMatchingOffer},
		{"the cloud has no room", func(h *house) {
			h.fault = func(string) (demand.Failure, bool) { return demand.NoCapacity, true }
			h.tell(needs("c", row("a", 0, 1, 1000, gi))...)
			h.step()
			h.step()
			h.step()
		}, demand.Cooldown},
		{"the tenant may spend no more", func(h *house) { h.tell(needs("poor", row("a", 0, 1, 1000, gi))...) }, demand.RailHeld},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, demand.Settings{Policy: demand.Policy{HourlySpend: map[string]int64{"poor": 1000}}})
			h.tell(market()...)
			tt.tell(h)
			h.step()
			if len(h.last.Shortfalls) != 1 || h.last.Shortfalls[0].Reason != tt.want {
				t.Errorf("shortfalls %+v, want %s", h.last.Shortfalls, tt.want)
			}
		})
	}
}
