package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/rollout"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
)

// Holds puts the instances of machines on hold at their shards. [holds.Holds] does.
type Holds interface {
	Set(ctx context.Context, m *hostsv1.HostMachine, reason string, until time.Time) (time.Time, error)
	Clear(ctx context.Context, m *hostsv1.HostMachine, reason string) error
}

const (
	// holdFor is how much longer than its drain may take a machine is on hold: then its Node is deleted, and
	// building it has a hold of its own.
	holdFor = 5 * time.Minute
	// holdAgain is how long what a shard says of holds may be late.
	holdAgain = 30 * time.Second
)

// errNotNow says that a shard does not let a machine be begun now.
var errNotNow = errors.New("the shard does not let it be begun now")

// hold tells the shard of a machine that its node machine is about to be built again, so that no other instance of
// its group is replaced in the shard's own time (M70). The shard refuses while one is. One that knows no such hold
// lets every machine be begun.
func (r *Reconciler) hold(ctx context.Context, w *work, m *hostsv1.HostMachine, begun *hostsv1.MachineRollout) error {
	until := r.opts.Now().Add(holdFor)
	if begun.Until != nil {
		until = begun.Until.Add(holdFor)
	}
	_, err := r.opts.Holds.Set(ctx, m, hostsv1.HoldRollout, until)
	switch reason := shards.ReasonOf(err); {
	case err == nil:
		w.held[m.Name] = r.opts.Now()
		r.opts.Log.InfoContext(ctx, "instance on hold", "machine", m.Name, "until", until, "reason", hostsv1.HoldRollout)
		return nil
	case reason == "INVALID_HOLD", shards.ClassOf(err) == shards.Unimplemented:
		r.opts.Log.DebugContext(ctx, "shard knows no holds of rollouts", "machine", m.Name, "error", err)
		return nil
	case shards.ClassOf(err) == shards.Precondition:
		return fmt.Errorf("begin HostMachine %s: %w: %w", m.Name, errNotNow, err)
	default:
		return fmt.Errorf("put HostMachine %s on hold: %w", m.Name, err)
	}
}

// keepOnHold puts the instances on hold again whose Nodes are drained and that a shard says are not: an operation
// took their place.
func (r *Reconciler) keepOnHold(ctx context.Context, s *seen, w *work) {
	for i := range s.list {
		m := &s.list[i]
		of := m.Status.Rollout
		if own, is := w.wrote[m.Name]; is {
			of = own.rollout
		}
		if of == nil || of.Stage != hostsv1.RolloutDraining || string(of.Name) != s.configuration.Name || !r.nodeThere(s, m.Name, of) || m.Spec.Instance == nil {
			delete(w.held, m.Name)
			continue
		}
		if r.opts.Now().Sub(w.held[m.Name]) < holdAgain || r.onHold(m) {
			continue
		}
		if err := r.hold(ctx, w, m, of); err != nil {
			r.opts.Log.WarnContext(ctx, "instance of a machine that is drained is not on hold", "machine", m.Name, "error", err)
		}
		w.held[m.Name] = r.opts.Now() // and not more often than that
	}
}

// onHold is whether the shard of a machine says that its instance is on hold, or cannot be asked.
func (r *Reconciler) onHold(m *hostsv1.HostMachine) bool {
	held := true
	r.opts.Inventory.Read(string(m.Spec.Instance.Shard), func(all *inventory.Shard) {
		in := all.Instance(string(m.Spec.Instance.ID))
		held = !all.State().Synced() || in == nil || !inventory.HeldUntil(in, r.opts.Now()).IsZero()
	})
	return held
}

// unhold ends the hold of a machine that is left as it was. It would end by itself.
func (r *Reconciler) unhold(ctx context.Context, w *work, m *hostsv1.HostMachine, step rollout.Step) {
	if step.Action != rollout.Skip && step.Action != rollout.Abandon || m.Spec.Instance == nil {
		return
	}
	delete(w.held, m.Name)
	if err := r.opts.Holds.Clear(ctx, m, hostsv1.HoldRollout); err != nil {
		r.opts.Log.WarnContext(ctx, "hold of a machine that is left as it was is not ended", "machine", m.Name, "error", err)
	}
}
