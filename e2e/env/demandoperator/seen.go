package demandoperator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// Frames counts what was exchanged, by the frame and its kind.
type Frames map[string]int

func (f Frames) sent(what string) { f["operator: "+what]++ }

func (f Frames) received(m *demandpb.ShardMessage) {
	note := func(format string, args ...any) { f["shard: "+fmt.Sprintf(format, args...)]++ }
	switch kind := m.GetKind().(type) {
	case *demandpb.ShardMessage_Ack:
		note("ack %s", strings.TrimPrefix(kind.Ack.GetKind().String(), "KIND_"))
	case *demandpb.ShardMessage_BootstrapRequest:
		note("bootstrap_request")
	case *demandpb.ShardMessage_ReclaimInstruction:
		if kind.ReclaimInstruction.GetCancel() {
			note("reclaim_instruction cancel")
			return
		}
		note("reclaim_instruction")
	case *demandpb.ShardMessage_NodeStateUpdate:
		if kind.NodeStateUpdate.GetSnapshotId() != 0 {
			note("node_state_update of a snapshot")
			return
		}
		note("node_state_update %s", strings.TrimPrefix(kind.NodeStateUpdate.GetState().String(), "MACHINE_STATE_"))
	case *demandpb.ShardMessage_AvailableCapacity:
		if kind.AvailableCapacity.GetWithdrawn() {
			note("available_capacity withdrawn")
			return
		}
		note("available_capacity")
	}
}

// String is a table.
func (f Frames) String() string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&out, "%6d  %s\n", f[name], name)
	}
	return out.String()
}

// Seen is what an operator has seen so far.
type Seen struct {
	Frames   Frames
	Sessions int
	Ended    string // why the last session that has ended did
	// States counts the machines of the cluster by their state.
	States map[demandpb.MachineState]int
	// Failed are the machines that are of no use to the cluster, and why.
	Failed map[string]string
	Nodes  map[string]string // UID by machine
	// Joins are the UIDs of the Nodes that each machine has been, in order.
	Joins map[string][]string
	// Pods runs and pending.
	Running, Pending int
	Drains           []Drain
	// Short is how often a Node was taken away that a Pod needed.
	Short int
	Wrong []string // what must never be
}

// Drain is how one Node was drained.
type Drain struct {
	Machine string
	// Begun is how often it began: it is cordoned once.
	Begun int
	// Busy: a Pod ran there. Voluntary: for a surplus.
	Busy, Voluntary bool
	// Instructed and Condemned are who asked: the session, and the stream of instances. Acknowledged: the
	// latter was answered.
	Instructed, Condemned, Over, Acknowledged bool
}

// Seen returns what was seen.
func (o *Operator) Seen() Seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := Seen{
		Frames: maps.Clone(o.frames), Sessions: o.opened, Ended: o.ended, States: map[demandpb.MachineState]int{}, Failed: map[string]string{}, Nodes: map[string]string{}, Joins: map[string][]string{},
		Wrong: slices.Clone(o.wrong), Short: o.cluster.short,
	}
	for _, m := range o.machines {
		s.States[m.GetState()]++
		if m.GetState() == demandpb.MachineState_MACHINE_STATE_FAILED {
			s.Failed[m.GetMachineId()] = m.GetLastError()
		}
	}
	for id, n := range o.cluster.nodes {
		s.Nodes[id] = n.uid
	}
	for id, uids := range o.cluster.joins {
		s.Joins[id] = slices.Clone(uids)
	}
	for _, on := range o.cluster.pods {
		if on == "" {
			s.Pending++
		} else {
			s.Running++
		}
	}
	for _, d := range o.cluster.drains {
		s.Drains = append(s.Drains, Drain{
			Machine: d.machine, Begun: d.begun, Busy: d.busy, Voluntary: d.voluntary, Instructed: d.instruction != "", Condemned: d.condemned,
			Over: d.over, Acknowledged: d.acknowledged,
		})
	}
	slices.SortFunc(s.Drains, func(a, b Drain) int { return strings.Compare(a.Machine, b.Machine) })
	return s
}
