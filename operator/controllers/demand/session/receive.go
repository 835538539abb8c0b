package session

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// lasting is after how many failures in a row a write is logged as a warning, once: many
// machines fail together when the API server is away.
const lasting = 3

// receive routes a message of the shard, and waits for nothing.
func (c *session) receive(ctx context.Context, m *demandpb.ShardMessage) {
	switch kind := m.GetKind().(type) {
	case *demandpb.ShardMessage_Ack:
		c.acknowledged(ctx, kind.Ack)
	case *demandpb.ShardMessage_BootstrapRequest:
		c.bootstrap(ctx, kind.BootstrapRequest)
	case *demandpb.ShardMessage_ReclaimInstruction:
		c.reclaim(kind.ReclaimInstruction)
	case *demandpb.ShardMessage_NodeStateUpdate:
		c.state(ctx, kind.NodeStateUpdate)
	case *demandpb.ShardMessage_AvailableCapacity:
		c.capacity(ctx, kind.AvailableCapacity)
	}
}

// acknowledged takes what the shard says of a roll-up. That it has an answer is not of interest.
func (c *session) acknowledged(ctx context.Context, a *demandpb.Acknowledgement) {
	answer := Answer{Sequence: a.GetRollupSequence(), Detail: a.GetDetail()}
	switch a.GetKind() {
	case demandpb.Acknowledgement_KIND_ROLLUP_ACCEPTED:
		c.log.DebugContext(ctx, "roll-up accepted", "sequence", answer.Sequence)
	case demandpb.Acknowledgement_KIND_ROLLUP_HELD:
		answer.Held = true
		c.log.InfoContext(ctx, "roll-up held: the shard waits until it is repeated", "sequence", answer.Sequence, "detail", answer.Detail)
	case demandpb.Acknowledgement_KIND_ROLLUP_REJECTED:
		answer.Rejected = true
		c.log.ErrorContext(ctx, "roll-up rejected; the one before stays in force", "sequence", answer.Sequence, "detail", answer.Detail)
		c.mu.Lock()
		c.forget = max(c.forget, answer.Sequence)
		c.mu.Unlock()
	default:
		return
	}
	if heard := c.link.opts.Handlers.Rollup; heard != nil {
		heard(c.link.name, answer)
	}
}

// blobCarries is the room that is left for what carries bootstrap data.
const blobCarries = 1024

// bootstrap answers a request beside everything else, because the shard waits for it. More of
// them at once than answers fit into the queue are dropped; the shard asks again.
func (c *session) bootstrap(ctx context.Context, r *demandpb.BootstrapRequest) {
	c.mu.Lock()
	room := c.bootstraps < c.link.opts.Outbox
	if room {
		c.bootstraps++
	}
	c.mu.Unlock()
	if !room {
		c.link.opts.Observer.dropped(c.link.name, KindBootstrap)
		return
	}
	c.task(func() {
		began := c.link.opts.Now()
		blob := &demandpb.BootstrapBlobResponse{RequestId: r.GetRequestId(), Error: "the operator has no bootstrap template"}
		if answer := c.link.opts.Handlers.Bootstrap; answer != nil {
			blob = answer(ctx, c.link.name, r)
		}
		if bytes := len(blob.GetUserData()); bytes+blobCarries > c.link.opts.MaxMessage {
			blob = &demandpb.BootstrapBlobResponse{RequestId: r.GetRequestId(), Error: fmt.Sprintf(
				"what the bootstrap template makes has %d bytes, and no message may have more than %d (--demand-max-message)", bytes, c.link.opts.MaxMessage)}
		}
		c.mu.Lock()
		c.bootstraps--
		c.mu.Unlock()
		var err error
		if text := blob.GetError(); text != "" {
			err = fmt.Errorf("bootstrap data of %s: %s", r.GetMachineId(), text)
		}
		c.link.opts.Observer.handled(c.link.name, KindBootstrap, "", c.link.opts.Now().Sub(began), err)
		if blob != nil {
			c.answer(KindBootstrap, &message{Kind: &demandpb.OperatorMessage_BootstrapResponse{BootstrapResponse: blob}})
		}
	})
}

// state takes in the state of a machine.
func (c *session) state(ctx context.Context, u *demandpb.NodeStateUpdate) {
	if _, known := demandpb.MachineState_name[int32(u.GetState())]; !known || u.GetState() == 0 || u.GetMachineId() == "" {
		c.link.opts.Observer.dropped(c.link.name, KindState)
		c.log.WarnContext(ctx, "state of a machine dropped: not a known one", "machine", u.GetMachineId(), "state", int32(u.GetState()))
		return
	}
	c.mu.Lock()
	start := c.states.Arrived(u)
	c.mu.Unlock()
	if start {
		c.later(ctx, 0, func(failures int) { c.writeState(ctx, u.GetMachineId(), failures) })
	}
	c.resync(ctx) // it may be the last one of the snapshot, and written already
}

// writeState writes the newest state of a machine, and begins again while there is one.
func (c *session) writeState(ctx context.Context, id string, failures int) {
	c.mu.Lock()
	u := c.states.Next(id)
	c.mu.Unlock()
	if u == nil {
		return
	}
	var err error
	if write := c.link.opts.Handlers.NodeState; write != nil {
		began := c.link.opts.Now()
		err = write(ctx, c.link.name, u)
		c.link.opts.Observer.handled(c.link.name, KindState, u.GetState().String(), c.link.opts.Now().Sub(began), err)
	}
	c.mu.Lock()
	c.states.Written(u, err == nil)
	c.mu.Unlock()
	c.again(ctx, err, failures, KindState, id, func(failures int) { c.writeState(ctx, id, failures) })
	c.resync(ctx)
}

// capacity takes in what the shard could give for a profile.
func (c *session) capacity(ctx context.Context, u *demandpb.AvailableCapacityUpdate) {
	if c.link.opts.Handlers.Capacity == nil || u.GetFingerprint() == "" {
		return
	}
	c.mu.Lock()
	start := c.capacities.arrived(u.GetFingerprint(), u)
	c.mu.Unlock()
	if start {
		c.later(ctx, 0, func(failures int) { c.writeCapacity(ctx, u.GetFingerprint(), failures) })
	}
}

func (c *session) writeCapacity(ctx context.Context, fingerprint string, failures int) {
	c.mu.Lock()
	u, ok := c.capacities.next(fingerprint)
	c.mu.Unlock()
	if !ok {
		return
	}
	began := c.link.opts.Now()
	err := c.link.opts.Handlers.Capacity(ctx, c.link.name, u)
	c.link.opts.Observer.handled(c.link.name, KindCapacity, "", c.link.opts.Now().Sub(began), err)
	if err != nil {
		c.mu.Lock()
		c.capacities.failed(fingerprint, u)
		c.mu.Unlock()
	}
	c.again(ctx, err, failures, KindCapacity, fingerprint, func(failures int) { c.writeCapacity(ctx, fingerprint, failures) })
}

// resync says that the snapshot was taken in, once it was.
func (c *session) resync(ctx context.Context) {
	c.mu.Lock()
	whole := !c.whole && c.states.Whole()
	c.whole = c.whole || whole
	c.mu.Unlock()
	if !whole {
		return
	}
	c.log.DebugContext(ctx, "snapshot complete", "machines", len(c.spoken()))
	if c.link.opts.Handlers.SnapshotComplete != nil {
		c.later(ctx, 0, func(failures int) { c.completeSnapshot(ctx, failures) })
	}
	if resynced := c.link.opts.Handlers.Resynced; resynced != nil {
		resynced(c.link.name)
	}
}

// spoken are the machines that the session has spoken of.
func (c *session) spoken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states.Spoken()
}

func (c *session) completeSnapshot(ctx context.Context, failures int) {
	began := c.link.opts.Now()
	err := c.link.opts.Handlers.SnapshotComplete(ctx, c.link.name, c.spoken)
	c.link.opts.Observer.handled(c.link.name, KindSnapshot, "", c.link.opts.Now().Sub(began), err)
	if err != nil {
		c.again(ctx, err, failures, KindSnapshot, "", func(failures int) { c.completeSnapshot(ctx, failures) })
		return
	}
	c.mu.Lock()
	c.states.Compared()
	c.mu.Unlock()
}

// later has a handler called as soon as there is room for it, unless the session is over by
// then. The session's end waits for a handler that runs.
func (c *session) later(ctx context.Context, failures int, handle func(failures int)) {
	c.link.pool.do(false, func() {
		if c.enter() {
			defer c.tasks.Done()
			if ctx.Err() == nil {
				handle(failures)
			}
		}
	})
}

// enter counts a handler in; false: the session is over.
func (c *session) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.tasks.Add(1)
	}
	return !c.ended
}

// again has a handler called again: at once if it succeeded, for there may be something newer,
// and after a pause if not.
func (c *session) again(ctx context.Context, err error, failures int, kind, about string, handle func(failures int)) {
	switch {
	case err == nil:
		c.later(ctx, 0, handle)
	case ctx.Err() == nil:
		failures++
		pause := c.link.opts.Backoff.pause(failures, c.link.opts.Random())
		level := slog.LevelDebug
		if failures == lasting {
			level = slog.LevelWarn
		}
		c.log.Log(ctx, level, "message of the shard not written", "message", kind, "object", about, "failures", failures, "error", err, "retry_in", pause.String())
		time.AfterFunc(pause, func() { c.later(ctx, failures, handle) })
	}
}
