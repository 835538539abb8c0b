package demand_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/demand"
)

// thrifty is an ordinary market whose group replaces machines by cheaper ones.
func thrifty(enabled bool) demand.GroupChanged {
	return demand.GroupChanged{Group: demand.Group{
		Name: "t/g", Max: -1, Consolidation: demand.Consolidation{Enabled: enabled, MinSaving: 150_000},
	}}
}

// run lets time pass in steps until a time, and returns what was done, each with its time.
func (h *house) run(d, each time.Duration) (all []string) {
	h.t.Helper()
	for end := h.now.Add(d); h.now.Before(end); {
		for _, a := range h.step() {
			all = append(all, fmt.Sprintf("%s %s", h.now.Sub(epoch), a))
		}
		h.progress(each)
	}
	return all
}

// costs is what the machines of the house cost an hour.
func (h *house) costs() (sum int64) {
	for _, m := range h.machines {
		if m.cluster != "" && m.state != demand.Failed {
			sum += m.price
		}
	}
	return sum
}

// A machine that is used for less than half is replaced by a smaller one, which is there before it is given back.
func TestE13_BuysFirst(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.boot, h.join = 20*time.Second, 40*time.Second
	h.tell(thrifty(true), market()[1])
	h.tell(needs("c", row("web", 0, 1, 9000, 30*gi))...)
	h.run(10*time.Minute, time.Second)
	h.tell(needs("c", row("web", 0, 1, 1000, gi))...)
	before := h.costs()
	var bought, joined, drained time.Time
	for range 3 * 3600 {
		for _, a := range h.step() {
			switch {
			case a.Kind == demand.Provision && a.Reason == demand.ReasonConsolidation && a.Replaces == "m00001" && bought.IsZero():
				bought = h.now
			case a.Kind == demand.Reclaim && a.Reason == demand.ReasonConsolidation && a.Machine == "m00001" && a.Voluntary && drained.IsZero():
				drained = h.now
			case a.Kind == demand.Delete && a.Machine == "m00001":
			default:
				t.Fatalf("%s: %s", h.now.Sub(epoch), a)
			}
		}
		if m := h.machines["m00002"]; m != nil && m.state == demand.Configured && joined.IsZero() {
			joined = h.now
		}
		h.progress(time.Second)
		if len(h.last.Shortfalls) > 0 {
			t.Fatalf("%s: short: %+v", h.now.Sub(epoch), h.last.Shortfalls)
		}
	}
	if bought.IsZero() || !joined.After(bought) || !drained.After(joined) {
		t.Fatalf("bought %s, joined %s, drained %s", bought, joined, drained)
	}
	if bought.Sub(epoch) < time.Hour {
		t.Errorf("it acts after %s, and knows no price for an hour", bought.Sub(epoch))
	}
	if after := h.costs(); after != 100_000 || before != 760_000 {
		t.Errorf("it cost %d, and costs %d", before, after)
	}
}

// settleDown lets everything come to its end: nothing is done for so long that every group was looked at
// twice, or nothing is due. It returns how many attempts began.
func (h *house) settleDown(each func()) (attempts int) {
	h.t.Helper()
	began, acted := h.now, h.now
	running := false
	for {
		actions := h.step()
		if len(h.last.Shortfalls) > 0 {
			h.t.Fatalf("a need is short: %+v\n%s", h.last.Shortfalls, lines(actions))
		}
		for _, a := range actions {
			if a.Kind != demand.Delete {
				acted = h.now
			}
		}
		view := h.engine.Consolidations()
		now := len(view) > 0 && view[0].Phase != ""
		if now && !running {
			attempts++
		}
		if running = now; running {
			acted = h.now
		}
		if each != nil {
			each()
		}
		switch next := h.last.Next; {
		case len(actions) > 0 || len(h.batch) > 0:
			h.progress(time.Second)
		case h.now.Sub(acted) > 25*time.Minute || next.IsZero():
			return attempts
		default:
			h.progress(next.Sub(h.now))
		}
		if h.now.Sub(began) > 48*time.Hour {
			h.t.Fatalf("after %d attempts it still acts:\n%s", attempts, lines(actions))
		}
	}
}

// E13: at constant demand and prices it ends, every attempt lowers the
// cost by the share that is asked for, no need lacks anything meanwhile, what replaces is there before anything
// is given back, and nothing that was given back is bought again.
func TestE13_ConsolidationEnds(t *testing.T) {
	var attempts, saved int
	for seed := range seeds(t, 12) {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 2))
			h := newHouse(t, demand.Settings{Workers: 1 + seed%3})
			h.tell(thrifty(true), withSpot()[1])
			h.progress(time.Hour) // the prices are known
			free := seed%2 == 0   // to be disturbed: then what counts is the price alone
			for range 1000 {
				for c := range 1 + rng.IntN(3) {
					rows := randomRows(rng, fmt.Sprintf("c%d", c))
					for i := range rows {
						if free && rows[i].Interruption != demand.Pinned {
							rows[i].Interruption = 1
						}
					}
					h.tell(needs(fmt.Sprintf("c%d", c), rows...)...)
				}
				w := &watch{house: h, priced: free, returned: map[string]time.Time{}, waits: map[string][]string{}}
				attempts += h.settleDown(w.look)
				if h.last.Next.IsZero() {
					t.Fatal("nothing cheaper is looked for again")
				}
				saved += w.saved
				h.now = h.now.Add(25 * time.Second)
			}
		})
	}
	t.Logf("%d attempts, %d of them saved something", attempts, saved)
	if attempts == 0 || saved == 0 {
		t.Error("nothing was tried")
	}
}

// watch looks at what is done in one epoch.
type watch struct {
	*house
	priced   bool
	returned map[string]time.Time // when a machine of an offer was last given back, by cluster and offer
	waits    map[string][]string  // what has to be configured before a machine is given back
	replaced []string
	cost     int64 // when the attempt began
	part     int64 // of that, of what is replaced
	saved    int
}

// look is called after each step.
func (w *watch) look() {
	for _, a := range w.last.Actions {
		m := w.machines[a.Machine]
		switch a.Kind {
		case demand.Provision, demand.Bootstrap:
			for _, id := range strings.Split(a.Replaces, ",") {
				w.waits[id] = append(w.waits[id], a.Machine)
			}
			if at, ok := w.returned[a.Cluster+m.offer]; ok && w.now.Sub(at) < 10*time.Minute {
				w.t.Fatalf("%s, and the like was given back %s ago", a, w.now.Sub(at))
			}
		case demand.Reclaim:
			w.returned[a.Cluster+m.offer] = w.now
			for _, id := range w.waits[a.Machine] {
				if r := w.machines[id]; a.Reason == demand.ReasonConsolidation && (r == nil || r.state != demand.Configured) {
					w.t.Fatalf("%s before %s, which replaces it, is configured", a, id)
				}
			}
		}
	}
	view := w.engine.Consolidations()[0]
	if view.Phase != "" && w.replaced == nil {
		w.replaced, w.cost, w.part = view.Replaced, w.costs(), 0
		for _, id := range view.Bought {
			w.cost -= w.machines[id].price
		}
		for _, id := range view.Replaced {
			w.part += w.machines[id].price
		}
	}
	if view.Phase == "" && w.replaced != nil {
		w.replaced = nil
		if view.Last != "the replaced machines are given back" {
			w.t.Fatalf("an attempt ended because %s", view.Last)
		}
		if now := w.costs(); w.priced && (w.cost-now)*100 < w.part*15 {
			w.t.Fatalf("a replacement of what cost %d changed the cost from %d to %d", w.part, w.cost, now)
		}
		w.saved++
	}
}
