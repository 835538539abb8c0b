package session

import (
	"context"
	"time"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// Handlers are what becomes of the messages of shards. Nil ones are left out.
type Handlers struct {
	// Bootstrap answers what makes a machine join the cluster. It must not wait for an API
	// server: the shard waits for the answer. Nil: each request is answered with an error.
	Bootstrap func(ctx context.Context, shard string, r *demandpb.BootstrapRequest) *demandpb.BootstrapBlobResponse
	// Reclaim cordons Nodes and begins to drain them, or cancels that, and answers what was
	// begun and refused. The instruction always names a grace. Nil as an answer: it says nothing, and the shard asks again. It returns before the
	// drain has ended. The context lasts as long as the operator leads.
	Reclaim func(ctx context.Context, shard string, r *demandpb.ReclaimInstruction) *demandpb.ReclaimAck
	// NodeState writes down the state of a machine. After an error it is called again, with
	// the newest state, after a pause.
	NodeState func(ctx context.Context, shard string, u *demandpb.NodeStateUpdate) error
	// SnapshotComplete hears once in a session that NodeState has taken all machines that the
	// shard has for this cluster. What was known of others before spoken is called is no longer
	// so: it returns the machines, sorted, that the session has spoken of by then, and so those
	// too that came meanwhile. After an error it is called again after a pause.
	SnapshotComplete func(ctx context.Context, shard string, spoken func() []string) error
	// Capacity hears what the shard could give for a profile. After an error it is called
	// again, with the newest update, after a pause.
	Capacity func(ctx context.Context, shard string, u *demandpb.AvailableCapacityUpdate) error
	// Resynced hears that the snapshot of a session came whole: now the shard has to hear of
	// all Nodes of its machines. It must not wait.
	Resynced func(shard string)
	// Opened and Closed hear that a session stands, and that it has ended: roll-ups are sent in
	// between. They must not wait.
	Opened func(shard string)
	Closed func(shard string)
	// Rollup hears what the shard says of a roll-up. It must not wait.
	Rollup func(shard string, answer Answer)
}

// Answer is what a shard says of a roll-up.
type Answer struct {
	Sequence uint64
	// Held: the shard waits until the same is said for long enough. Rejected: it keeps the
	// one before. Neither: it is in force.
	Held, Rejected bool
	Detail         string // for people
}

// Observer hears what happens, for metrics and events. Nil functions are left out.
type Observer struct {
	// Begins reports that sessions with the shard are tried from now on.
	Begins func(shard string)
	// Reconnect reports that a session ended, or did not begin, and another one is tried.
	Reconnect func(shard string)
	// Refused reports that a shard will have no session with this operator until somebody does
	// something, and why: once for each reason until a session stands.
	Refused func(ctx context.Context, shard string, why error)
	// Removed reports that no session with the shard is tried any longer.
	Removed func(shard string)
	// Dropped reports a message that was not sent or handled for want of room, by its kind.
	Dropped func(shard, kind string)
	// RollupSent reports a roll-up that was sent: its size, its rows, and whether it was a
	// reference to the one before.
	RollupSent func(shard string, bytes, rows int, reference bool)
	// Handled reports a message that was handled, by its kind and, for the state of a machine,
	// that state.
	Handled func(shard, kind, state string, took time.Duration, err error)
	// Inflight reports how many handlers have begun (1) or ended (-1).
	Inflight func(change int)
}

// Kinds of messages, as [Observer] names them.
const (
	KindBootstrap = "bootstrap_response"
	KindReclaim   = "reclaim_ack"
	KindReports   = "node_reports"
	KindState     = "node_state"
	KindCapacity  = "available_capacity"
	KindSnapshot  = "snapshot"
)

func (o Observer) begins(shard string) {
	if o.Begins != nil {
		o.Begins(shard)
	}
}

func (o Observer) reconnect(shard string) {
	if o.Reconnect != nil {
		o.Reconnect(shard)
	}
}

func (o Observer) refused(ctx context.Context, shard string, why error) {
	if o.Refused != nil {
		o.Refused(ctx, shard, why)
	}
}

func (o Observer) removed(shard string) {
	if o.Removed != nil {
		o.Removed(shard)
	}
}

func (o Observer) dropped(shard, kind string) {
	if o.Dropped != nil {
		o.Dropped(shard, kind)
	}
}

func (o Observer) rollupSent(shard string, bytes, rows int, reference bool) {
	if o.RollupSent != nil {
		o.RollupSent(shard, bytes, rows, reference)
	}
}

func (o Observer) handled(shard, kind, state string, took time.Duration, err error) {
	if o.Handled != nil {
		o.Handled(shard, kind, state, took, err)
	}
}

func (o Observer) inflight(change int) {
	if o.Inflight != nil {
		o.Inflight(change)
	}
}
