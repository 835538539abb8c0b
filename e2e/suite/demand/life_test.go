package demand_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"nstance.dev/e2e/env/demandoperator"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

const configured = demandpb.MachineState_MACHINE_STATE_CONFIGURED

// frames are those of the wire contract, and what they are about. Each has to be exchanged.
var frames = []string{
	"operator: hello", "operator: rollup", "operator: rollup part", "operator: rollup same_as", "operator: bootstrap_response",
	"operator: reclaim_ack", "operator: node_reports", "operator: acknowledge_drained",
	"shard: ack HELLO", "shard: ack ROLLUP_ACCEPTED", "shard: ack ROLLUP_HELD", "shard: ack ROLLUP_REJECTED", "shard: ack RECLAIM_ACK",
	"shard: bootstrap_request", "shard: reclaim_instruction", "shard: reclaim_instruction cancel",
	"shard: node_state_update of a snapshot", "shard: node_state_update CREATING", "shard: node_state_update IDLE",
	"shard: node_state_update CONFIGURING", "shard: node_state_update CONFIGURED", "shard: node_state_update DRAINING",
	"shard: node_state_update DELETING", "shard: node_state_update FAILED", "shard: node_state_update DELETED", "shard: available_capacity", "shard: available_capacity withdrawn",
}

// list are the needs: every second one takes two machines, less those that are left out.
func list(n, pods int) (all []demandoperator.Need, machines int) {
	for i := range n {
		need := demandoperator.Need{Name: fmt.Sprintf("need-%03d", i), Pods: 1}
		if i%2 == 1 {
			need.Pods = pods
		}
		machines += need.Pods
		all = append(all, need)
	}
	return all, machines
}

// Machines are bought for what a cluster needs, join it, are given back when they are not needed and used again,
// and the server is killed five times meanwhile: none is bought twice, none is left over, and none is taken
// from under a Pod.
func TestMachinesComeAndGoWithTheirNeeds(t *testing.T) {
	w := start(t, "10m")
	watch := w.Watch()
	w.operator.FailBlobs(2) // machines that are asked for again
	all, machines := list(*needs, 2)
	w.operator.Need(all...)
	w.await("some machines are bought", func(s demandoperator.Seen) error { return least(len(s.Nodes), 2) })
	w.kill()
	w.await("more have joined", func(s demandoperator.Seen) error { return least(s.States[configured], machines/3) })
	w.kill()
	w.settled("every Pod runs", machines)
	w.unneeded(machines)
	w.told(machines)
	w.explained()

	// Half is given back. Two are refused at first.
	w.operator.RefuseReclaims(2)
	half, left := list(*needs/2, 2)
	w.operator.Need(half...)
	w.await("something is given back", func(s demandoperator.Seen) error { return least(machines-len(s.Nodes), 1) })
	w.kill()
	w.await("more is given back", func(s demandoperator.Seen) error { return least(machines-len(s.Nodes), (machines-left)/2) })
	w.kill()
	w.settled("what is needed is left", left)
	before := w.operator.Seen()

	// They are used again: the same machines, with Nodes of their own.
	w.operator.Need(all...)
	w.await("machines are used again", func(s demandoperator.Seen) error { return least(len(s.Nodes), left+1) })
	w.kill()
	w.settled("every Pod runs again", machines)
	again := 0
	for machine, uids := range w.operator.Seen().Joins {
		if len(uids) > 1 {
			again++
		}
		if slices.Sort(uids); len(slices.Compact(uids)) != len(uids) {
			t.Errorf("machine %s was a Node of one UID twice: %v", machine, uids)
		}
		if before.Nodes[machine] != "" && before.Nodes[machine] != w.operator.Seen().Nodes[machine] {
			t.Errorf("machine %s was needed all the time, and has another Node", machine)
		}
	}
	if again == 0 {
		t.Error("no machine was used again")
	}

	w.failed(machines)
	w.forged(machines)
	w.condemned(machines)
	seen := watch()
	for _, what := range seen.Wrong {
		if !strings.HasPrefix(what, "two processes") { // a machine has an agent and the program that makes it join
			t.Error(what)
		}
	}
	w.covered()
}

// unneeded checks that there are as many machines as are needed, each once.
func (w *world) unneeded(machines int) {
	w.t.Helper()
	w.patiently("each machine is there once", func() error {
		records, err := w.ListRecords()
		if err != nil {
			return err
		}
		if len(records) != machines {
			return fmt.Errorf("%d machines for %d Pods", len(records), machines)
		}
		return w.oneToOne()
	})
}

// told checks what the command line tells of needs and machines that agree.
func (w *world) told(machines int) {
	w.t.Helper()
	for what, want := range map[string]int{"needs": *needs, "machines": machines, "shortfalls": 0, "plan": 0} {
		if all := w.AdminList("demand", what); len(all) != want {
			w.t.Errorf("demand %s tells %d, want %d: %v", what, len(all), want, all)
		}
	}
	for _, m := range w.AdminList("demand", "machines") {
		if m["state"] != "configured" || m["needs"] != float64(1) {
			w.t.Errorf("machine %v", m)
		}
	}
}

// failed lets the program fail that makes a machine join: the cluster is told why the machine is of no use to it, another
// one takes its place, and it is deleted like any other.
func (w *world) failed(machines int) {
	w.t.Helper()
	w.operator.FailJoins(1)
	all, _ := list(*needs, 2)
	w.operator.Need(append(all, demandoperator.Need{Name: "one-more", Pods: 1})...)
	var machine string
	w.await("a machine has failed", func(s demandoperator.Seen) error {
		for id, why := range s.Failed {
			machine = id
			if !strings.HasPrefix(why, "ConfigureFailed: exit code 7") {
				return fmt.Errorf("machine %s has failed because: %s", id, why)
			}
		}
		return least(len(s.Failed), 1)
	})
	w.settled("another one has taken its place", machines+1)
	w.AdminOK("instance", "delete", machine)
	w.await("it is gone", func(s demandoperator.Seen) error {
		if why, there := s.Failed[machine]; there || slices.Contains(w.RecordIDs(), machine) || slices.Contains(w.Directories(), machine) {
			return fmt.Errorf("%s is there: %s", machine, why)
		}
		return nil
	})
	w.operator.Need(all...)
	w.settled("one less is needed", machines)
}

// explained checks what the command line tells of one need and each offer.
func (w *world) explained() {
	w.t.Helper()
	id, _ := w.AdminList("demand", "needs")[0]["id"].(string)
	if said := w.AdminOK("explain", "need", id[:12]).Out; !strings.Contains(said, "nothing is missing") || !strings.Contains(said, "default/pool/cpu:2,memory:4096/on-demand") {
		w.t.Errorf("explain need %s:\n%s", id, said)
	}
}

// forged reports that nothing is needed, for less than two intervals: nothing is given back.
func (w *world) forged(machines int) {
	w.t.Helper()
	w.inForce() // the first roll-up that a server hears is compared with none
	before := w.operator.Seen().Frames["shard: reclaim_instruction"]
	held := w.operator.Seen().Frames["shard: ack ROLLUP_HELD"]
	w.operator.Forge()
	w.await("the roll-up is held", func(s demandoperator.Seen) error { return least(s.Frames["shard: ack ROLLUP_HELD"], held+8) })
	if n := w.operator.Seen().Frames["shard: reclaim_instruction"] - before; n > 0 {
		w.t.Errorf("%d machines were asked back for a roll-up that was held", n)
	}
	for series, want := range map[string]float64{
		`nstance_demand_rollup_quarantined{tenant="default"}`:                   1, // an alarm
		`nstance_demand_machines{capacity_type="on-demand",state="configured"}`: float64(machines),
		`nstance_demand_needs{tenant="default"}`:                                float64(*needs),
		`nstance_demand_hourly_spend_micro_usd{tenant="default"}`:               float64(machines) * 48_000, // two processors, four GiB
		`nstance_demand_shortfalls`:                                             0,
		`nstance_demand_shortfalls_aged{seconds="60"}`:                          0,
	} {
		if got := w.metric(series); got != want {
			w.t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	if !strings.Contains(w.server.Output()+w.log(), "roll-up held") {
		w.t.Error("the log does not say that a roll-up is held")
	}
	all, _ := list(*needs, 2)
	w.operator.Forge(all...)
	w.inForce()
	w.settled("nothing has changed", machines)
}

// inForce waits until the server that runs now has accepted what the operator says now.
func (w *world) inForce() {
	w.t.Helper()
	accepted := w.operator.Seen().Frames["shard: ack ROLLUP_ACCEPTED"]
	w.await("what is needed is in force", func(s demandoperator.Seen) error { return least(s.Frames["shard: ack ROLLUP_ACCEPTED"], accepted+2) })
}

// condemned deletes a machine while it drains for a reclaim. It drains once, and both who asked are answered.
func (w *world) condemned(machines int) {
	w.t.Helper()
	all, _ := list(*needs, 2)
	w.operator.HoldDrains(true)
	w.operator.Need(all[:len(all)-1]...)
	var machine string
	w.await("a machine drains", func(s demandoperator.Seen) error {
		for _, d := range s.Drains {
			if d.Instructed && !d.Over {
				machine = d.Machine
				return nil
			}
		}
		return fmt.Errorf("drains %v", s.Drains)
	})
	w.AdminOK("instance", "delete", machine)
	of := func(s demandoperator.Seen) demandoperator.Drain {
		for _, d := range s.Drains {
			if d.Machine == machine && !(d.Over && d.Begun > 0 && !d.Condemned) {
				return d
			}
		}
		return demandoperator.Drain{}
	}
	w.await("it is condemned", func(s demandoperator.Seen) error {
		if d := of(s); !d.Condemned {
			return fmt.Errorf("drain %+v", d)
		}
		return nil
	})
	w.operator.HoldDrains(false)
	w.await("both are answered", func(s demandoperator.Seen) error {
		if d := of(s); !d.Acknowledged || d.Begun != 1 {
			return fmt.Errorf("drain %+v", d)
		}
		return nil
	})
	w.await("it is gone", func(demandoperator.Seen) error {
		if slices.Contains(w.RecordIDs(), machine) || slices.Contains(w.Directories(), machine) {
			return fmt.Errorf("%s is there", machine)
		}
		return nil
	})
	w.await("nothing is told any longer of what is not needed", func(s demandoperator.Seen) error {
		return least(s.Frames["shard: available_capacity withdrawn"], 1)
	})
	w.operator.Need(all...)
	w.settled("another has taken its place", machines)
}

// covered wants every frame to have been exchanged, and nothing to have gone wrong in the cluster.
func (w *world) covered() {
	w.t.Helper()
	s := w.operator.Seen()
	w.t.Logf("%d sessions; frames:\n%s", s.Sessions, s.Frames)
	for _, frame := range frames {
		if s.Frames[frame] == 0 {
			w.t.Errorf("never exchanged: %s", frame)
		}
	}
	for _, d := range s.Drains {
		if d.Begun > 1 {
			w.t.Errorf("drain %+v", d)
		}
	}
	for _, said := range []string{`"action":"provision"`, `"action":"reclaim"`, `"disposition":"execute"`} {
		if !strings.Contains(w.log(), said) {
			w.t.Errorf("the log has no %s", said)
		}
	}
	if s.Short > 0 {
		w.t.Errorf("a Node that was needed was taken away, %d times", s.Short)
	}
	for _, wrong := range s.Wrong {
		w.t.Error(wrong)
	}
}

func (w *world) await(what string, check func(demandoperator.Seen) error) {
	w.t.Helper()
	w.patiently(what, func() error { return check(w.operator.Seen()) })
}

func least(have, want int) error {
	if have < want {
		return fmt.Errorf("%d of %d", have, want)
	}
	return nil
}

// log is what all servers of the box have written.
func (w *world) log() string {
	var out strings.Builder
	for _, path := range w.Printed() {
		out.WriteString(read(w.t, path))
	}
	out.WriteString(read(w.t, w.Path("server.log")))
	return out.String()
}
