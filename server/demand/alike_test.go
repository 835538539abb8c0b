package demand_test

import (
	"maps"
	"testing"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
)

// kindOf is an offer by what Pods can have of its machines: thousandths of a core and bytes.
func kindOf(name string, cpu, memory, price int64) demand.Offer {
	o := offerOf("t/g", name, 1, 1, price)
	o.Class.Allocatable[0].Amount, o.Class.Allocatable[1].Amount = cpu, memory
	return o
}

// shop is a house in which a group sells these kinds of machines.
func shop(t *testing.T, offers ...demand.Offer) *house {
	h := newHouse(t, demand.Settings{})
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.OffersChanged{Offers: offers})
	return h
}

// with makes a need as large as a row, plus so many thousandths of a core that one of its Pods asks for besides.
func with(r demand.Row, cpu int64) demand.Row {
	r.Aggregate[0].Amount += cpu
	r.MinUnit[0].Amount += cpu
	return r
}

// Of Pods that are all alike a machine serves as many as fit into it.
func TestAlike_WholePodsToAMachine(t *testing.T) {
	tests := []struct {
		name   string
		offers []demand.Offer
		rows   []demand.Row
		want   map[string]int
	}{
		{
			"7 of 7.72", []demand.Offer{kindOf("small", 1930, 64*gi, 100_000)},
			[]demand.Row{row("web", 0, 1000, 250, gi)}, map[string]int{"t/g-small": 143},
		},
		{
			"one Pod more than fits", []demand.Offer{kindOf("small", 1930, 64*gi, 100_000)},
			[]demand.Row{row("web", 0, 8, 250, gi)}, map[string]int{"t/g-small": 2},
		},
		{
			"one Pod, which is a unit to the last byte", []demand.Offer{kindOf("small", 1930, 64*gi, 100_000)},
			[]demand.Row{row("web", 0, 1, 1930, 64*gi)}, map[string]int{"t/g-small": 1},
		},
		{
			// Either holds 7: of the one the cores bind, of the other the memory. By sums the second would hold 7.9 for less.
			"another resource binds with each type", []demand.Offer{kindOf("cores", 1930, 64*gi, 99_000), kindOf("memory", 8000, 7*gi+9*gi/10, 100_000)},
			[]demand.Row{row("web", 0, 70, 250, gi)}, map[string]int{"t/g-cores": 10},
		},
		{
			"what is left over of a machine serves Pods of another need", []demand.Offer{kindOf("small", 2000, 64*gi, 100_000)},
			[]demand.Row{row("large", 1, 2, 1500, gi), row("little", 0, 4, 250, gi)}, map[string]int{"t/g-small": 2},
		},
		{
			"nothing that is left over is a whole Pod of the other need", []demand.Offer{kindOf("small", 1999, 64*gi, 100_000)},
			[]demand.Row{row("large", 1, 2, 1500, gi), row("little", 0, 2, 500, gi)}, map[string]int{"t/g-small": 3},
		},
		{
			"Pods that differ are counted by sums", []demand.Offer{kindOf("small", 1930, 64*gi, 100_000)},
			[]demand.Row{with(row("web", 0, 1000, 250, gi), 1)}, map[string]int{"t/g-small": 130},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := shop(t, tt.offers...)
			h.tell(needs("c", tt.rows...)...)
			got := bought(h.step())
			if !maps.Equal(got, tt.want) || h.last.Short != 0 {
				t.Errorf("bought %v and %d needs are short, want %v and none", got, h.last.Short, tt.want)
			}
			h.mature()
			if again := h.step(); len(again) > 0 {
				t.Errorf("E1: it acts twice:\n%s", lines(again))
			}
		})
	}
}

// A machine of which 2.9 units are left serves 2, whoever has the rest.
func TestAlike_APartOfAMachine(t *testing.T) {
	h := shop(t, kindOf("small", 1930, 64*gi, 100_000))
	other := row("other", 5, 1, 1205, gi)
	h.tell(needs("c", other)...)
	h.settle(time.Second, 10)
	h.tell(needs("c", other, row("web", 0, 2, 250, gi))...)
	if acted := h.step(); len(acted) > 0 {
		t.Errorf("2 Pods fit into what is left, and it acts:\n%s", lines(acted))
	}
	h.tell(needs("c", other, row("web", 0, 3, 250, gi))...)
	if got := bought(h.step()); got["t/g-small"] != 1 {
		t.Errorf("the third of 3 Pods fits nowhere, and %v is bought", got)
	}
}

// Machines that are there are given back when whole Pods leave no place for them, and not before.
func TestAlike_GivesBackWholePods(t *testing.T) {
	h := shop(t, kindOf("small", 1930, 64*gi, 100_000))
	h.tell(needs("c", row("web", 0, 21, 250, gi))...)
	h.settle(time.Second, 10)
	for _, tt := range []struct{ pods, left int }{{20, 3}, {15, 3}, {14, 2}} {
		h.tell(needs("c", row("web", 0, int64(tt.pods), 250, gi))...)
		h.run(10*time.Minute, 5*time.Second)
		if n := h.bound("c"); n != tt.left {
			t.Errorf("%d Pods keep %d machines, want %d", tt.pods, n, tt.left)
		}
	}
}

// A need of which one Pod is changed is counted by sums from then on, and by Pods again when all are alike; at constant demand either is silent
// after one cycle that acts.
func TestAlike_OneOfThemChanges(t *testing.T) {
	h := shop(t, kindOf("small", 1930, 64*gi, 100_000))
	h.tell(needs("c", row("web", 0, 100, 250, gi))...)
	h.settle(time.Second, 10)
	if n := h.bound("c"); n != 15 {
		t.Fatalf("%d machines for 100 Pods, 7 of which fit into each; want 15", n)
	}
	h.tell(needs("c", with(row("web", 0, 100, 250, gi), 10))...)
	if acted := h.step(); len(acted) > 0 || h.last.Short > 0 {
		t.Errorf("nothing more is needed, and it acts:\n%s", lines(acted))
	}
	h.run(10*time.Minute, 5*time.Second)
	if n := h.bound("c"); n != 13 {
		t.Errorf("by sums 13 machines serve them, and there are %d", n)
	}
	h.tell(needs("c", row("web", 0, 100, 250, gi))...)
	if n := kinds(h.step(), demand.Bootstrap) + kinds(h.step(), demand.Provision); n != 2 {
		t.Errorf("%d machines are taken for what fits into none, want 2", n)
	}
	h.run(time.Minute, 5*time.Second)
	if acted := h.run(10*time.Minute, 5*time.Second); len(acted) > 0 {
		t.Errorf("at constant demand it acts: %v", acted)
	}
}

// E3: whole Pods are bought once, however long a machine takes to boot.
func TestE3_AlikeBuysOnce(t *testing.T) {
	for _, boot := range []time.Duration{0, 30 * time.Second, time.Minute, 5 * time.Minute} {
		h := shop(t, kindOf("small", 1930, 64*gi, 100_000))
		h.boot, h.join = boot, boot/2
		for range 200 {
			h.tell(needs("c", row("web", 0, 1000, 250, gi))...)
			h.step()
			h.progress(5 * time.Second)
		}
		if n := h.total[demand.Provision]; n != 143 {
			t.Errorf("with a boot of %s %d machines are bought, want 143", boot, n)
		}
	}
}

// Pods that are spread over racks go there whole: three over two racks are two and one.
func TestAlike_SpreadInWholePods(t *testing.T) {
	h := shop(t)
	offers := racked("t/g", "r1", "r2")
	for i := range offers {
		offers[i].Class.Allocatable[0].Amount = 2000
	}
	h.tell(demand.OffersChanged{Offers: offers})
	h.tell(needs("c", apart(row("web", 0, 3, 1500, gi)))...)
	got := bought(h.step())
	if want := map[string]int{"t/g-large-r1": 2, "t/g-large-r2": 1}; !maps.Equal(got, want) {
		t.Errorf("bought %v, want %v", got, want)
	}
	offers[1].Limit = 1 // and no more than the skew allows, in whole Pods too
	h = shop(t, offers...)
	h.tell(needs("c", apart(row("web", 0, 9, 1500, gi)))...)
	got = bought(h.step())
	if want := map[string]int{"t/g-large-r1": 2, "t/g-large-r2": 1}; !maps.Equal(got, want) {
		t.Errorf("with one in the second rack bought %v, want %v", got, want)
	}
	lacks := h.engine.Amounts(&h.last.Shortfalls[0].Deficit)
	if lacks[2] != (vector.Amount{Name: "pods", Amount: 6}) || lacks[0].Amount != 9000 {
		t.Errorf("lacking %v, want 6 Pods", lacks)
	}
}

// A division that was made for Pods that differ is made again when they are alike, though they come to the same.
func TestAlike_SpreadAgainWhenAlike(t *testing.T) {
	h := shop(t, racked("t/g", "r1", "r2")...)
	r := apart(row("web", 0, 3, 1500, gi))
	r.MinUnit[0].Amount = 1600
	h.tell(needs("c", r)...)
	h.settle(time.Second, 10)
	h.tell(needs("c", apart(row("web", 0, 3, 1500, gi)))...)
	if acted := h.step(); len(acted) > 0 || h.last.Short != 0 {
		t.Errorf("what is there serves them, and it acts; %d short\n%s", h.last.Short, lines(acted))
	}
}

// A stuck Pod that is spread gets a machine in every rack: which of them the skew leaves to it, the other Pods of its
// Deployment decide, and where those are the roll-up does not say.
func TestAlike_StuckPodsThatAreSpread(t *testing.T) {
	h := shop(t, racked("t/g", "r1", "r2", "r3")...)
	r := apart(row("web", 0, 1, 1500, gi))
	r.Stuck = 1
	h.tell(needs("c", r)...)
	got := bought(h.step())
	if want := map[string]int{"t/g-large-r1": 1, "t/g-large-r2": 1, "t/g-large-r3": 1}; !maps.Equal(got, want) {
		t.Errorf("bought %v, want %v", got, want)
	}
}

// A gang that whole machines cannot complete is not begun: 15 Pods are 7.5 to each of two machines, and 7 fit.
func TestAlike_GangsInWholePods(t *testing.T) {
	o := kindOf("small", 1930, 64*gi, 100_000)
	o.Limit = 2
	for pods, want := range map[int64]int{14: 2, 15: 0} {
		h := shop(t, o)
		r := row("gang", 0, pods, 250, gi)
		r.AllOrNothing = true
		h.tell(needs("c", r)...)
		if got := bought(h.step()); got["t/g-small"] != want {
			t.Errorf("for a gang of %d Pods %v is bought, want %d", pods, got, want)
		}
	}
}

// E9: for 15 Pods of a higher priority three machines are taken of which each holds 7.
func TestE9_AlikeTakesWholePods(t *testing.T) {
	o := kindOf("small", 1930, 64*gi, 100_000)
	o.Pools = []demand.PoolUse{{Pool: "vcpu", Units: 1}}
	h := newHouse(t, demand.Settings{Policy: demand.Policy{Domains: map[string]string{"high": "d", "low": "d"}}})
	h.tell(demand.PoolChanged{Name: "vcpu", Limit: 4}, demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{o}})
	h.tell(needs("low", row("batch", 0, 4, 1930, gi))...)
	h.settle(time.Second, 10)
	h.tell(needs("high", row("web", 10, 15, 250, gi))...)
	if n := kinds(h.step(), demand.Preempt); n != 3 {
		t.Errorf("%d machines are taken, want 3", n)
	}
}
