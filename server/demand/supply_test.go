package demand_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
)

// A new DaemonSet of one core on ten full machines buys what is missing, once; on machines that it does
// not tolerate it takes nothing.
func TestOverheadBuysWhatIsMissingOnce(t *testing.T) {
	for _, tolerated := range []bool{true, false} {
		h := newHouse(t, demand.Settings{})
		o := offerOf("t/g", "small", 4, 16, 196_000)
		o.Class.Taints = []match.Taint{{Key: "gpu", Effect: match.NoSchedule}}
		h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{o}})
		r := row("web", 0, 40, 1000, gi)
		r.Terms.Tolerations = []match.Toleration{{Exists: true}}
		h.tell(needs("c", r)...)
		h.settle(time.Second, 10)
		overhead := demand.Overhead{Resources: []vector.Amount{{Name: "cpu", Amount: 1000}}}
		if tolerated {
			overhead.Terms.Tolerations = r.Terms.Tolerations
		}
		h.tell(demand.Rollup{Cluster: "c", Rows: []demand.Row{r}, Overheads: []demand.Overhead{overhead}})
		h.settle(time.Second, 10)
		want := 10
		if tolerated {
			want = 14 // of three cores each
		}
		if h.bound("c") != want || h.total[demand.Provision] != want {
			t.Errorf("tolerated %t: %d machines, %d bought, want %d", tolerated, h.bound("c"), h.total[demand.Provision], want)
		}
	}
}

// TestE3_ADaemonSetTakesOnePodOfEachMachine: its `pods: 1` is among its resources, and no other is taken.
func TestE3_ADaemonSetTakesOnePodOfEachMachine(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	o := offerOf("t/g", "small", 4, 16, 196_000)
	o.Class.Allocatable = []vector.Amount{{Name: "cpu", Amount: 4000}, {Name: "memory", Amount: 16 * gi}, {Name: "pods", Amount: 5}}
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{o}})
	daemon := demand.Overhead{Resources: []vector.Amount{{Name: "cpu", Amount: 100}, {Name: "pods", Amount: 1}}}
	h.tell(demand.Rollup{Cluster: "c", Rows: []demand.Row{row("web", 0, 8, 100, gi)}, Overheads: []demand.Overhead{daemon}})
	h.settle(time.Second, 10)
	if h.bound("c") != 2 {
		t.Errorf("%d machines of five Pods for eight Pods and a DaemonSet, want 2", h.bound("c"))
	}
}

// Three Nodes that have less than the catalogue says change what is expected of their type.
func TestAllocatableIsLearned(t *testing.T) {
	h := full(t, 3)
	before := h.total[demand.Provision]
	ids := h.sorted()
	less := []vector.Amount{{Name: "cpu", Amount: 1900}, {Name: "memory", Amount: 8 * gi}, {Name: "pods", Amount: 110}}
	for i, id := range ids {
		h.tell(demand.Report{ID: id, Allocatable: less})
		h.step()
		if short := len(h.last.Shortfalls); short > 0 != (i == 2) {
			t.Fatalf("after %d reports %d needs are short", i+1, short)
		}
	}
	if h.total[demand.Provision] != before {
		t.Error("a machine is bought that no Pod fits into")
	}
}

// A machine whose Node is not ready in time is given up, and another one bought.
func TestJoinDeadline(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.join = 24 * time.Hour
	h.tell(market()...)
	h.tell(needs("c", row("web", 0, 1, 1000, gi))...)
	for range 65 {
		h.step()
		h.progress(10 * time.Second)
	}
	if h.total[demand.Fail] != 1 || h.total[demand.Provision] != 2 {
		t.Errorf("%d given up, %d bought", h.total[demand.Fail], h.total[demand.Provision])
	}
}

func TestMinimumLifetime(t *testing.T) {
	h := full(t, 2)
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1, MinLifetime: 30 * time.Minute}})
	h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
	for range 300 {
		if kinds(h.step(), demand.Reclaim) > 0 {
			if age := h.now.Sub(epoch); age < 30*time.Minute {
				t.Errorf("given back after %s", age)
			}
			return
		}
		h.progress(10 * time.Second)
	}
	t.Error("it is never given back")
}

// What was bought too late for its need is kept as an idle machine, and taken by the next.
func TestIntentIsTakenBack(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.boot = time.Hour
	h.tell(market()...)
	h.tell(needs("c", row("web", 0, 1, 1000, gi))...)
	h.step()
	h.tell(needs("c")...)
	for range 8 {
		h.progress(10 * time.Second)
		h.step()
	}
	if h.total[demand.Cancel] != 1 {
		t.Fatalf("%d intents are taken back", h.total[demand.Cancel])
	}
	h.tell(needs("c", row("other", 0, 1, 1000, gi))...)
	if got := h.step(); kinds(got, demand.Bootstrap) != 1 || kinds(got, demand.Provision) != 0 {
		t.Errorf("the next need gets\n%s", lines(got))
	}
}

func TestLimitsOfAGroup(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	o := offerOf("t/g", "small", 2, 8, 100_000)
	o.Capacity = []vector.Amount{{Name: "cpu", Amount: 2000}}
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1, Limits: demand.Limits{
		Resources: []vector.Amount{{Name: "cpu", Amount: 6000}}, HourlySpend: 250_000,
	}}}, demand.OffersChanged{Offers: []demand.Offer{o}})
	h.tell(needs("c", row("low", 0, 2, 2000, gi), row("high", 1, 1, 2000, gi))...)
	h.step()
	if h.bound("c") != 2 || len(h.last.Shortfalls) != 1 || h.last.Shortfalls[0].Fingerprint != "low" || h.last.Shortfalls[0].Reason != demand.LimitReached {
		t.Errorf("%d machines, shortfalls %+v", h.bound("c"), h.last.Shortfalls)
	}
}

func TestFailureLoopPausesCreates(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{offerOf("t/g", "small", 2, 8, 100_000)}})
	h.fault = func(string) (demand.Failure, bool) { return demand.FailureOther, true }
	h.tell(needs("c", row("web", 0, 30, 2000, 8*gi))...)
	h.step()
	h.step()
	if len(h.last.Shortfalls) != 1 || h.last.Shortfalls[0].Reason != demand.Cooldown {
		t.Fatalf("shortfalls %+v", h.last.Shortfalls)
	}
	if h.last.Next.IsZero() || h.last.Next.After(h.now.Add(time.Hour)) {
		t.Errorf("it is tried again at %s", h.last.Next)
	}
}

func TestCapacities(t *testing.T) {
	h := full(t, 2)
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: 5}})
	rows := []demand.Row{row("web", 0, 2, 2000, gi), row("huge", 0, 1, 64_000, gi), row("video", 0, 1, 1000, gi)}
	rows[2].Aggregate = append(rows[2].Aggregate, vector.Amount{Name: "nvidia.com/gpu", Amount: 2})
	rows[2].MinUnit = append(rows[2].MinUnit, vector.Amount{Name: "nvidia.com/gpu", Amount: 1})
	h.tell(needs("c", rows...)...)
	h.step()
	got := h.engine.Capacities("c")
	if len(got) != 3 || h.engine.Capacities("nobody") != nil {
		t.Fatalf("capacities %+v", got)
	}
	for _, c := range got {
		switch c.Fingerprint {
		case "web":
			if c.Confidence != demand.ConfidenceMedium || c.Count != 3 || c.PricePerHour != 100_000 || !c.Deficit.IsZero() {
				t.Errorf("%+v", c)
			}
		case "video":
			if c.Confidence != demand.ConfidenceNone || c.Reason != demand.NoMatchingOffer || len(c.Unoffered) != 1 || c.Unoffered[0].Amount != 2 {
				t.Errorf("%+v", c)
			}
		case "huge":
			if c.Confidence != demand.ConfidenceNone || c.Count != 0 || c.Deficit[vector.CPU] != 64_000 || c.Reason != demand.NoMatchingOffer {
				t.Errorf("%+v", c)
			}
		}
	}
}

// TestS22_NewProbabilitiesKeepNothing: offers of spot machines are told anew all the time, with other probabilities, and
// the engine does not grow.
func TestS22_NewProbabilitiesKeepNothing(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(needs("c", row("web", 0, 4, 2000, gi))...)
	spot := offerOf("t/g", "small", 4, 16, 50_000)
	spot.Class.CapacityType = demand.Spot
	refresh := func(times int) uint64 {
		for i := range times {
			spot.Class.InterruptionPPM = 1 + int64(i)
			h.tell(demand.OffersChanged{Offers: []demand.Offer{spot}})
			h.step()
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := refresh(100)
	if after := refresh(10_000); after > before+1<<20 {
		t.Errorf("%d KiB more after 10,000 listings", (after-before)>>10)
	}
	runtime.KeepAlive(h)
}

// TestMachinesOfAnOfferThatIsAway count for their group: a leader that has just begun, and whose provider lists a type no
// longer, buys none beyond the limit.
func TestMachinesOfAnOfferThatIsAway(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: 3}}, demand.OffersChanged{Offers: []demand.Offer{offerOf("t/g", "large", 16, 64, 760_000)}})
	old := offerOf("t/g", "old", 2, 8, 100_000)
	for _, id := range []string{"a", "b"} {
		h.machines[id] = &made{id: id, cluster: "c", tenant: "c", state: demand.Configured}
		h.tell(demand.Observed{Machine: demand.Supply{
			ID: id, Offer: old.Name, Class: old.Class, State: demand.Configured, Cluster: "c", Since: epoch.Add(-time.Hour), Price: 100_000,
		}})
	}
	h.tell(needs("c", row("web", 0, 5, 10_000, gi))...)
	h.settle(time.Second, 10)
	if n := h.bound("c"); n != 3 {
		t.Errorf("%d machines, and 3 are allowed", n)
	}
	// It is listed again: what is there counts once.
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: 4}}, demand.OffersChanged{Offers: []demand.Offer{old, offerOf("t/g", "large", 16, 64, 760_000)}})
	h.settle(time.Second, 10)
	if n := h.bound("c"); n != 4 {
		t.Errorf("%d machines, and 4 are allowed", n)
	}
}

// TestDrainsOfTheLeaderBefore count against the budget of their group.
func TestDrainsOfTheLeaderBefore(t *testing.T) {
	for _, voluntary := range []bool{true, false} {
		h := newHouse(t, demand.Settings{})
		h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1, Disruption: []demand.Budget{{Nodes: 1}}}},
			demand.OffersChanged{Offers: []demand.Offer{offerOf("t/g", "small", 2, 8, 100_000)}})
		small := offerOf("t/g", "small", 2, 8, 100_000)
		for i, id := range []string{"a", "b", "c"} {
			m := demand.Supply{ID: id, Offer: small.Name, Class: small.Class, State: demand.Configured, Cluster: "c", Since: epoch.Add(-time.Hour), Price: 100_000}
			if i == 0 {
				m.State, m.Voluntary = demand.Draining, voluntary
			}
			h.machines[id] = &made{id: id, cluster: "c", tenant: "c", state: m.State}
			h.tell(demand.Observed{Machine: m})
		}
		h.tell(needs("c", row("web", 0, 1, 2000, gi))...)
		h.step()
		h.now = h.now.Add(2 * time.Minute) // while it drains on
		want := 1
		if voluntary {
			want = 0
		}
		if n := kinds(h.step(), demand.Reclaim); n != want {
			t.Errorf("voluntary %v: %d machines are given back beside it, want %d", voluntary, n, want)
		}
	}
}

// TestNamesBeyondTheWidth: an offer with one resource more than a shard counts is not bought, for no limit on that one
// would hold. All others are, and their limits hold.
func TestNamesBeyondTheWidth(t *testing.T) {
	odd := func(i int) (string, demand.Offer) {
		name := fmt.Sprintf("example.com/card-%02d", i)
		o := offerOf("t/g", fmt.Sprintf("kind-%02d", i), 2, 8, 100_000)
		o.Capacity = []vector.Amount{{Name: name, Amount: 1}}
		o.Class.Allocatable = append(o.Class.Allocatable, o.Capacity...)
		return name, o
	}
	h := newHouse(t, demand.Settings{})
	limits := demand.Limits{}
	var offers []demand.Offer
	for i := range vector.Width - 3 { // cpu, memory, pods and ephemeral-storage have room anyway
		name, o := odd(i)
		offers = append(offers, o)
		limits.Resources = append(limits.Resources, vector.Amount{Name: name, Amount: 2})
	}
	r := h.engine.Step(h.now, []demand.Event{
		demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1, Limits: limits}}, demand.OffersChanged{Offers: offers},
	})
	if len(r.Rejected) != 1 || !strings.Contains(r.Rejected[0].Error(), "t/g-kind-12 for example.com/card-12; have fewer kinds") {
		t.Errorf("rejected: %v", r.Rejected)
	}
	var rows []demand.Row
	for i, o := range offers {
		one := row(o.Name, int32(i), 5, 1000, gi)
		one.Aggregate = append(one.Aggregate, vector.Amount{Name: o.Capacity[0].Name, Amount: 5})
		one.MinUnit = append(one.MinUnit, o.Capacity...)
		rows = append(rows, one)
	}
	h.tell(needs("c", rows...)...)
	h.settle(time.Second, 10)
	bought := map[string]int{}
	for _, m := range h.machines {
		bought[m.offer]++
	}
	for i, o := range offers {
		want := 2 // its limit
		if i == vector.Width-4 {
			want = 0
		}
		if bought[o.Name] != want {
			t.Errorf("%d machines of %s, want %d", bought[o.Name], o.Name, want)
		}
	}
}

// TestS22_NewLabelsKeepNothing: a configuration whose labels change every day, and clusters that ask for another topology
// every day, leave nothing behind in a shard, and what is asked for is found by its labels of today.
func TestS22_NewLabelsKeepNothing(t *testing.T) {
	h := newHouse(t, demand.Settings{})
	h.tell(demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1, MinLifetime: time.Second, ScaleDownDelay: time.Second, ReleaseHold: time.Second}})
	change := func(from, to int) uint64 {
		for day := from; day < to; day++ {
			o := offerOf("t/g", "small", 4, 16, 100_000)
			rack := fmt.Sprint("rack-", day)
			o.Class.Labels["day"], o.Class.Labels[rack] = fmt.Sprint(day), "r1"
			today, yesterday := row("today", 0, 1, 2000, gi), row("yesterday", 0, 1, 2000, gi)
			today.Fingerprint, yesterday.Fingerprint = fmt.Sprint("today", day), fmt.Sprint("yesterday", day)
			today.Terms.Requirements = append(today.Terms.Requirements, where("day", fmt.Sprint(day)), match.Requirement{Key: rack, Op: match.Same})
			today.Group = rack
			yesterday.Terms.Requirements = append(yesterday.Terms.Requirements, where("day", fmt.Sprint(day-2)))
			h.tell(demand.OffersChanged{Offers: []demand.Offer{o}})
			h.tell(needs("c", today, yesterday)...)
			h.step()
			if len(h.last.Shortfalls) != 1 || h.last.Shortfalls[0].Reason != demand.NoMatchingOffer || h.last.Shortfalls[0].Need != key("yesterday") {
				t.Fatalf("day %d: short are %+v", day, h.last.Shortfalls)
			}
			for range 12 {
				h.progress(10 * time.Second)
				h.step()
			}
			if n := h.bound("c"); n != 1 {
				t.Fatalf("day %d: %d machines", day, n)
			}
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := change(2, 100)
	if after := change(100, 2000); after > before+1<<20 {
		t.Errorf("%d KiB more after 1,900 days", (after-before)>>10)
	}
	runtime.KeepAlive(h)
}

// TestMachinesOfAnOfferThatIsAwayCountForEveryLimit that their offer would count for.
func TestMachinesOfAnOfferThatIsAwayCountForEveryLimit(t *testing.T) {
	large := offerOf("t/g", "large", 16, 64, 760_000)
	large.Capacity = []vector.Amount{{Name: "cpu", Amount: 16_000}}
	large.Pools = []demand.PoolUse{{Pool: "vcpu", Units: 16}}
	old := offerOf("t/g", "old", 8, 32, 400_000)
	old.Capacity = []vector.Amount{{Name: "cpu", Amount: 8000}}
	old.Pools = []demand.PoolUse{{Pool: "vcpu", Units: 8}}
	for _, tt := range []struct {
		name  string
		group demand.Group
		pool  int64
		why   demand.Reason
	}{
		{"the group's processors", demand.Group{Name: "t/g", Max: -1, Limits: demand.Limits{Resources: []vector.Amount{{Name: "cpu", Amount: 39_000}}}}, 1000, demand.LimitReached},
		{"a pool", demand.Group{Name: "t/g", Max: -1}, 39, demand.QuotaExhausted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, demand.Settings{})
			h.tell(demand.GroupChanged{Group: tt.group}, demand.PoolChanged{Name: "vcpu", Limit: tt.pool}, demand.OffersChanged{Offers: []demand.Offer{large}})
			h.machines["a"] = &made{id: "a", cluster: "c", tenant: "c", state: demand.Configured}
			h.tell(demand.Observed{Machine: demand.Supply{
				ID: "a", Offer: old.Name, Class: old.Class, State: demand.Configured, Cluster: "c", Since: epoch.Add(-time.Hour), Price: 400_000,
				Capacity: old.Capacity, Pools: old.Pools,
			}})
			h.tell(needs("c", row("web", 0, 5, 14_000, gi))...)
			h.step()
			if h.total[demand.Provision] != 1 || h.last.Shortfalls[0].Reason != tt.why {
				t.Errorf("%d are bought, and one of 16 processors fits beside the one of 8: %+v", h.total[demand.Provision], h.last.Shortfalls)
			}
		})
	}
}
