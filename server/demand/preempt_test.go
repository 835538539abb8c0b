package demand_test

import (
	"testing"
	"time"

	"nstance.dev/server/demand"
)

// crowded is a house in which a pool is full with machines of cluster a, of low priority, and in which
// cluster b asks for more.
func crowded(t *testing.T, prepare func(*demand.Row), more ...demand.Event) (*house, []demand.Action) {
	t.Helper()
	h := newHouse(t, demand.Settings{Domains: map[string]string{"a": "us", "b": "us"}})
	o := offerOf("g", "small", 2, 8, 100_000)
	o.Pools = []demand.PoolUse{{Pool: "vcpu", Units: 2}}
	other := offerOf("g", "other", 2, 8, 100_000)
	other.Pools = []demand.PoolUse{{Pool: "elsewhere", Units: 2}}
	other.Class.Labels["kind"] = "other"
	h.tell(demand.PoolChanged{Name: "vcpu", Limit: 8}, demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{o, other}})
	batch := row("batch", 10, 4, 2000, gi)
	prepare(&batch)
	h.tell(needs("a", batch)...)
	h.settle(time.Second, 10)
	h.tell(more...)
	h.tell(needs("b", row("urgent", 1_000_000, 2, 2000, gi))...)
	return h, h.step()
}

func TestE9_WhoIsPreempted(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(*demand.Row)
		more    []demand.Event
		want    int
	}{
		{"as many as are needed", func(*demand.Row) {}, nil, 2},
		{"none of equal priority", func(r *demand.Row) { r.Priority = 1_000_000 }, nil, 0},
		{"none that is pinned", func(r *demand.Row) { r.Interruption = demand.Pinned }, nil, 0},
		{"none of a cluster that is not connected", func(*demand.Row) {}, []demand.Event{demand.Session{Cluster: "a"}}, 0},
		{"none that is spare and not empty: it is given back the ordinary way", func(*demand.Row) {}, []demand.Event{
			demand.Rollup{Cluster: "a", Rows: []demand.Row{row("batch", 1_000_000, 2, 2000, gi)}},
		}, 0},
		{"none whose end leaves no room", func(*demand.Row) {}, []demand.Event{demand.PoolChanged{Name: "vcpu", Limit: 1}}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, got := crowded(t, tt.prepare, tt.more...)
			if n := kinds(got, demand.Preempt); n != tt.want {
				t.Fatalf("%d machines are taken, want %d:\n%s", n, tt.want, lines(got))
			}
			for _, a := range got {
				if a.Kind == demand.Preempt && (a.Grace != 10*time.Second || a.Voluntary || a.Cluster != "a") {
					t.Errorf("%+v", a)
				}
			}
			if tt.want == 0 {
				return
			}
			h.settle(time.Second, 20)
			if h.bound("a") != 2 || h.bound("b") != 2 || h.total[demand.Preempt] != 2 {
				t.Errorf("a has %d machines, b %d, %d were taken", h.bound("a"), h.bound("b"), h.total[demand.Preempt])
			}
		})
	}
}

// E7: what may be used again is taken from one tenant for the other; it waits for no other need.
func TestE2_EarmarkedMachineGoesToItsNeed(t *testing.T) {
	h := newHouse(t, demand.Settings{Domains: map[string]string{"a": "us", "b": "us", "c": "us"}})
	h.reuse = true
	o := offerOf("g", "small", 2, 8, 100_000)
	o.Limit = 2
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1, Reuse: true}}, demand.OffersChanged{Offers: []demand.Offer{o}})
	h.tell(needs("a", row("batch", 0, 2, 2000, gi))...)
	h.settle(time.Second, 10)
	h.tell(needs("b", row("urgent", 100, 1, 2000, gi))...)
	h.step()
	h.tell(needs("c", row("middling", 50, 1, 2000, gi))...)
	for range 30 {
		h.progress(time.Second)
		h.step()
	}
	if h.bound("b") != 1 || h.bound("c") != 1 || h.bound("a") != 0 || h.total[demand.Provision] != 2 {
		t.Errorf("a has %d machines, b %d, c %d", h.bound("a"), h.bound("b"), h.bound("c"))
	}
}
