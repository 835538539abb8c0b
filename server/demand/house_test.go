package demand_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
)

const gi = int64(1) << 30

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// house is an engine with a provider and operators that do what they are told.
type house struct {
	t        testing.TB
	engine   *demand.Engine
	now      time.Time
	ids      int
	batch    []demand.Event
	machines map[string]*made
	boot     time.Duration
	join     time.Duration
	// fault, where it is set, says what becomes of a create.
	fault func(offer string) (demand.Failure, bool)
	total map[demand.Kind]int
	spend int64
	reuse bool // groups let machines serve another tenant
	last  demand.Result
	// deletes: the test itself removes machines that are deleted while they serve a cluster.
	deletes bool
}

// made is a machine as the provider and the cluster have it.
type made struct {
	id, offer, cluster string
	tenant             string
	state              demand.State
	since              time.Time
	price              int64
}

func newHouse(t testing.TB, settings demand.Settings) *house {
	t.Helper()
	h := &house{t: t, now: epoch, machines: map[string]*made{}, total: map[demand.Kind]int{}}
	settings.NewID = func(string) string { h.ids++; return fmt.Sprintf("m%05d", h.ids) }
	engine, err := demand.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	h.engine = engine
	return h
}

func (h *house) tell(events ...demand.Event) { h.batch = append(h.batch, events...) }

// step lets the engine decide once, and begins what it asks for.
func (h *house) step() []demand.Action {
	h.t.Helper()
	r := h.engine.Step(h.now, h.batch)
	h.batch = nil
	for _, err := range r.Rejected {
		h.t.Errorf("rejected: %v", err)
	}
	h.last = r
	for _, a := range r.Actions {
		if a.Disposition == demand.Execute {
			h.total[a.Kind]++
			h.carryOut(a)
		}
	}
	return slices.Clone(r.Actions)
}

func (h *house) carryOut(a demand.Action) {
	m := h.machines[a.Machine]
	if a.Kind == demand.Provision {
		if m != nil {
			h.t.Fatalf("E2: %s is provisioned twice", a.Machine)
		}
		h.machines[a.Machine] = &made{id: a.Machine, offer: a.Offer, cluster: a.Cluster, state: demand.Creating, since: h.now, price: a.Price}
		h.spend += a.Price
		if h.fault != nil {
			if why, failed := h.fault(a.Offer); failed {
				h.machines[a.Machine].state, h.machines[a.Machine].cluster = demand.Failed, ""
				h.tell(demand.Changed{ID: a.Machine, State: demand.Failed, Failure: why})
			}
		}
		return
	}
	if m == nil {
		h.t.Fatalf("%s of a machine that does not exist", a)
	}
	switch a.Kind {
	case demand.Bootstrap:
		if m.cluster != "" || m.tenant != "" && m.tenant != a.Cluster && !h.reuse {
			h.t.Fatalf("E7: %s, which is bound to %q and ran %q", a, m.cluster, m.tenant)
		}
		m.cluster = a.Cluster
		if m.state == demand.Idle {
			m.state, m.since, m.tenant = demand.Configuring, h.now, a.Cluster
		}
	case demand.Reclaim, demand.Preempt:
		if m.state != demand.Configured {
			h.t.Fatalf("%s in state %s", a, m.state)
		}
		m.state, m.since = demand.Draining, h.now
	case demand.Cancel:
		m.cluster = ""
	case demand.Fail:
		m.state, m.cluster = demand.Failed, ""
	case demand.Delete:
		if h.deletes && a.Cluster != "" && a.Cluster == m.cluster {
			return
		}
		if m.cluster != "" {
			h.t.Fatalf("E8: %s, which is bound to %s", a, m.cluster)
		}
		m.state = demand.Deleting
	}
}

// progress lets time pass and the machines come on.
func (h *house) progress(d time.Duration) {
	h.now = h.now.Add(d)
	for _, id := range h.sorted() {
		m := h.machines[id]
		age := h.now.Sub(m.since)
		switch {
		case m.state == demand.Creating && age >= h.boot:
			h.move(m, demand.Idle)
			if m.cluster != "" {
				m.tenant = m.cluster
				h.move(m, demand.Configuring)
			}
		case m.state == demand.Configuring && age >= h.join:
			h.move(m, demand.Configured)
		case m.state == demand.Draining:
			m.cluster = ""
			h.move(m, demand.Idle)
		case m.state == demand.Deleting:
			delete(h.machines, id)
			h.tell(demand.Gone{ID: id})
		}
	}
}

func (h *house) move(m *made, to demand.State) {
	m.state, m.since = to, h.now
	h.tell(demand.Changed{ID: m.id, State: to})
}

func (h *house) sorted() []string {
	ids := make([]string, 0, len(h.machines))
	for id := range h.machines {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// settle lets everything that was begun end, until nothing is asked for.
func (h *house) settle(each time.Duration, most int) {
	h.t.Helper()
	for range most {
		acted := len(h.step())
		h.progress(each)
		if acted == 0 && len(h.batch) == 0 {
			return
		}
	}
	h.t.Fatalf("it acts after %d cycles", most)
}

// bound counts the machines that a cluster has or will have.
func (h *house) bound(cluster string) (n int) {
	for _, m := range h.machines {
		if m.cluster == cluster && m.state != demand.Draining && m.state != demand.Failed {
			n++
		}
	}
	return n
}

func class(group, name string, cpu, memory int64) demand.Class {
	return demand.Class{
		Group: group, InstanceType: name, CapacityType: demand.OnDemand,
		Labels: map[string]string{"node.kubernetes.io/instance-type": name, "nstance.dev/group": group},
		Allocatable: []vector.Amount{
			{Name: "cpu", Amount: cpu * 1000}, {Name: "memory", Amount: memory * gi}, {Name: "pods", Amount: 110},
		},
	}
}

func offerOf(group, name string, cpu, memory, price int64) demand.Offer {
	return demand.Offer{Name: group + "-" + name, Class: class(group, name, cpu, memory), PricePerHour: price, Limit: -1}
}

// market is an ordinary group with three sizes.
func market() []demand.Event {
	return []demand.Event{
		demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}},
		demand.OffersChanged{Offers: []demand.Offer{
			offerOf("t/g", "small", 2, 8, 100_000), offerOf("t/g", "medium", 4, 16, 196_000), offerOf("t/g", "large", 16, 64, 760_000),
		}},
	}
}

func key(name string) (k demand.Key) {
	copy(k[:], name)
	return k
}

// row asks for so many Pods of a size.
func row(name string, priority int32, pods, cpuMilli, memory int64) demand.Row {
	return demand.Row{
		Key: key(name), Fingerprint: name, Priority: priority,
		Aggregate: []vector.Amount{{Name: "cpu", Amount: pods * cpuMilli}, {Name: "memory", Amount: pods * memory}, {Name: "pods", Amount: pods}},
		MinUnit:   []vector.Amount{{Name: "cpu", Amount: cpuMilli}, {Name: "memory", Amount: memory}, {Name: "pods", Amount: 1}},
	}
}

func where(key string, values ...string) match.Requirement {
	return match.Requirement{Key: key, Op: match.In, Values: values}
}

func needs(cluster string, rows ...demand.Row) []demand.Event {
	return []demand.Event{demand.Session{Cluster: cluster, Live: true}, demand.Rollup{Cluster: cluster, Rows: rows}}
}

func lines(actions []demand.Action) string {
	var b strings.Builder
	for _, a := range actions {
		fmt.Fprintln(&b, a)
	}
	return b.String()
}
