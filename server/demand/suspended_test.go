package demand_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/demand"
)

// stages are houses that are about to decide one kind of action, and the kinds that are decided.
var stages = []struct {
	name  string
	until func(t *testing.T) *house
	want  map[demand.Kind]int
}{
	{"two needs take a machine each", func(t *testing.T) *house {
		h := newHouse(t, demand.Settings{Policy: demand.Policy{Domains: map[string]string{"a": "us", "b": "us", "c": "us"}}})
		h.reuse = true
		o := small("g")
		o.Limit = 4
		h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1, Reuse: true}}, demand.OffersChanged{Offers: []demand.Offer{o}})
		h.tell(needs("a", row("batch", 10, 4, 2000, gi))...)
		h.settle(time.Second, 10)
		h.tell(needs("b", row("urgent", 1000, 1, 2000, gi))...)
		h.tell(needs("c", row("middling", 900, 1, 2000, gi))...)
		return h
	}, map[demand.Kind]int{demand.Preempt: 2}},
	{"a budget bounds what is given back", func(t *testing.T) *house {
		h := full(t, 60)
		h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1, Disruption: []demand.Budget{{Nodes: 2}}}})
		h.tell(needs("c", row("web", 0, 30, 2000, gi))...)
		h.step()
		h.progress(2 * time.Minute)
		return h
	}, map[demand.Kind]int{demand.Reclaim: 2}},
	{"idle machines are deleted", func(t *testing.T) *house {
		h := full(t, 3)
		h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
		for range 150 {
			h.step()
			h.progress(time.Second)
		}
		h.progress(10 * time.Minute)
		return h
	}, map[demand.Kind]int{demand.Delete: 2}},
	{"intents are taken back", func(t *testing.T) *house {
		h := newHouse(t, demand.Settings{})
		h.boot = time.Hour
		h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{small("t/g")}})
		h.tell(needs("c", row("web", 0, 3, 2000, gi))...)
		h.step()
		h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
		h.step()
		h.progress(2 * time.Minute)
		return h
	}, map[demand.Kind]int{demand.Cancel: 2}},
	{"a machine that did not join is given up and replaced", func(t *testing.T) *house {
		h := newHouse(t, demand.Settings{})
		h.join = 24 * time.Hour
		h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{small("t/g")}})
		h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
		for range 3 {
			h.step()
			h.progress(time.Second)
		}
		h.progress(10 * time.Minute)
		return h
	}, map[demand.Kind]int{demand.Fail: 1, demand.Provision: 1}},
	{"what a pool keeps for a need is used by it", func(t *testing.T) *house {
		h, _ := crowded(t, func(*demand.Row) {})
		for range 4 {
			h.progress(time.Second)
			if n := len(h.machines); n == 2 {
				break
			}
			h.step()
		}
		return h
	}, map[demand.Kind]int{demand.Provision: 2}},
}

// E12: whatever is decided under a pause is what would be decided without one, as often as it is decided,
// and what is done when the pause ends.
func TestE12_EveryKindIsDecidedAndTakenBack(t *testing.T) {
	for _, tt := range stages {
		t.Run(tt.name, func(t *testing.T) {
			twin := decided(tt.until(t).step())
			for kind, n := range tt.want {
				if got := strings.Count(twin, kind.String()+" "); got != n {
					t.Fatalf("%d times %s, want %d:\n%s", got, kind, n, twin)
				}
			}
			h := tt.until(t)
			for i := range 3 {
				h.tell(demand.Suspended{Paused: i%2 == 0, RehearsalOnly: i%2 == 1})
				if got := decided(h.step()); got != twin {
					t.Fatalf("cycle %d of the pause decides\n%swithout one\n%s", i, got, twin)
				}
			}
			h.tell(demand.Suspended{})
			if got := decided(h.step()); got != twin {
				t.Fatalf("after the pause it decides\n%swithout one\n%s", got, twin)
			}
		})
	}
}

// decided is what was decided, whatever became of it. A machine that is bought has no name to compare,
// because one that a pause kept from being bought has used one up.
func decided(actions []demand.Action) string {
	all := make([]demand.Action, 0, len(actions))
	for _, a := range actions {
		a.Disposition = demand.Execute
		if a.Kind == demand.Provision {
			a.Machine = ""
		}
		all = append(all, a)
	}
	return lines(all)
}

// twins are two houses with one history, of which the second is paused now and then.
type twins struct {
	free, paused *house
	names        map[string]string // of machines of the paused one: what they are called in the other
}

func (w *twins) tell(events ...demand.Event) {
	w.free.tell(events...)
	w.paused.tell(events...)
}

// compare renames the machines of the paused house in what it decided.
func (w *twins) compare(actions, executed []demand.Action) string {
	var b strings.Builder
	next := 0
	for _, a := range actions {
		a.Disposition = demand.Execute
		if a.Kind == demand.Provision {
			for next < len(executed) && executed[next].Kind != demand.Provision {
				next++
			}
			if next < len(executed) {
				w.names[a.Machine] = executed[next].Machine
				next++
			}
		}
		if name, ok := w.names[a.Machine]; ok {
			a.Machine = name
		}
		fmt.Fprintln(&b, a)
	}
	return b.String()
}

// E12: over random worlds, a cycle that is paused decides what the twin that is not paused decides, and
// leaves everything as it was: when the pause ends, the same is decided once more, and done. A paused cycle
// has no cap, so where that bounds reclaims they are not compared.
func TestE12_TwinsDecideTheSame(t *testing.T) {
	seen := map[demand.Kind]int{}
	for seed := range uint64(seeds(t, 12)) {
		rng := rand.New(rand.NewPCG(seed, 12))
		settings := demand.Settings{Policy: demand.Policy{Domains: map[string]string{"c0": "d", "c1": "d", "c2": "d"}}}
		w := twins{newHouse(t, settings), newHouse(t, settings), map[string]string{}}
		for _, h := range []*house{w.free, w.paused} {
			h.boot, h.join, h.reuse = 40*time.Second, 10*time.Second, true
		}
		offers := withSpot()[1].(demand.OffersChanged).Offers
		for i := range offers {
			offers[i].Pools = []demand.PoolUse{{Pool: "p", Units: 1 + int64(i)}}
		}
		w.tell(demand.PoolChanged{Name: "p", Limit: 60}, demand.OffersChanged{Offers: offers})
		w.tell(demand.GroupChanged{Group: demand.Group{
			Name: "t/g", Max: 40, Reuse: seed%2 == 0, MinIdle: int64(seed % 3), Disruption: []demand.Budget{{Nodes: 3}}, ReleaseHold: 2 * time.Minute, ScaleDownDelay: 20 * time.Second,
		}})
		for cycle := range 150 {
			if rng.IntN(3) == 0 {
				name := fmt.Sprintf("c%d", rng.IntN(3))
				rows := randomRows(rng, name)
				for i := range rows {
					rows[i].Priority = int32(rng.IntN(3) * 1000)
				}
				w.tell(needs(name, rows...)...)
			}
			if ids := w.free.sorted(); len(ids) > 0 && rng.IntN(4) == 0 {
				i := rng.IntN(len(ids))
				for _, h := range []*house{w.free, w.paused} {
					id := h.sorted()[i]
					delete(h.machines, id)
					h.tell(demand.Gone{ID: id})
				}
			}
			want := w.free.step()
			for _, a := range want {
				seen[a.Kind]++
			}
			if rng.IntN(2) == 0 {
				w.paused.tell(demand.Suspended{Paused: true})
				within(t, seed, cycle, want, w.free.last.Capped, w.compare(w.paused.step(), want))
				w.paused.tell(demand.Suspended{})
			}
			got := w.paused.step()
			if a, b := w.compare(got, want), lines(want); a != b {
				t.Fatalf("seed %d, cycle %d: after a pause\n%swithout one\n%s", seed, cycle, a, b)
			}
			w.free.progress(10 * time.Second)
			w.paused.progress(10 * time.Second)
		}
	}
	for kind := demand.Provision; kind <= demand.Delete; kind++ {
		if seen[kind] == 0 && kind != demand.Fail {
			t.Errorf("no world has a %s", kind)
		}
	}
}

// within fails the test unless a paused cycle decided what is wanted and nothing else. Reclaims are not
// compared where some were capped: those would have counted in budgets that others share.
func within(t *testing.T, seed uint64, cycle int, want []demand.Action, capped int, got string) {
	t.Helper()
	var missing []string
	left := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	for _, a := range want {
		if i := slices.Index(left, a.String()); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			missing = append(missing, a.String())
		}
	}
	other := func(line string) bool { return line == "" || strings.HasPrefix(line, "reclaim ") && capped > 0 }
	missing, left = slices.DeleteFunc(missing, other), slices.DeleteFunc(left, other)
	if len(missing)+len(left) > 0 {
		t.Fatalf("seed %d, cycle %d: a pause lacks %q and has %q beside what is decided without one", seed, cycle, missing, left)
	}
}
