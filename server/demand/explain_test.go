package demand_test

import (
	"strings"
	"testing"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
)

// Of each offer it is said what it could do for a need, or what stands in the way, the cheapest unit first.
func TestExplain(t *testing.T) {
	h := newHouse(t, demand.Settings{Policy: demand.Policy{HourlySpend: map[string]int64{"c": 10_000_000}}})
	tainted := offerOf("t/g", "tainted", 16, 64, 760_000)
	tainted.Class.Taints = []match.Taint{{Key: "gpu", Value: "true", Effect: match.NoSchedule}}
	spot := offerOf("t/g", "spot", 16, 64, 300_000)
	spot.Class.CapacityType, spot.Class.InterruptionPPM = demand.Spot, 20_000
	pooled := offerOf("t/g", "pooled", 16, 64, 760_000)
	pooled.Pools = []demand.PoolUse{{Pool: "vcpu", Units: 16}}
	empty := offerOf("t/g", "empty", 16, 64, 760_000)
	empty.Limit = 0
	foreign := offerOf("u/g", "foreign", 16, 64, 1)
	foreign.Tenant = "another"
	offers := []demand.Offer{
		offerOf("t/g", "small", 2, 8, 100_000), offerOf("t/g", "large", 16, 64, 760_000), offerOf("t/g", "huge", 64, 256, 11_000_000),
		offerOf("t/full", "full", 16, 64, 760_000), offerOf("t/cold", "cold", 16, 64, 760_000), tainted, spot, pooled, empty, foreign,
	}
	h.tell(
		demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.GroupChanged{Group: demand.Group{Name: "t/full", Max: 0}},
		demand.GroupChanged{Group: demand.Group{Name: "t/cold", Max: -1}}, demand.GroupChanged{Group: demand.Group{Name: "u/g", Max: -1}},
		demand.PoolChanged{Name: "vcpu", Limit: 8}, demand.OffersChanged{Offers: offers},
	)
	web := row("web", 0, 4, 4000, 4*gi)
	web.Interruption = 5 // 4 dollars
	web.Terms.Requirements = []match.Requirement{where("nstance.dev/group", "t/g", "t/full", "t/cold")}
	h.tell(needs("c", web)...)
	h.step()
	h.tell(demand.Observed{Machine: demand.Supply{ID: "cold1", Offer: "t/cold-cold", Class: offers[4].Class, State: demand.Creating, Cluster: "c"}})
	h.tell(demand.Changed{ID: "cold1", State: demand.Failed, Failure: demand.NoCapacity})
	h.step()
	why, ok := h.engine.Explain("c", web.Key)
	if !ok || why.Blocked != "" || why.Idle != 0 {
		t.Fatalf("%t, %+v", ok, why)
	}
	var got []string
	for _, o := range why.Offers {
		got = append(got, strings.TrimSpace(strings.Join([]string{o.Name, string(o.Reason), o.Detail}, " ")))
		if o.Reason == demand.Cooldown && !o.Until.Equal(h.now.Add(3*time.Minute)) {
			t.Errorf("%s is open again at %s, now is %s", o.Name, o.Until, h.now)
		}
		if o.Reason == "" && (o.Units != 4 || o.Free == 0) {
			t.Errorf("%+v", o)
		}
	}
	want := `t/g-spot
t/g-large
t/cold-cold Cooldown the provider had no room, a quota was full, or machines did not join
t/full-full LimitReached the group has 0 machines of max 0
t/g-empty QuotaExhausted 0 of 0 of the offer are in use
t/g-huge RailHeld the cluster would pay more than max_hourly_spend
t/g-pooled QuotaExhausted quota pool vcpu has 8 of 8 left, and a machine takes 16
t/g-small NoMatchingOffer a Pod asks for 4000 of cpu, and it has 2000
t/g-tainted NoMatchingOffer its taint gpu=true:NoSchedule is not tolerated`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if _, ok := h.engine.Explain("c", key("another")); ok {
		t.Error("a need is explained that there is not")
	}
}

// What the need itself waits for is said besides, and so is what its domains do not allow.
func TestExplain_NeedsOfOneDomain(t *testing.T) {
	h := shop(t, append(racked("t/g", "r1", "r2"), offerOf("t/g", "anywhere", 16, 64, 1))...)
	web := together(row("web", 0, 2, 4000, gi))
	h.tell(needs("c", web)...)
	h.step()
	why, _ := h.engine.Explain("c", web.Key)
	details := map[string]string{}
	for _, o := range why.Offers {
		details[o.Name] = string(o.Reason) + ": " + o.Detail
	}
	if got, want := details["t/g-anywhere"], "NoDomain: which rack a machine will have is not known before it is made"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := details["t/g-large-r2"], "NoDomain: its rack is r2, and the Pods share r1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := details["t/g-large-r1"]; got != ": " {
		t.Errorf("the rack that they share: %q", got)
	}
	h.tell(demand.BlobFailed{ID: h.sorted()[0]})
	h.step()
	why, _ = h.engine.Explain("c", web.Key)
	if why.Blocked != demand.BootstrapError || !why.Until.Equal(h.now.Add(5*time.Minute)) {
		t.Errorf("blocked by %q until %s, now is %s", why.Blocked, why.Until, h.now)
	}
}
