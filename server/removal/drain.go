package removal

import (
	"context"
	"errors"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// CondemnNamed condemns an instance that a caller named, durably. One that drains
// already is not waited for any longer if skipDrain says so.
func (r *Remover) CondemnNamed(in cache.Instance, skipDrain bool) error {
	switch {
	case in.State.Leaving() && in.Removal.Revocable():
		return r.Confirm(in.ID)
	case in.State.Leaving() && skipDrain:
		return r.endDrain(in)
	case in.State.Leaving():
		return nil
	}
	in.SkipDrain = in.SkipDrain || skipDrain
	err := r.condemnDrained(r.ctx, in, fleet.ReasonRequested, "a caller asked for it")
	row, ok := r.opts.Instances.Known(in.ID) // somebody else may have condemned it first
	switch {
	case err != nil || !ok:
		return err
	case row.Removal.Revocable():
		return r.Confirm(in.ID)
	case skipDrain:
		return r.endDrain(row)
	default:
		return nil
	}
}

// Retire condemns an instance that works, durably, with the drain of its group. One that goes already, or is not there,
// is no error.
func (r *Remover) Retire(ctx context.Context, id identity.ID, reason fleet.Reason, why string) error {
	in, ok := r.opts.Instances.Known(id)
	if !ok || in.State.Leaving() {
		return nil
	}
	return r.condemnDrained(ctx, in, reason, why)
}

// condemnDrained condemns an instance with the drain that its group has for the reason.
func (r *Remover) condemnDrained(ctx context.Context, in cache.Instance, reason fleet.Reason, why string) error {
	removal := fleet.NewRemoval(r.opts.Group(in.Group), r.opts.DrainCoordinated(in.Group.Tenant), in.Instance, reason, r.opts.Now())
	return r.Condemn(ctx, fleet.Condemn{
		ID: in.ID, Reason: removal.Reason, Drain: !removal.DeleteAt.IsZero(), DeleteAt: removal.DeleteAt, Why: why,
	})
}

// Confirm makes durable that a caller has asked for the end of an instance that is
// condemned already: no later leader takes its removal back.
//
// It writes drain_acked_at although nothing was drained: the field means "go on" here, and
// does not say that work has left the machine. See [layout.Deletion].
func (r *Remover) Confirm(id identity.ID) error {
	_, err := r.opts.Instances.Change(r.ctx, id, func(rec *layout.InstanceRecord) error {
		if d := rec.Deletion; d != nil && instances.RemovalOf(d).Revocable() {
			confirmed := *d
			confirmed.DrainAckedAt = layout.At(r.opts.Now())
			rec.Deletion = &confirmed
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil // its end is noticed like that of any other
	}
	return err
}

// ShortenDrain makes durable that a drain ends earlier than was announced, and announces it.
func (r *Remover) ShortenDrain(ctx context.Context, a fleet.ShortenDrain) error {
	earlier := func(t time.Time) bool { return !t.IsZero() && a.DeleteAt.Before(t) }
	_, err := r.opts.Instances.Change(ctx, a.ID, func(rec *layout.InstanceRecord) error {
		if d := rec.Deletion; d != nil && earlier(d.DeleteAt.Time) {
			shortened := *d
			shortened.DeleteAt = layout.At(a.DeleteAt)
			rec.Deletion = &shortened
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil
	}
	return err
}

// endDrain makes durable that the drain of a condemned instance is over, and has it
// deleted.
func (r *Remover) endDrain(in cache.Instance) error {
	if in.State == fleet.Deleting || in.Removal.Acked || in.Removal.DeleteAt.IsZero() {
		return nil
	}
	_, err := r.opts.Instances.Change(r.ctx, in.ID, func(rec *layout.InstanceRecord) error {
		if d := rec.Deletion; d != nil && d.DrainAckedAt.IsZero() {
			acked := *d
			acked.DrainAckedAt = layout.At(r.opts.Now())
			rec.Deletion = &acked
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil
	}
	return err
}
