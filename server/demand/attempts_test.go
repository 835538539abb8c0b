package demand_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"nstance.dev/server/demand"
)

// oversized is a house in which one large machine is used for one small Pod, the prices are known, and nothing was
// changed for long.
func oversized(t *testing.T, settings demand.Settings) *house {
	t.Helper()
	h := newHouse(t, settings)
	h.tell(thrifty(false), market()[1])
	h.tell(needs("c", row("web", 0, 1, 9000, 30*gi))...)
	h.run(10*time.Minute, time.Second)
	h.tell(needs("c", row("web", 0, 1, 1000, gi))...)
	if acted := h.run(2*time.Hour, time.Minute); len(acted) > 0 {
		t.Fatalf("without consolidation: %s", acted)
	}
	return h
}

// until steps until there is an attempt in a phase.
func (h *house) until(phase string) demand.ConsolidationView {
	h.t.Helper()
	for range 1000 {
		h.step()
		if view := h.engine.Consolidations(); len(view) > 0 && view[0].Phase == phase {
			return view[0]
		}
		h.progress(time.Second)
	}
	h.t.Fatalf("no attempt is %s: %+v", phase, h.engine.Consolidations())
	return demand.ConsolidationView{}
}

// A price that goes up and down by a tenth every five minutes causes nothing.
func TestE13_IgnoresAFlippingPrice(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	at := func(x, y int64) demand.Event {
		return demand.OffersChanged{Offers: []demand.Offer{offerOf("t/g", "x", 4, 16, x), offerOf("t/g", "y", 4, 16, y)}}
	}
	h.tell(thrifty(true), at(100_000, 110_000))
	h.tell(needs("c", row("web", 0, 12, 3000, gi))...)
	h.run(10*time.Minute, time.Second)
	for i := range 24 * 12 {
		prices := at(100_000, 110_000)
		if i%2 == 0 {
			prices = at(110_000, 100_000)
		}
		h.tell(prices)
		if acted := h.run(5*time.Minute, 10*time.Second); len(acted) > 0 {
			t.Fatalf("%s", acted)
		}
	}
	// What stays cheap for an hour is another matter.
	h.tell(at(150_000, 100_000))
	if acted := h.run(2*time.Hour, 10*time.Second); len(acted) == 0 {
		t.Error("a price that fell for good changes nothing")
	}
}

// A create that fails ends the attempt, and the machine is left alone for an hour.
func TestE13_EndsWithAFailedCreate(t *testing.T) {
	h := oversized(t, demand.Settings{})
	h.tell(thrifty(true))
	h.fault = func(string) (demand.Failure, bool) { return demand.NoCapacity, true }
	h.until("buying")
	began := h.now
	h.step()
	view := h.engine.Consolidations()[0]
	if view.Phase != "" || view.Last != "a bought machine failed or left" || view.Next.Sub(h.now) != 10*time.Minute {
		t.Fatalf("%+v", view)
	}
	h.fault = nil
	h.run(time.Hour-time.Minute, time.Second)
	if view := h.engine.Consolidations()[0]; view.Phase != "" || h.machines["m00001"].state != demand.Configured {
		t.Fatalf("after %s: %+v", h.now.Sub(began), view)
	}
	h.until("giving")
	if since := h.now.Sub(began); since < time.Hour || since > 80*time.Minute {
		t.Errorf("it is tried again after %s", since)
	}
}

// A drain that is refused ends the attempt: what was bought is given back, and the machine serves as before.
func TestE13_EndsWithARefusal(t *testing.T) {
	h := oversized(t, demand.Settings{})
	h.tell(thrifty(true))
	view := h.until("giving")
	for h.machines["m00001"].state != demand.Draining {
		h.step()
		if h.machines["m00001"].state == demand.Configured {
			h.now = h.now.Add(time.Second)
		}
	}
	h.machines["m00001"].state = demand.Configured
	h.tell(demand.Refused{ID: "m00001"})
	h.step()
	if v := h.engine.Consolidations()[0]; v.Last != "the drain of a replaced machine was refused" {
		t.Fatalf("%+v", v)
	}
	acted := h.run(50*time.Minute, time.Second)
	if len(acted) == 0 || h.machines["m00001"].state != demand.Configured || h.bound("c") != 1 {
		t.Errorf("%s\n%d machines, the refused one %s", acted, h.bound("c"), h.machines["m00001"].state)
	}
	if m := h.machines[view.Bought[0]]; m != nil && m.cluster != "" {
		t.Errorf("what was bought still serves: %+v", m)
	}
	for _, v := range h.engine.Machines("c") {
		if v.ID == "m00001" && v.Needs == 0 {
			t.Error("nothing draws from the machine that was not given back")
		}
	}
}

// A process that begins in the middle of an attempt finishes it: it buys nothing again, and gives nothing back before the
// replacement is there.
func TestE13_SurvivesARestart(t *testing.T) {
	h := oversized(t, demand.Settings{})
	h.boot, h.join = time.Minute, time.Minute
	h.tell(thrifty(true))
	view := h.until("buying")
	next := newHouse(t, demand.Settings{})
	next.now, next.machines, next.boot, next.join = h.now.Add(5*time.Second), h.machines, h.boot, h.join
	next.ids = h.ids
	next.tell(thrifty(true), market()[1])
	for _, id := range next.sorted() {
		m := next.machines[id]
		s := demand.Supply{ID: id, Offer: m.offer, Class: class("t/g", m.offer[4:], 16, 64), State: m.state, Cluster: m.cluster, Tenant: m.tenant, Price: m.price, Since: m.since}
		switch m.offer {
		case "t/g-small":
			s.Class = class("t/g", "small", 2, 8)
		case "t/g-medium":
			s.Class = class("t/g", "medium", 4, 16)
		}
		if slices.Contains(view.Bought, id) {
			s.Replaces = view.Replaced[0]
		}
		next.tell(demand.Observed{Machine: s})
	}
	next.tell(needs("c", row("web", 0, 1, 1000, gi))...)
	drained := false
	for range 1200 {
		for _, a := range next.step() {
			switch a.Kind {
			case demand.Reclaim:
				if a.Machine != "m00001" || a.Reason != demand.ReasonConsolidation || next.machines[view.Bought[0]].state != demand.Configured {
					t.Fatalf("%s: %s", next.now.Sub(h.now), a)
				}
				drained = true
			case demand.Delete:
			default:
				t.Fatalf("%s: %s", next.now.Sub(h.now), a)
			}
		}
		next.progress(time.Second)
	}
	if !drained || next.bound("c") != 1 {
		t.Errorf("given back: %v, %d machines", drained, next.bound("c"))
	}
}

// E12: what a paused shard decides is counted, and changes nothing.
func TestE12_ConsolidationIsSuspended(t *testing.T) {
	h := oversized(t, demand.Settings{})
	h.tell(thrifty(true), demand.Suspended{Paused: true})
	decided := 0
	for range 3600 {
		for _, a := range h.step() {
			if a.Disposition != demand.Suppressed || a.Reason != demand.ReasonConsolidation {
				t.Fatalf("%s", a)
			}
			decided++
		}
		h.progress(time.Second)
	}
	if decided < 3000 || h.bound("c") != 1 || h.engine.Consolidations()[0].Phase != "" {
		t.Errorf("%d decisions, %d machines, %+v", decided, h.bound("c"), h.engine.Consolidations())
	}
	h.tell(demand.Suspended{})
	h.until("giving")
}

// A closed budget keeps an attempt from beginning, and one that closes meanwhile keeps what was replaced.
func TestE13_AsksTheBudget(t *testing.T) {
	h := oversized(t, demand.Settings{})
	g := thrifty(true)
	opens := h.now.Add(3 * time.Hour)
	g.Group.Disruption = []demand.Budget{{Reasons: []demand.Reason{demand.ReasonConsolidation}, From: h.now, Until: opens}}
	h.tell(g)
	if acted := h.run(3*time.Hour-time.Second, time.Second); len(acted) > 0 {
		t.Fatalf("%s", acted)
	}
	h.until("giving")
	g.Group.Disruption[0].From, g.Group.Disruption[0].Until = h.now, h.now.Add(time.Hour)
	h.tell(g)
	if acted := h.run(time.Hour-time.Second, time.Second); len(acted) > 0 {
		t.Fatalf("%s", acted)
	}
	h.run(10*time.Minute, time.Second)
	if h.machines["m00001"] != nil && h.machines["m00001"].state == demand.Configured {
		t.Error("the budget is open, and the machine stays")
	}
}

// Whatever happens to machines while some are replaced, no need lacks anything, and it ends.
func TestE13_AmongLosses(t *testing.T) {
	for seed := range seeds(t, 6) {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 3))
			h := newHouse(t, demand.Settings{})
			h.tell(thrifty(true), withSpot()[1])
			h.progress(time.Hour)
			for range 300 {
				h.tell(needs("c", randomRows(rng, "c")...)...)
				left := 3
				h.settleDown(func() {
					ids := h.sorted()
					if left == 0 || len(ids) == 0 || rng.IntN(10) > 0 {
						return
					}
					left--
					switch m := h.machines[ids[rng.IntN(len(ids))]]; {
					case rng.IntN(3) == 0 && m.state == demand.Draining:
						m.state = demand.Configured
						h.tell(demand.Refused{ID: m.id})
					case rng.IntN(2) == 0 && m.state == demand.Creating:
						m.state, m.cluster = demand.Failed, ""
						h.tell(demand.Changed{ID: m.id, State: demand.Failed, Failure: demand.Lost})
					default:
						delete(h.machines, m.id)
						h.tell(demand.Gone{ID: m.id})
					}
				})
				h.now = h.now.Add(25 * time.Second)
			}
		})
	}
}

// A shard whose groups do not ask for it pays nothing.
func TestE13_IsFreeWhereItIsOff(t *testing.T) {
	h := oversized(t, demand.Settings{})
	h.run(time.Hour, time.Minute)
	if n := testing.AllocsPerRun(100, func() {
		h.now = h.now.Add(time.Second)
		h.engine.Step(h.now, nil)
	}); n != 0 {
		t.Errorf("%v allocations in a quiet cycle", n)
	}
	if len(h.engine.Consolidations()) != 0 {
		t.Error("the group is looked at")
	}
}

// Demand that grows while the replacement is made ends the attempt: the machine is needed, and what was bought goes
// if it is not.
func TestE13_EndsWithMoreDemand(t *testing.T) {
	h := oversized(t, demand.Settings{})
	h.boot, h.join = time.Minute, time.Minute
	h.tell(thrifty(true))
	h.until("buying")
	h.tell(needs("c", row("web", 0, 1, 9000, 30*gi))...)
	for range 600 {
		h.step()
		if len(h.last.Shortfalls) > 0 {
			t.Fatalf("%+v", h.last.Shortfalls)
		}
		h.progress(time.Second)
	}
	if v := h.engine.Consolidations()[0]; v.Last != "a need would lack more by it" {
		t.Errorf("%+v", v)
	}
	if m := h.machines["m00001"]; m.state != demand.Configured || h.bound("c") != 1 {
		t.Errorf("the machine is %s, of %d", m.state, h.bound("c"))
	}
}
