package shard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"nstance.dev/protos/binding"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/demandloop"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// demanded is a world with one group of demand mode, whose machines can join clusters.
func demanded(settings string) worldOptions {
	return worldOptions{
		Joins: true, Drain: "1m", Groups: `{"default": {"web": {"template": "plain", "mode": "demand", "demand": {` + settings + `}}}}`,
		Types:  &listing{types: []driver.InstanceType{{Name: "small", VCPU: 4, MemoryMiB: 16384, Arch: "amd64"}}},
		Server: `"demand": {"prices": [{"instance_types": ["small"], "hour": 0.1}]},`,
	}
}

// scripted is the operator of a cluster that does as it is told.
type scripted struct {
	w    *world
	link demandloop.Link

	mu     sync.Mutex
	seq    uint64
	states map[string]demandloop.MachineState
	told   map[string][]demandloop.MachineState // in order
	asked  int                                  // for what it takes to join
}

// operator connects a cluster's.
func (w *world) operator() *scripted {
	w.t.Helper()
	o := &scripted{w: w, link: w.term().Demand(), states: map[string]demandloop.MachineState{}, told: map[string][]demandloop.MachineState{}}
	if o.link == nil {
		w.t.Fatal("demand mode has not begun")
	}
	snapshot, err := o.link.Connect(w.ctx, "default", demandloop.Hello{NodeReports: true, RefuseReclaim: true, CancelReclaim: true}, o)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, n := range snapshot.Nodes {
		o.Tell(n)
	}
	return o
}

// Tell implements [demandloop.Session].
func (o *scripted) Tell(m demandloop.Message) {
	switch m := m.(type) {
	case demandloop.BootstrapRequest:
		o.mu.Lock()
		o.asked++
		o.mu.Unlock()
		o.post(time.Second, demandloop.Blob{Request: m.Request, UserData: demandloop.Secret("#!/bin/sh\nexit 0\n")})
	case demandloop.ReclaimInstruction:
		if m.Cancel {
			return
		}
		o.post(time.Second, demandloop.ReclaimAnswer{Instruction: m.Instruction, Started: 1})
		o.post(5*time.Second, demandloop.NodeReports{{Machine: m.Machine, Drained: true, Instruction: m.Instruction}})
	case demandloop.NodeState:
		o.mu.Lock()
		o.states[m.Machine] = m.State
		o.told[m.Machine] = append(o.told[m.Machine], m.State)
		o.mu.Unlock()
		if m.State == demandloop.Configuring {
			o.post(5*time.Second, demandloop.NodeReports{{Machine: m.Machine, Node: m.Machine, Ready: true}})
		}
	}
}

func (o *scripted) post(after time.Duration, m demandloop.Inbound) {
	o.w.agents.Go(func() {
		<-time.After(after)
		ctx, cancel := context.WithTimeout(o.w.ctx, time.Minute)
		defer cancel()
		_ = o.link.Post(ctx, "default", o, m)
	})
}

// ask says what the cluster needs.
func (o *scripted) ask(cores int64) {
	o.mu.Lock()
	o.seq++
	m := demandloop.RollupReceived{Sequence: o.seq}
	o.mu.Unlock()
	if cores > 0 {
		m.Rows = []demand.Row{{
			Key: demand.Key{1}, Fingerprint: "f", Interruption: 1, Reclamation: 1,
			Aggregate: []vector.Amount{{Name: "cpu", Amount: 1000 * cores}, {Name: "pods", Amount: cores}},
			MinUnit:   []vector.Amount{{Name: "cpu", Amount: 1000}, {Name: "pods", Amount: 1}},
		}}
	}
	o.post(0, m)
}

// bindings are the states of those of the records that are to live.
func (w *world) bindings() map[layout.BindingState]int {
	w.t.Helper()
	n := map[layout.BindingState]int{}
	p := w.term().planner
	for _, in := range p.cache.All() {
		rec, ok := p.instances.Record(in.ID)
		if !ok || rec.Deletion != nil || in.State == fleet.Deleted {
			continue
		}
		if rec.Binding != nil {
			n[rec.Binding.State]++
		} else {
			n["none"]++
		}
	}
	return n
}

func (w *world) wantBindings(what string, want map[layout.BindingState]int) {
	w.t.Helper()
	if got := w.bindings(); !maps.Equal(got, want) {
		w.t.Fatalf("%s: bindings %v, want %v", what, got, want)
	}
}

// hello is what the machine's agent says first.
func (m *machine) hello() *nstancev1.AgentMessage {
	msg := hello(m.id)
	if m.w.opts.Joins {
		msg.GetHello().Capabilities = []string{binding.Capability}
	}
	return msg
}

func (m *machine) bound() *nstancev1.ClusterReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.binding == nil {
		return &nstancev1.ClusterReport{}
	}
	return m.binding
}

func clusterReport(r *nstancev1.ClusterReport) *nstancev1.AgentMessage {
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Cluster{Cluster: r}}
}

// obey joins and leaves clusters as it is told.
func (m *machine) obey(s *pipe) {
	for {
		select {
		case <-s.ctx.Done():
			return
		case msg := <-s.out:
			r := &nstancev1.ClusterReport{State: nstancev1.ClusterState_CLUSTER_STATE_DONE}
			switch {
			case msg.GetClusterJoin() != nil:
				r.BindingId, r.Action = msg.GetClusterJoin().GetBindingId(), nstancev1.ClusterAction_CLUSTER_ACTION_JOIN
			case msg.GetClusterLeave() != nil:
				r.BindingId, r.Action = msg.GetClusterLeave().GetBindingId(), nstancev1.ClusterAction_CLUSTER_ACTION_LEAVE
			default:
				continue
			}
			m.mu.Lock()
			m.binding = r
			m.mu.Unlock()
			if !s.say(clusterReport(r)) {
				return
			}
		}
	}
}

// TestE1_S3_AShardBuysWhatAClusterNeeds, by the records, the launcher, the agents and the removals of
// a term, and gives it back.
func TestE1_S3_AShardBuysWhatAClusterNeeds(t *testing.T) {
	inWorld(t, demanded(`"min_lifetime": "0s", "release_hold": "5m"`), func(t *testing.T, w *world) {
		w.settle(time.Minute)
		o := w.operator()
		o.ask(6)
		w.settle(time.Minute)
		w.wantBindings("six cores of machines with four", map[layout.BindingState]int{layout.BindingBound: 2})
		w.settle(time.Hour)
		if n := w.cloud.Created(); n != 2 {
			t.Errorf("%d machines were made, want 2", n)
		}
		for _, vm := range w.cloud.Machines() {
			if vm.Request.CapacityType != driver.OnDemand {
				t.Errorf("%s was made as %q", vm.InstanceID, vm.Request.CapacityType)
			}
		}
		o.ask(2)
		w.settle(3 * time.Minute)
		w.wantBindings("two cores", map[layout.BindingState]int{layout.BindingBound: 1, "none": 1})
		w.settle(10 * time.Minute)
		w.wantBindings("after the hold", map[layout.BindingState]int{layout.BindingBound: 1})
		if n := len(slices.DeleteFunc(w.cloud.Machines(), func(vm drivertest.VM) bool { return vm.Status.Down() })); n != 1 {
			t.Errorf("%d machines are there, want 1", n)
		}
	})
}

// TestE4_S16_TheNextLeaderGoesOn whatever was under way, and no machine is made twice or left over.
func TestE4_S16_TheNextLeaderGoesOn(t *testing.T) {
	for at := time.Duration(0); at <= 12*time.Second; at += time.Second {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inWorld(t, demanded(`"min_lifetime": "0s"`), func(t *testing.T, w *world) {
				w.settle(time.Minute)
				w.operator().ask(6)
				w.settle(at)
				if err := w.stop(); err != nil {
					t.Fatal(err)
				}
				w.lead()
				w.settle(time.Minute)
				o := w.operator()
				o.ask(6)
				w.settle(3 * time.Minute)
				w.wantBindings("the next leader", map[layout.BindingState]int{layout.BindingBound: 2})
				if n := w.cloud.Created(); n != 2 {
					t.Errorf("%d machines were made, want 2", n)
				}
			})
		})
	}
}

// TestS6_ASickMachineOfADemandGroupIsReplaced by demand, and goes the ordinary way.
func TestS6_ASickMachineOfADemandGroupIsReplaced(t *testing.T) {
	inWorld(t, demanded(""), func(t *testing.T, w *world) {
		w.settle(time.Minute)
		w.operator().ask(6)
		w.settle(time.Minute)
		w.wantBindings("before", map[layout.BindingState]int{layout.BindingBound: 2})
		w.cloud.Kill(w.cloud.Machines()[0].InstanceID)
		w.settle(5 * time.Minute)
		w.wantBindings("after", map[layout.BindingState]int{layout.BindingBound: 2})
		if n := w.cloud.Created(); n != 3 {
			t.Errorf("%d machines were made, want 3", n)
		}
	})
}

// TestOperatorsAreToldOfEachStepOfARemoval: that a VM is being deleted stands in no record, and where no agent ever
// connected nothing else happens then.
func TestOperatorsAreToldOfEachStepOfARemoval(t *testing.T) {
	for name, dead := range map[string]bool{"a machine that serves": false, "one that is being made": true} {
		t.Run(name, func(t *testing.T) {
			opts := demanded("")
			opts.DeadAgents, opts.Timeout, opts.Drain, opts.Cloud.DeleteTime = dead, "1h", "1m", 20*time.Second
			inWorld(t, opts, func(t *testing.T, w *world) {
				w.coordinate("default")
				w.settle(time.Minute)
				o := w.operator()
				o.ask(2)
				w.settle(time.Minute)
				id := w.cloud.Machines()[0].InstanceID
				if _, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: id.String()}); err != nil {
					t.Fatal(err)
				}
				w.settle(10 * time.Second)
				if err := w.acknowledge(id); err != nil {
					t.Fatal(err)
				}
				want := []demandloop.MachineState{demandloop.Draining, demandloop.Deleting}
				for _, after := range []time.Duration{time.Second, time.Minute} {
					w.settle(after)
					o.mu.Lock()
					told := slices.Clone(o.told[id.String()])
					o.mu.Unlock()
					if n := len(told); n < len(want) || !slices.Equal(told[n-len(want):], want) {
						t.Errorf("told of the machine, %s later: %v, want %v in the end", after, told, want)
					}
					want = append(want, demandloop.Deleted)
				}
			})
		})
	}
}

// TestPricesAreListedEveryHour while groups buy by them, and otherwise with the types.
func TestPricesAreListedEveryHour(t *testing.T) {
	for name, c := range map[string]struct {
		opts worldOptions
		want int
	}{"demand mode": {demanded(""), 7}, "fixed sizes": {worldOptions{Types: &listing{}}, 1}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, c.opts, func(_ *testing.T, w *world) { w.settle(6*time.Hour + time.Minute) })
			if got := c.opts.Types.calls; got != c.want {
				t.Errorf("listed %d times in six hours, want %d", got, c.want)
			}
		})
	}
}

// TestF25_NoCapacityCoolsTheOfferDown: the engine decides when it is tried again, not the group.
func TestF25_NoCapacityCoolsTheOfferDown(t *testing.T) {
	inWorld(t, demanded(""), func(t *testing.T, w *world) {
		w.settle(time.Minute)
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fail(driver.Capacity)))
		w.operator().ask(3)
		w.settle(2 * time.Minute)
		if n := w.cloud.Count(drivertest.OpCreate); n != 1 {
			t.Errorf("%d creates within the cooldown, want 1", n)
		}
		w.cloud.SetFaults(nil)
		w.settle(3 * time.Minute)
		w.wantBindings("room again", map[layout.BindingState]int{layout.BindingBound: 1})
	})
}

// TestAShardWithoutADemandGroupHasNoDemandMode: nothing of it begins.
func TestAShardWithoutADemandGroupHasNoDemandMode(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		if w.term().Demand() != nil {
			t.Error("demand mode has begun without a group")
		}
	})
}

// TestDemandModeWaitsForTheCatalogue and says so: an operator is to come again, and nothing is bought meanwhile.
func TestDemandModeWaitsForTheCatalogue(t *testing.T) {
	opts := demanded("")
	opts.Types.refuse = 2
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.settle(20 * time.Second)
		if w.term().Demand() != nil || !w.term().DemandWaits() {
			t.Fatalf("link %v, waits: %v", w.term().Demand(), w.term().DemandWaits())
		}
		w.settle(3 * time.Minute)
		if w.term().Demand() == nil || w.term().DemandWaits() {
			t.Fatalf("link %v, waits: %v", w.term().Demand(), w.term().DemandWaits())
		}
	})
}

// TestE2_AGroupChangesItsMode from a size to demand and back, and no machine is touched by it. While the group has a
// size its machines serve the cluster that they have joined.
func TestE2_AGroupChangesItsMode(t *testing.T) {
	sized := demanded("")
	sized.Groups = `{"default": {"web": {"template": "plain", "size": 2}}}`
	inWorld(t, sized, func(t *testing.T, w *world) {
		w.settle(time.Minute)
		made := w.cloud.Created()
		if made != 2 || w.term().Demand() != nil {
			t.Fatalf("%d machines were made, demand mode %v", made, w.term().Demand())
		}
		w.reconfigure(demanded(`"min_lifetime": "0s", "scale_down_delay": "1h"`))
		w.settle(time.Minute)
		o := w.operator()
		o.ask(6)
		w.settle(time.Minute)
		w.wantBindings("of demand mode: both are used", map[layout.BindingState]int{layout.BindingBound: 2})
		w.reconfigure(sized)
		w.settle(5 * time.Minute)
		w.wantBindings("of a size again: they serve as before", map[layout.BindingState]int{layout.BindingBound: 2})
		o.ask(2)
		w.settle(30 * time.Minute)
		w.wantBindings("a group with a size gives nothing back", map[layout.BindingState]int{layout.BindingBound: 2})
		w.reconfigure(demanded(`"min_lifetime": "0s"`))
		w.settle(10 * time.Minute)
		w.wantBindings("of demand mode once more: one is not needed", map[layout.BindingState]int{layout.BindingBound: 1, "none": 1})
		if w.cloud.Created() != made {
			t.Errorf("%d machines were made for changes of the mode", w.cloud.Created()-made)
		}
	})
}

// TestWhatIsKnownOfACluster is what is needed, what is missing and why, which machines serve, and what a dry run holds back.
func TestWhatIsKnownOfACluster(t *testing.T) {
	inWorld(t, demanded(`"max": 1, "min_lifetime": "0s"`), func(t *testing.T, w *world) {
		w.settle(time.Minute)
		o := w.operator()
		o.ask(6)
		w.settle(time.Minute)
		p, begun, err := w.term().InspectDemand(w.ctx, "default", "")
		if err != nil || !begun || !p.Connected || len(p.Needs) != 1 || len(p.Machines) != 1 || len(p.Planned) != 0 {
			t.Fatalf("%+v, begun %v, %v", p, begun, err)
		}
		if n := p.Needs[0]; n.Reason != demand.LimitReached || len(n.Deficit) == 0 || n.Since.IsZero() {
			t.Errorf("need %+v", n)
		}
		if m := p.Machines[0]; m.State != demand.Configured || m.Needs != 1 || !m.Surplus.IsZero() || m.InstanceType != "small" || m.PricePerHour != 100_000 {
			t.Errorf("machine %+v", m)
		}
		if one, _, _ := w.term().InspectDemand(w.ctx, "default", "01"); one.Explained == nil || len(one.Explained.Offers) != 1 || one.Explained.Offers[0].Reason != demand.LimitReached || len(one.Needs) != 1 || len(one.Machines) != 0 {
			t.Errorf("of the need %+v", one)
		}
		for _, none := range []string{"02", "0101"} {
			if p, _, _ := w.term().InspectDemand(w.ctx, "default", none); p.Explained != nil || len(p.Needs) != 0 {
				t.Errorf("of a need %s: %+v", none, p)
			}
		}
		if other, _, _ := w.term().InspectDemand(w.ctx, "acme", "01"); other.Explained != nil || len(other.Needs) != 0 {
			t.Errorf("another tenant is told of the need: %+v", other)
		}
		if other, _, _ := w.term().InspectDemand(w.ctx, "acme", ""); other.Connected || len(other.Needs)+len(other.Machines) != 0 {
			t.Errorf("another tenant is told %+v", other)
		}
		rehearsed := demanded(`"max": 2, "min_lifetime": "0s"`)
		rehearsed.Server = `"demand": {"dry_run": true, "prices": [{"instance_types": ["small"], "hour": 0.1}]},`
		w.reconfigure(rehearsed)
		w.settle(time.Hour)
		p, _, _ = w.term().InspectDemand(w.ctx, "default", "")
		if len(p.Planned) != 1 || p.Planned[0].Kind != demand.Provision || p.Planned[0].Disposition != demand.DryRun || len(p.Machines) != 1 {
			t.Errorf("with room for another one, in a dry run: %+v", p)
		}
	})
}

// TestE2_AnotherGroupChangesItsMode while demand mode runs: its machines, whose agents are connected, are used.
func TestE2_AnotherGroupChangesItsMode(t *testing.T) {
	of := func(db string) worldOptions {
		opts := demanded("")
		opts.Groups = `{"default": {"web": {"template": "plain", "mode": "demand", "demand": {"max": 1}}, "db": {"template": "plain", ` + db + `}}}`
		return opts
	}
	inWorld(t, of(`"size": 1`), func(t *testing.T, w *world) {
		w.settle(time.Minute)
		w.operator().ask(6)
		w.settle(time.Minute)
		w.wantBindings("one may be bought", map[layout.BindingState]int{layout.BindingBound: 1, "none": 1})
		w.reconfigure(of(`"mode": "demand"`))
		w.settle(time.Minute)
		w.wantBindings("both groups are of demand mode", map[layout.BindingState]int{layout.BindingBound: 2})
		if n := w.cloud.Created(); n != 2 {
			t.Errorf("%d machines were made, want 2", n)
		}
	})
}

// TestM3_OperatorsAreToldOfBindings of machines whose nodes run in node machines: a warm one serves nobody, and one
// that is bound is told as such at once. Nobody is asked for what it takes to join.
func TestM3_OperatorsAreToldOfBindings(t *testing.T) {
	opts := demanded(`"min_idle": 1`)
	opts.Userdata = `{"content": "{{ .Nonce }}"}, "machine": {"enabled": true}`
	inWorld(t, opts, func(t *testing.T, w *world) {
		told := w.watchInstances("default")
		o := w.operator()
		w.settle(time.Minute)
		w.wantBindings("warm", map[layout.BindingState]int{"none": 1})
		warm := w.records()[0].ID
		if row, _ := w.term().planner.cache.Instance(warm); row.Machine != (cache.Machine{On: true, Binding: "idle"}) {
			t.Errorf("the warm machine is %+v", row.Machine)
		}
		told.events = nil
		o.ask(3)
		w.settle(time.Minute)
		w.wantBindings("needed", map[layout.BindingState]int{layout.BindingBound: 1, "none": 1})
		var got []string
		for _, ev := range told.events {
			if m := ev.Instance.Machine; ev.Instance.ID == warm && m.On && (len(got) == 0 || got[len(got)-1] != m.Binding) {
				got = append(got, m.Binding)
			}
		}
		if want := []string{"configuring", "bound"}; !slices.Equal(got, want) {
			t.Errorf("operators were told %v of the machine, want %v", got, want)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.asked > 0 {
			t.Errorf("the operator was asked %d times for what it takes to join", o.asked)
		}
	})
}
