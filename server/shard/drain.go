package shard

import (
	"context"
	"errors"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
)

// Drainers knows which tenants have somebody that moves the work off machines
// before they are deleted.
type Drainers interface {
	// Load reads what is known before anything is decided. It is called at each
	// take-over, and again until it returns nil.
	Load(ctx context.Context) error

	// Coordinated reports whether the machines of a tenant are waited for.
	Coordinated(tenant string) bool

	// Coordinate makes durable that an operator is to be waited for. Ctx is the
	// leadership.
	Coordinate(ctx context.Context, peer identity.Peer) error
}

func (r *Reign) loadDrainers(ctx context.Context) error {
	if r.opts.Drainers == nil {
		return nil
	}
	return r.opts.Drainers.Load(ctx)
}

// drains reports whether somebody moves the work off the tenant's machines.
func (r *Reign) drains(tenant string) bool {
	return r.opts.Drainers != nil && r.opts.Drainers.Coordinated(tenant)
}

// CoordinateDrains makes removals of running machines of the operator's tenant wait
// from now on until their work has been moved off, for as long as the operator is
// registered.
func (r *Reign) CoordinateDrains(peer identity.Peer) error {
	if r.opts.Drainers == nil {
		return refusal.New(refusal.Unimplemented, "NOT_OFFERED", "drains are not coordinated by this server")
	}
	err := r.opts.Drainers.Coordinate(r.ctx, peer)
	if lost(err) {
		return errReignOver
	}
	return err
}

// condemnNamed condemns an instance that a caller named, durably. One that drains
// already is not waited for any longer if skipDrain says so.
func (r *Reign) condemnNamed(in cache.Instance, skipDrain bool) error {
	switch {
	case in.State.Leaving() && in.Removal.Revocable():
		return r.confirmRemoval(in.ID)
	case in.State.Leaving() && skipDrain:
		return r.endDrain(in)
	case in.State.Leaving():
		return nil
	}
	in.SkipDrain = in.SkipDrain || skipDrain
	removal := fleet.NewRemoval(r.wanted.group(in.Group), r.drains(in.Group.Tenant), in.Instance, fleet.ReasonRequested, r.now())
	err := r.condemn(r.ctx, fleet.Condemn{
		ID: in.ID, Reason: removal.Reason, Drain: !removal.DeleteAt.IsZero(), DeleteAt: removal.DeleteAt,
		Why: "a caller asked for it",
	})
	row, ok := r.instances.Known(in.ID) // somebody else may have condemned it first
	switch {
	case err != nil || !ok:
		return err
	case row.Removal.Revocable():
		return r.confirmRemoval(in.ID)
	case skipDrain:
		return r.endDrain(row)
	default:
		return nil
	}
}

// AcknowledgeDrained notes that an instance is drained: it is deleted now, by
// whoever leads, and condemned first if nobody had decided so. An unknown one is no
// error, and a repeat changes nothing.
func (r *Reign) AcknowledgeDrained(tenant string, req *nstancev1.AcknowledgeDrainedRequest) error {
	in, err := r.owned(tenant, req.InstanceId)
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) && refused.Code == refusal.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	r.log.Info("drain acknowledged", "instance", in.ID, "state", in.State, "forced", req.Forced, "evicted", req.Evicted, "left", req.Left)
	if in.State == fleet.Deleted {
		return nil
	}
	if !in.State.Leaving() {
		r.opts.Metrics.strayAcks.Inc()
		r.log.Warn("an instance was drained that nobody had condemned; it goes", "instance", in.ID, "state", in.State)
	}
	if err := r.condemnNamed(in, true); err != nil {
		return unavailable(err)
	}
	return nil
}

// hasten makes durable that a drain ends earlier than was announced, and announces it.
func (r *Reign) hasten(ctx context.Context, a fleet.Hasten) error {
	earlier := func(t time.Time) bool { return !t.IsZero() && a.DeleteAt.Before(t) }
	_, err := r.instances.Change(ctx, a.ID, func(rec *bucket.InstanceRecord) error {
		if d := rec.Deletion; d != nil && earlier(d.DeleteAt.Time) {
			hastened := *d
			hastened.DeleteAt = bucket.At(a.DeleteAt)
			rec.Deletion = &hastened
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
func (r *Reign) endDrain(in cache.Instance) error {
	if in.State == fleet.Deleting || in.Removal.Acked || in.Removal.DeleteAt.IsZero() {
		return nil
	}
	_, err := r.instances.Change(r.ctx, in.ID, func(rec *bucket.InstanceRecord) error {
		if d := rec.Deletion; d != nil && d.DrainAckedAt.IsZero() {
			acked := *d
			acked.DrainAckedAt = bucket.At(r.now())
			rec.Deletion = &acked
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil
	}
	return err
}
