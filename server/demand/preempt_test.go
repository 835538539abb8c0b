package demand_test

import (
	"fmt"
	"testing"
	"time"

	"nstance.dev/server/demand"
)

// crowded is a house in which a pool is full with machines of cluster a, of low priority, and in which
// cluster b asks for more.
func crowded(t *testing.T, prepare func(*demand.Row), more ...demand.Event) (*house, []demand.Action) {
	t.Helper()
	h := newHouse(t, demand.Settings{Policy: demand.Policy{Domains: map[string]string{"a": "us", "b": "us"}}})
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
	h := newHouse(t, demand.Settings{Policy: demand.Policy{Domains: map[string]string{"a": "us", "b": "us", "c": "us"}}})
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

// E9: of machines of equal priority the one goes whose drain will take less time, as drains of its kind have; weights of
// the configuration say what counts instead.
func TestE9_WeightsOfVictims(t *testing.T) {
	for _, tt := range []struct {
		name    string
		weights demand.Weights
		quick   demand.Bucket // what it costs to lose the machine that drains quickly
		want    string
	}{
		{"the quicker drain", demand.Weights{}, 2, "g-quick"},
		{"what it costs to lose it", demand.Weights{}, 3, "g-slow"},
		{"the drain more than the cost", demand.Weights{Gap: 1_000_000, Drain: 1_000_000}, 3, "g-quick"},
		{"nothing but the priority, so the first id", demand.Weights{Gap: 1_000_000}, 2, "g-slow"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, demand.Settings{Policy: demand.Policy{Domains: map[string]string{"a": "us", "b": "us"}, Victims: tt.weights}})
			offers := []demand.Offer{offerOf("g", "slow", 2, 8, 100_000), offerOf("g", "quick", 2, 8, 100_000)}
			var batch []demand.Row
			for i := range offers {
				o := &offers[i]
				o.Pools = []demand.PoolUse{{Pool: "vcpu", Units: 2}}
				r := row(fmt.Sprint(i), 10, 1, 2000, gi)
				r.Terms.Requirements = append(r.Terms.Requirements, where("node.kubernetes.io/instance-type", o.Class.InstanceType))
				if r.Reclamation = 2; i == 1 {
					r.Reclamation = tt.quick
				}
				batch = append(batch, r)
			}
			h.tell(demand.PoolChanged{Name: "vcpu", Limit: 4}, demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1}}, demand.OffersChanged{Offers: offers})
			h.tell(needs("a", batch...)...)
			h.settle(time.Second, 10)
			h.drainOnce("a", map[string]time.Duration{"g-slow": 8 * time.Minute, "g-quick": 5 * time.Second})
			h.tell(needs("a", batch...)...)
			h.settle(time.Second, 10)
			h.tell(needs("b", row("urgent", 1000, 1, 2000, gi))...)
			got := h.step()
			if kinds(got, demand.Preempt) != 1 || h.machines[got[0].Machine].offer != tt.want {
				t.Errorf("want a machine of %s:\n%s", tt.want, lines(got))
			}
		})
	}
}

// drainOnce has a cluster give all of its machines back, each of an offer in its time, and lets them end.
func (h *house) drainOnce(cluster string, took map[string]time.Duration) {
	h.t.Helper()
	h.tell(needs(cluster)...)
	for range 500 {
		h.step()
		h.now = h.now.Add(5 * time.Second)
		left := 0
		for _, id := range h.sorted() {
			switch m := h.machines[id]; {
			case m.state == demand.Draining && h.now.Sub(m.since) >= took[m.offer]:
				m.cluster = ""
				h.move(m, demand.Idle)
			case m.state == demand.Deleting:
				delete(h.machines, id)
				h.tell(demand.Gone{ID: id})
			default:
				left++
			}
		}
		if left == 0 {
			return
		}
	}
	h.t.Fatalf("%d machines are left", len(h.machines))
}
