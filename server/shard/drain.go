package shard

import (
	"errors"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// CoordinateDrains makes removals of running machines of the operator's tenant wait
// from now on until their work has been moved off, for as long as the operator is
// registered.
func (r *Requests) CoordinateDrains(peer identity.Peer) error {
	if r.opts.Drainers == nil {
		return refusal.New(refusal.Unimplemented, "NOT_OFFERED", "drains are not coordinated by this server")
	}
	err := r.opts.Drainers.Coordinate(r.leadership.ctx, peer)
	if lost(err) {
		return refusal.ErrTermOver
	}
	return err
}

// Drained is an operator's word that an instance is drained.
type Drained struct {
	InstanceID string

	// For the log alone: whether the drain was cut short, and the units of work that were
	// moved away and that stayed.
	Forced        bool
	Evicted, Left int32
}

// AcknowledgeDrained notes that an instance is drained: it is deleted now, by
// whoever leads, and condemned first if nobody had decided so. An unknown one is no
// error, and a repeat changes nothing.
func (r *Requests) AcknowledgeDrained(tenant string, done Drained) error {
	in, err := r.status.FindInstance(tenant, done.InstanceID)
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) && refused.Code == refusal.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	r.opts.Log.Info("drain acknowledged", "instance", in.ID, "state", in.State, "forced", done.Forced, "evicted", done.Evicted, "left", done.Left)
	if in.State == fleet.Deleted {
		return nil
	}
	if !in.State.Leaving() {
		r.opts.Metrics.strayAcks.Inc()
		r.opts.Log.Warn("drain acknowledged for an instance that was not marked for deletion; deleting it, as its Node is drained", "instance", in.ID, "state", in.State)
	}
	if err := r.removals.CondemnNamed(in, true); err != nil {
		return unavailable(err)
	}
	return nil
}
