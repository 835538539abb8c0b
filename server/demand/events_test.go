package demand_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
)

// small is an offer of the smallest size, without a limit.
func small(group string) demand.Offer { return offerOf(group, "small", 2, 8, 100_000) }

// A record that cannot be is refused, and the machine that it speaks of stays what it was.
func TestRefusedRecordLeavesTheMachine(t *testing.T) {
	for _, bad := range []func(*demand.Supply){
		func(s *demand.Supply) { s.State = demand.Speculative },
		func(s *demand.Supply) { s.State = 99 },
		func(s *demand.Supply) { s.Price = -1 },
	} {
		h := full(t, 1)
		s := demand.Supply{ID: h.sorted()[0], Offer: "t/g-small", Class: class("t/g", "small", 2, 8), State: demand.Configured, Cluster: "c", Tenant: "c"}
		bad(&s)
		r := h.engine.Step(h.now, []demand.Event{demand.Observed{Machine: s}})
		if len(r.Rejected) != 1 || len(r.Actions) != 0 {
			t.Errorf("%+v: rejected %v, actions\n%s", s, r.Rejected, lines(r.Actions))
		}
	}
}

// E7: a machine that a record shows while it leaves a cluster has run it, whatever else the record says.
func TestE7_RecordOfADrainingMachine(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{small("g")}})
	h.machines["a"] = &made{id: "a", tenant: "c", state: demand.Draining}
	h.tell(demand.Observed{Machine: demand.Supply{ID: "a", Offer: "g-small", Class: small("g").Class, State: demand.Draining, Cluster: "c"}})
	h.step()
	h.progress(time.Second)
	h.tell(needs("other", row("web", 0, 1, 1000, gi))...)
	if got := h.step(); kinds(got, demand.Provision) != 1 || len(got) != 1 {
		t.Errorf("a machine that ran another tenant's cluster is there:\n%s", lines(got))
	}
}

// What a Node says of resources that no class has takes no place from those that classes have.
func TestNodesNameNoResources(t *testing.T) {
	h := full(t, 1)
	var strange []vector.Amount
	for i := range 20 {
		strange = append(strange, vector.Amount{Name: fmt.Sprintf("strange.example/%d", i), Amount: 1})
	}
	h.tell(demand.Report{ID: h.sorted()[0], Allocatable: strange})
	h.step()
	gpu := offerOf("t/g", "gpu", 16, 64, 900_000)
	gpu.Class.Allocatable = append(gpu.Class.Allocatable, vector.Amount{Name: "nvidia.com/gpu", Amount: 8})
	h.tell(demand.OffersChanged{Offers: []demand.Offer{small("t/g"), gpu}})
	train := row("train", 0, 1, 1000, gi)
	train.Aggregate = append(train.Aggregate, vector.Amount{Name: "nvidia.com/gpu", Amount: 8})
	h.tell(needs("other", train)...)
	if got := h.step(); kinds(got, demand.Provision) != 1 {
		t.Errorf("after reports of 20 resources no GPU is bought:\n%s%+v", lines(got), h.last.Shortfalls)
	}
}

// A group without a minimum keeps nothing any longer that no need draws from.
func TestMinimumThatEnds(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Tenant: "c", Min: 1, Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{small("g")}})
	h.tell(needs("c")...)
	h.settle(time.Second, 10)
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Tenant: "c", Max: -1}})
	h.step()
	h.progress(2 * time.Minute)
	if got := h.step(); kinds(got, demand.Reclaim) != 1 {
		t.Errorf("two minutes after the end of the minimum:\n%s", lines(got))
	}
}

// A machine whose cluster stands in its user data is of no use without one, so none is kept warm.
func TestNothingIsKeptWarmInAGroupOfUserData(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1, MinIdle: 1, UserData: true}}, demand.OffersChanged{Offers: []demand.Offer{small("g")}})
	if got := h.step(); len(got) != 0 {
		t.Errorf("%s", lines(got))
	}
}

// An offer that is away for a while has the machines that were bought from it when it is back.
func TestE2_OfferThatComesBack(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	o := small("g")
	o.Limit = 2
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{o}})
	h.tell(needs("c", row("web", 0, 2, 2000, gi))...)
	h.settle(time.Second, 10)
	h.tell(demand.OffersChanged{})
	h.step()
	h.tell(demand.OffersChanged{Offers: []demand.Offer{o}})
	h.tell(needs("c", row("web", 0, 4, 2000, gi))...)
	if got := h.step(); len(got) != 0 {
		t.Errorf("an offer of two machines, both in use:\n%s", lines(got))
	}
}

// A machine that exists is not forgotten when it could not be told that a cluster has it, or has it no
// longer.
func TestE2_DroppedActionOnAMachineThatIsMade(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.boot = time.Hour
	o := small("g")
	o.Limit = 1
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1, MinIdle: 1}}, demand.OffersChanged{Offers: []demand.Offer{o}})
	h.step()
	h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
	got := h.step()
	if kinds(got, demand.Bootstrap) != 1 {
		t.Fatalf("the warm machine is not taken:\n%s", lines(got))
	}
	h.machines[got[0].Machine].cluster = ""
	h.tell(demand.Dropped{ID: got[0].Machine})
	if got := h.step(); len(got) != 1 || got[0].Kind != demand.Bootstrap {
		t.Fatalf("after the bootstrap was dropped:\n%s", lines(got))
	}
	h.tell(needs("c")...)
	h.step()
	h.now = h.now.Add(2 * time.Minute)
	got = h.step()
	if kinds(got, demand.Cancel) != 1 {
		t.Fatalf("the intent came too late:\n%s", lines(got))
	}
	h.tell(demand.Dropped{ID: got[0].Machine})
	h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
	if got := h.step(); kinds(got, demand.Provision) != 0 {
		t.Errorf("the offer has one slot:\n%s", lines(got))
	}
}

// A machine that drains is credited to nobody, whoever began it.
func TestDrainingMachineIsNotCredited(t *testing.T) {
	h := full(t, 1)
	id := h.sorted()[0]
	h.machines[id].state = demand.Draining
	h.tell(demand.Changed{ID: id, State: demand.Draining})
	if got := h.step(); kinds(got, demand.Provision) != 1 {
		t.Errorf("the only machine drains:\n%s", lines(got))
	}
}

// The machines of a gang are held for a quarter of an hour after it has become incomplete, however long
// it ran before.
func TestGangThatLosesAMachineIsHeld(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	o := small("g")
	o.Limit = 3
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{o}})
	gang := row("train", 0, 3, 2000, gi)
	gang.AllOrNothing = true
	h.tell(needs("c", gang)...)
	h.settle(time.Second, 10)
	h.progress(10 * time.Hour)
	id := h.sorted()[0]
	delete(h.machines, id)
	o.Limit = 2
	h.tell(demand.Gone{ID: id}, demand.OffersChanged{Offers: []demand.Offer{o}})
	start := h.now
	for h.now.Sub(start) < time.Hour {
		got := h.step()
		if since := h.now.Sub(start); kinds(got, demand.Reclaim) > 0 {
			if since < 15*time.Minute {
				t.Errorf("given up %s after the loss:\n%s", since, lines(got))
			}
			return
		}
		h.progress(10 * time.Second)
	}
	t.Error("what is left of the gang is kept for ever")
}

// Shortfalls stand by priority, and those of one priority by how long they last.
func TestShortfallsAreListedByAge(t *testing.T) {
	h := newHouse(t, demand.Settings{MaxShortfalls: 1})
	o := small("g")
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{o}})
	h.tell(needs("c", row("old", 0, 1, 2000, gi))...)
	h.settle(time.Second, 10)
	h.progress(time.Minute)
	never := row("never", 0, 1, 64_000, gi)
	h.tell(needs("c", row("old", 0, 1, 2000, gi), never)...)
	h.step()
	h.progress(time.Minute)
	o.Limit = 0
	delete(h.machines, "m00001")
	h.tell(demand.Gone{ID: "m00001"}, demand.OffersChanged{Offers: []demand.Offer{o}})
	h.step()
	if got := h.last.Shortfalls; h.last.Short != 2 || len(got) != 1 || got[0].Need != never.Key {
		t.Errorf("%d are short, listed: %+v", h.last.Short, got)
	}
	if counted := h.engine.Census().Short; counted != 2 {
		t.Errorf("the census counts %d that are short", counted)
	}
}

// Of failed machines the five that failed last are kept for an hour, wherever they stand in a table.
func TestFailedMachinesThatAreKept(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{small("g")}})
	for i := range 10 {
		id := fmt.Sprintf("a%d", i)
		h.machines[id] = &made{id: id, state: demand.Idle}
		h.tell(demand.Observed{Machine: demand.Supply{ID: id, Offer: "g-small", Class: small("g").Class, State: demand.Idle}})
	}
	h.step()
	for i := 9; i >= 0; i-- { // the first one fails last
		id := fmt.Sprintf("a%d", i)
		h.machines[id].state = demand.Failed
		h.tell(demand.Changed{ID: id, State: demand.Failed, Failure: demand.Lost})
		h.step()
		h.now = h.now.Add(time.Second)
	}
	h.now = h.now.Add(15 * time.Minute)
	h.step()
	for i := range 10 {
		id := fmt.Sprintf("a%d", i)
		if kept := h.machines[id].state == demand.Failed; kept != (i < 5) {
			t.Errorf("%s is kept: %t", id, kept)
		}
	}
}

// A need that stopped buying begins again when there is something to buy.
func TestParkedNeedBeginsAgainWithNewSupply(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/r", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{small("t/r")}})
	gang := row("train", 0, 1, 1000, gi)
	gang.Terms.Requirements = append(gang.Terms.Requirements, match.Requirement{Key: "rack", Op: match.Same})
	gang.Group = "g"
	h.tell(needs("c", gang)...)
	h.tell(needs("d")...)
	for i := range 30 {
		h.tell(demand.Session{Cluster: "d", Live: i%2 == 0}) // a cycle
		h.step()
		h.progress(time.Second)
		if h.last.Shortfalls[0].Reason == demand.Parked {
			break
		}
	}
	if h.last.Shortfalls[0].Reason != demand.Parked {
		t.Fatalf("it is not parked: %+v", h.last.Shortfalls)
	}
	h.tell(demand.OffersChanged{Offers: append(racked("t/r", "r1"), small("t/r"))})
	if got := h.step(); kinds(got, demand.Provision) != 1 {
		t.Errorf("an offer in a rack has come:\n%s%+v", lines(got), h.last.Shortfalls)
	}
}

// What a cluster spends follows the prices of offers, also for machines that were bought before.
func TestSpendFollowsPrices(t *testing.T) {
	h := newHouse(t, demand.Settings{Policy: demand.Policy{HourlySpend: map[string]int64{"c": 400_000}}})
	o := small("g")
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{o}})
	h.tell(needs("c", row("web", 0, 2, 2000, gi))...)
	h.settle(time.Second, 10)
	o.PricePerHour = 200_000
	h.tell(demand.OffersChanged{Offers: []demand.Offer{o}})
	for _, id := range h.sorted() {
		delete(h.machines, id)
		h.tell(demand.Gone{ID: id})
	}
	h.tell(needs("c", row("web", 0, 4, 2000, gi))...)
	if got := h.step(); kinds(got, demand.Provision) != 2 {
		t.Errorf("two machines of 0.20 are 0.40:\n%s", lines(got))
	}
}

// A policy that changes while machines are bought holds from the next cycle on: what may be spent, and who may take
// machines of whom.
func TestPolicyThatChanges(t *testing.T) {
	h := newHouse(t, demand.Settings{Policy: demand.Policy{HourlySpend: map[string]int64{"low": 150_000}}})
	o := small("g")
	o.Limit = 3
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{o}})
	h.tell(needs("low", row("batch", 0, 3, 2000, gi))...)
	h.settle(time.Second, 10)
	if n := h.bound("low"); n != 1 {
		t.Fatalf("%d machines for 0.15 an hour", n)
	}
	h.tell(demand.PolicyChanged{Policy: demand.Policy{Domains: map[string]string{"low": "us", "high": "us"}}})
	h.settle(time.Second, 10)
	if n := h.bound("low"); n != 3 {
		t.Fatalf("%d machines without a limit", n)
	}
	o.Pools = []demand.PoolUse{{Pool: "all", Units: 1}}
	o.Limit = -1
	h.tell(demand.PoolChanged{Name: "all", Limit: 3}, demand.OffersChanged{Offers: []demand.Offer{o}})
	h.tell(needs("high", row("urgent", 10, 1, 2000, gi))...)
	if got := h.step(); kinds(got, demand.Preempt) != 1 {
		t.Errorf("priorities are comparable now:\n%s", lines(got))
	}
	r := h.engine.Step(h.now, []demand.Event{demand.PolicyChanged{Policy: demand.Policy{Victims: demand.Weights{Gap: -1}}}})
	if len(r.Rejected) != 1 {
		t.Errorf("a negative weight: %v", r.Rejected)
	}
}

// A need that is short in the first cycle of a process is so since then.
func TestShortfallOfTheFirstCycle(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
	h.step()
	if got := h.last.Shortfalls; len(got) != 1 || !got[0].Since.Equal(epoch) {
		t.Errorf("%+v", got)
	}
}

// A rack in which one machine has cores left and another memory serves nothing that needs both, and is
// not chosen although it is the smaller one.
func TestFragmentsMakeNoRack(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1}})
	for i, rack := range []string{"r1", "r1", "r1", "r2", "r2", "r2", "r2"} {
		id := fmt.Sprint("x", i)
		c := class("g", "large", 16, 64)
		c.Labels["half"] = rack
		h.machines[id] = &made{id: id, cluster: "c", state: demand.Configured}
		h.tell(demand.Observed{Machine: demand.Supply{ID: id, Class: c, Domains: map[string]string{"rack": rack}, State: demand.Configured, Cluster: "c"}})
	}
	web := row("web", 0, 3, 1000, 60*gi)
	web.Terms.Requirements = []match.Requirement{where("half", "r1")}
	h.tell(needs("c", web, together(row("gang", -1, 3, 7000, gi)))...)
	h.step()
	if len(h.last.Shortfalls) != 0 {
		t.Errorf("the machines of the second rack are free: %+v", h.last.Shortfalls)
	}
}

// A row that keeps its key and asks for something else is another need: nothing that was remembered of the one before,
// such as that no rack has any room for it, holds it back.
func TestRowThatAsksForSomethingElse(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(market()...)
	h.tell(needs("c", together(row("a", 0, 4, 1000, gi)))...)
	if got := h.step(); len(got) != 0 {
		t.Fatalf("no offer names a rack, and it asks for:\n%s", lines(got))
	}
	h.tell(needs("c", row("a", 0, 4, 1000, gi))...)
	if got := h.step(); len(got) == 0 {
		t.Fatalf("nothing is bought, because of %+v", h.last.Shortfalls)
	}
}

// A machine whose record is read again keeps its place in the keep order, and since when nothing draws from it.
func TestE1_ARecordThatIsReadAgainChangesNothing(t *testing.T) {
	h := full(t, 2)
	first := h.sorted()[0]
	h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
	h.settle(time.Second, 10)
	surplus := func() (ids []string) {
		for _, m := range h.engine.Machines("c") {
			if !m.Surplus.IsZero() {
				ids = append(ids, m.ID+" "+m.Surplus.String())
			}
		}
		return ids
	}
	before := surplus()
	if len(before) != 1 {
		t.Fatalf("surplus %v", before)
	}
	h.now = h.now.Add(10 * time.Second)
	for _, id := range h.sorted() {
		h.tell(demand.Observed{Machine: demand.Supply{
			ID: id, Offer: "t/g-small", Class: offerOf("t/g", "small", 2, 8, 100_000).Class, State: demand.Configured, Cluster: "c", Tenant: "c",
			Since: epoch, Price: 100_000, Stamp: demand.Stamp{Need: key("web")},
		}})
	}
	h.step()
	if after := surplus(); !slices.Equal(after, before) {
		t.Errorf("surplus %v, and before the record of %s was read again %v", after, first, before)
	}
}

// What a result tells those who measure: the phases of the cycle in their order, each need's first machine once, and that
// a keep order was changed.
func TestWhatIsMeasured(t *testing.T) {
	var phases []string
	h := newHouse(t, demand.Settings{Phase: func(name string) { phases = append(phases, name) }})
	h.boot, h.join = time.Minute, 30*time.Second
	dear := offerOf("t/g", "dear", 2, 8, 300_000)
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{dear}})
	h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
	var served []demand.Service
	reordered := 0
	run := func(cycles int) {
		for range cycles {
			h.step()
			served = append(served, h.last.Served...)
			reordered += h.last.Reordered
			h.progress(10 * time.Second)
		}
	}
	run(1)
	if want := []string{"credit", "acquire", "preempt", "reclaim", "release", "consolidate", "tally"}; !slices.Equal(phases, want) {
		t.Errorf("phases %v, want %v", phases, want)
	}
	run(20)
	if len(served) != 1 || served[0].Cluster != "c" || served[0].Took < 90*time.Second || served[0].Took > 110*time.Second {
		t.Errorf("served %+v", served)
	}
	h.tell(demand.OffersChanged{Offers: []demand.Offer{dear, small("t/g")}})
	h.tell(needs("c", row("web", 0, 2, 2000, gi))...)
	run(20)
	h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
	run(1)
	if len(served) != 1 || reordered != 1 {
		t.Errorf("served %+v, and the order was changed %d times, want once: the cheaper of two is kept", served, reordered)
	}
}
