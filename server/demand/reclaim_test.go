package demand_test

import (
	"testing"
	"time"

	"nstance.dev/server/demand"
)

// full is a house with one cluster that has n small machines, all of them in use.
func full(t *testing.T, n int64) *house {
	t.Helper()
	h := newHouse(t, demand.Settings{})
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{offerOf("t/g", "small", 2, 8, 100_000)}})
	h.tell(needs("c", row("web", 0, n, 2000, gi))...)
	h.settle(time.Second, 10)
	if h.bound("c") != int(n) {
		t.Fatalf("%d machines for %d Pods", h.bound("c"), n)
	}
	return h
}

func kinds(actions []demand.Action, kind demand.Kind) (n int) {
	for _, a := range actions {
		if a.Kind == kind && a.Disposition == demand.Execute {
			n++
		}
	}
	return n
}

// E6: in every ten seconds at most a twentieth of the machines is given back, unless they are empty.
func TestE6_ReclaimsAreCapped(t *testing.T) {
	h := full(t, 100)
	h.tell(needs("c", row("web", 0, 50, 2000, gi))...)
	h.step()
	type moment struct {
		at time.Time
		n  int
	}
	var all []moment
	gone := 0
	for range 600 {
		h.progress(time.Second)
		n := kinds(h.step(), demand.Reclaim)
		if n > 0 && h.now.Sub(epoch) < time.Minute {
			t.Fatalf("a machine is given back after %s", h.now.Sub(epoch))
		}
		all = append(all, moment{h.now, n})
		gone += n
		sum := 0
		for _, m := range all {
			if h.now.Sub(m.at) < 10*time.Second {
				sum += m.n
			}
		}
		if sum > 5 {
			t.Fatalf("%d machines are given back within 10 s", sum)
		}
	}
	if gone != 50 || h.bound("c") != 50 {
		t.Errorf("%d machines are given back, %d left", gone, h.bound("c"))
	}
}

// TestE6_MachinesThatLeaveAreNoneOfTheShare: of 40 machines two may be given back at once, of 39 one.
func TestE6_MachinesThatLeaveAreNoneOfTheShare(t *testing.T) {
	h := full(t, 40)
	h.tell(needs("c", row("web", 0, 20, 2000, gi))...)
	h.step()
	h.progress(59 * time.Second)
	h.tell(demand.Leaving{ID: h.sorted()[0]})
	h.step()
	h.progress(5 * time.Second)
	if n := kinds(h.step(), demand.Reclaim); n != 1 {
		t.Errorf("%d machines are given back at once, want 1", n)
	}
}

func TestE6_EmptyMachinesHaveABoundOfTheirOwn(t *testing.T) {
	h := full(t, 143)
	h.tell(needs("c", row("web", 0, 1, 2000, gi), row("x", 0, 14, 2000, gi))...)
	h.step()
	h.progress(30 * time.Second)
	for _, id := range h.sorted() {
		h.tell(demand.Report{ID: id, Empty: true})
	}
	h.step()
	h.progress(31 * time.Second)
	if n := kinds(h.step(), demand.Reclaim); n != 128 {
		t.Errorf("%d of 128 empty machines are given back at once", n)
	}
}

// E4: a cluster that has not reported in this process, or is not connected, loses nothing.
func TestE4_NothingIsReclaimedBeforeTheFirstRollup(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(market()...)
	for _, id := range []string{"a", "b"} {
		h.machines[id] = &made{id: id, cluster: "c", tenant: "c", state: demand.Configured}
		h.tell(demand.Observed{Machine: demand.Supply{
			ID: id, Offer: "t/g-small", Class: class("t/g", "small", 2, 8), State: demand.Configured, Cluster: "c", Since: epoch.Add(-time.Hour), Price: 100_000,
		}})
	}
	h.tell(demand.Session{Cluster: "c", Live: true})
	for range 100 {
		if got := h.step(); len(got) > 0 {
			t.Fatalf("before the first roll-up:\n%s", lines(got))
		}
		h.progress(time.Minute)
	}
	h.tell(demand.Session{Cluster: "c", Live: false}, demand.Rollup{Cluster: "c", Rows: []demand.Row{row("web", 0, 1, 2000, gi)}})
	for range 10 {
		if got := h.step(); len(got) > 0 {
			t.Fatalf("without a session:\n%s", lines(got))
		}
		h.progress(time.Minute)
	}
	h.tell(demand.Session{Cluster: "c", Live: true})
	if got := h.step(); kinds(got, demand.Reclaim) != 1 {
		t.Errorf("with a session:\n%s", lines(got))
	}
}

// E5: a roll-up that takes everything away gives nothing back before it has come three times.
func TestE5_ForgedRollup(t *testing.T) {
	h := full(t, 40)
	at := func(d time.Duration, events ...demand.Event) []demand.Action {
		h.progress(d)
		h.tell(events...)
		return h.step()
	}
	nothing := demand.Rollup{Cluster: "c"}
	at(time.Minute, nothing)
	if !h.last.Answers[0].Quarantined {
		t.Fatal("a roll-up that takes all of 40 machines away is accepted")
	}
	if got := at(10 * time.Minute); len(got) > 0 {
		t.Fatalf("while it is held:\n%s", lines(got))
	}
	at(time.Second, needs("c", row("web", 0, 40, 2000, gi))...)
	at(time.Second, nothing)
	at(10*time.Second, demand.Rollup{Cluster: "c", Repeated: true})
	if !h.last.Answers[0].Quarantined {
		t.Fatal("the second is accepted")
	}
	at(10*time.Second, demand.Rollup{Cluster: "c", Repeated: true})
	if h.last.Answers[0].Quarantined {
		t.Fatal("the third, 20 s after the first, is held")
	}
	if got := at(39 * time.Second); len(got) > 0 {
		t.Fatalf("59 s after the first:\n%s", lines(got))
	}
	if got := at(time.Second); kinds(got, demand.Reclaim) != 2 {
		t.Errorf("a minute after the first:\n%s", lines(got))
	}
}

// E5: what was needed for a while is given back as soon as the last of the roll-ups is accepted, where the delay of
// the group is over by then: neither waits for the other.
func TestE5_TheDelayRunsWhileARollupIsHeld(t *testing.T) {
	for _, test := range []struct{ delay, gone time.Duration }{
		{10 * time.Second, 20 * time.Second}, {20 * time.Second, 20 * time.Second}, {25 * time.Second, 25 * time.Second},
	} {
		h := full(t, 143)
		h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1, ScaleDownDelay: test.delay}})
		h.tell(demand.Rollup{Cluster: "c"})
		began, gone := h.now, 0
		for since := time.Duration(0); gone == 0 && since < time.Minute; since = h.now.Sub(began) {
			if since > 0 && since%(10*time.Second) == 0 {
				h.tell(demand.Rollup{Cluster: "c", Repeated: true})
			}
			gone = kinds(h.step(), demand.Reclaim)
			h.progress(100 * time.Millisecond) // which its reports of Nodes take after a roll-up
			for _, id := range h.sorted() {
				h.tell(demand.Report{ID: id, Empty: true})
			}
			if gone += kinds(h.step(), demand.Reclaim); gone > 0 && h.now.Sub(began) > test.gone+100*time.Millisecond {
				t.Errorf("a delay of %v: given back %v after they were needed last", test.delay, h.now.Sub(began))
			}
			h.progress(900 * time.Millisecond)
		}
		if gone != 143 {
			t.Errorf("a delay of %v: %d of 143 machines are given back at once", test.delay, gone)
		}
	}
}

// E11: a machine that the operator refused is credited again, and not asked for in ten minutes.
func TestE11_RefusalIsKept(t *testing.T) {
	h := full(t, 2)
	h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
	h.step()
	h.progress(time.Minute)
	got := h.step()
	if kinds(got, demand.Reclaim) != 1 {
		t.Fatalf("one of two machines is surplus:\n%s", lines(got))
	}
	id := got[0].Machine
	h.machines[id].state = demand.Configured
	h.tell(demand.Refused{ID: id})
	for range 10 {
		if got := h.step(); len(got) > 0 {
			t.Fatalf("%s after the refusal:\n%s", h.now.Sub(epoch), lines(got))
		}
		h.progress(59 * time.Second)
	}
	h.tell(needs("c", row("web", 0, 2, 2000, gi))...)
	if got := h.step(); len(got) > 0 {
		t.Fatalf("the refused machine is not credited:\n%s", lines(got))
	}
}

// E11: a refusal is about what runs on the Node. Once nothing does any more the machine is asked for
// again; one that was empty when it was refused is kept for the whole time.
func TestE11_RefusalEndsWithTheLastPod(t *testing.T) {
	for name, test := range map[string]struct {
		before demand.Report
		again  bool
	}{
		"Pods have left":   {demand.Report{}, true},
		"it was empty":     {demand.Report{Empty: true}, false},
		"nothing was said": {demand.Report{ID: "none"}, true},
	} {
		h := full(t, 2)
		h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
		h.step()
		h.progress(time.Minute)
		got := h.step()
		if kinds(got, demand.Reclaim) != 1 {
			t.Fatalf("%s: one of two machines is surplus:\n%s", name, lines(got))
		}
		id := got[0].Machine
		h.machines[id].state = demand.Configured
		if test.before.ID == "" {
			test.before.ID = id
			h.tell(test.before)
		}
		h.tell(demand.Refused{ID: id})
		h.progress(time.Minute)
		if got := h.step(); len(got) > 0 {
			t.Fatalf("%s: after the refusal:\n%s", name, lines(got))
		}
		h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
		h.step()
		h.progress(time.Second)
		h.tell(demand.Report{ID: id, Empty: true})
		h.step()
		h.progress(time.Minute)
		h.tell(demand.Report{ID: id, Empty: true})
		if n := kinds(h.step(), demand.Reclaim); (n == 1) != test.again {
			t.Errorf("%s: asked for %d times", name, n)
		}
	}
}

// E11: that a record is read again in the meantime does not end the ten minutes.
func TestE11_RefusalOutlivesAnObservation(t *testing.T) {
	h := full(t, 2)
	h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
	h.step()
	h.progress(time.Minute)
	got := h.step()
	if kinds(got, demand.Reclaim) != 1 {
		t.Fatalf("one of two machines is surplus:\n%s", lines(got))
	}
	id := got[0].Machine
	h.machines[id].state = demand.Configured
	h.tell(demand.Refused{ID: id})
	small := offerOf("t/g", "small", 2, 8, 100_000)
	h.tell(demand.Observed{Machine: demand.Supply{
		ID: id, Offer: small.Name, Class: small.Class, State: demand.Configured, Cluster: "c", Since: epoch, Price: 100_000,
	}})
	for range 10 {
		for _, a := range h.step() {
			if a.Kind == demand.Reclaim && a.Machine == id {
				t.Fatalf("%s is asked for again %s after the start", id, h.now.Sub(epoch))
			}
		}
		h.progress(50 * time.Second)
	}
}

// E8: release takes machines that nobody has, after their hold.
func TestE8_Release(t *testing.T) {
	h := full(t, 2)
	h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
	var deleted time.Duration
	for range 1000 {
		if kinds(h.step(), demand.Delete) > 0 && deleted == 0 {
			deleted = h.now.Sub(epoch)
		}
		h.progress(time.Second)
	}
	if deleted < 11*time.Minute || deleted > 12*time.Minute || len(h.machines) != 1 {
		t.Errorf("deleted after %s, %d machines left", deleted, len(h.machines))
	}
}

// E7: a machine that ran one tenant's cluster serves no other, unless its group lets it.
func TestE7_TenantOfReuse(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		h := full(t, 2)
		h.reuse = reuse
		h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1, Reuse: reuse}})
		h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
		for range 70 {
			h.step()
			h.progress(time.Second)
		}
		h.tell(needs("other", row("web2", 0, 1, 2000, gi))...)
		got := h.step()
		if kinds(got, demand.Bootstrap) == 1 != reuse || kinds(got, demand.Provision) == 1 == reuse {
			t.Errorf("reuse %t:\n%s", reuse, lines(got))
		}
	}
}

// E12: what is paused, or rehearsed, is decided and not done.
func TestE12_PausedDecides(t *testing.T) {
	for _, scope := range []string{"", "c", "t/g"} {
		h := newHouse(t, demand.Settings{})
		h.tell(market()...)
		h.tell(demand.Suspended{Scope: scope, Paused: true})
		h.tell(needs("c", row("web", 0, 9, 2000, gi))...)
		first := h.step()
		h.now = h.now.Add(10 * time.Second)
		h.tell(demand.Suspended{Scope: scope, RehearsalOnly: true})
		second := h.step()
		h.now = h.now.Add(10 * time.Second)
		h.tell(demand.Suspended{Scope: scope})
		third := h.step()
		if len(first) == 0 || len(first) != len(second) || len(first) != len(third) {
			t.Fatalf("scope %q: paused\n%srehearsed\n%sdone\n%s", scope, lines(first), lines(second), lines(third))
		}
		for i := range third {
			if first[i].Offer != third[i].Offer || second[i].Offer != third[i].Offer || third[i].Disposition != demand.Execute ||
				first[i].Disposition != demand.Suppressed || second[i].Disposition != demand.DryRun {
				t.Errorf("scope %q: %s, %s, %s", scope, first[i], second[i], third[i])
			}
		}
		h.progress(time.Second)
		if got := h.step(); len(got) > 0 {
			t.Errorf("scope %q: afterwards\n%s", scope, lines(got))
		}
	}
}

// M84: a machine that is on hold is not given back, whoever else would have it so; once that is over it is.
func TestM84_AHeldMachineIsNotGivenBack(t *testing.T) {
	for name, empty := range map[string]bool{"with Pods": false, "empty": true} {
		h := full(t, 1)
		var id string
		for of := range h.machines {
			id = of
		}
		h.tell(demand.Held{ID: id, Until: h.now.Add(30 * time.Minute)}, demand.Report{ID: id, Empty: empty})
		h.tell(needs("c")...)
		for range 29 {
			if got := h.step(); len(got) > 0 {
				t.Fatalf("%s: after %s:\n%s", name, h.now.Sub(epoch), lines(got))
			}
			h.progress(time.Minute)
		}
		h.progress(2 * time.Minute)
		if got := h.step(); kinds(got, demand.Reclaim) != 1 || got[0].Machine != id {
			t.Errorf("%s: the hold is over, and the machine stays:\n%s", name, lines(got))
		}
	}
	h := full(t, 1)
	var id string
	for of := range h.machines {
		id = of
	}
	h.tell(demand.Held{ID: id, Until: h.now.Add(24 * time.Hour)})
	h.tell(needs("c")...)
	h.step()
	h.progress(2 * time.Minute)
	if got := h.step(); len(got) > 0 {
		t.Errorf("on hold:\n%s", lines(got))
	}
	h.tell(demand.Held{ID: id})
	if got := h.step(); kinds(got, demand.Reclaim) != 1 {
		t.Errorf("the hold was cleared, and the machine stays:\n%s", lines(got))
	}
}
