package removal

import (
	"cmp"
	"context"
	"errors"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// Condemn makes the decision to remove an instance durable. This leader does not return
// from it, and the next one resumes it, unless it may take the removal back: see
// [Remover.CancelRevocable].
func (r *Remover) Condemn(ctx context.Context, a fleet.Condemn) error {
	now := r.opts.Now()
	row, ok := r.opts.Instances.Known(a.ID)
	if !ok {
		return nil
	}
	if rec, ok := r.opts.Instances.Record(a.ID); ok && rec.Deletion != nil && !row.State.Leaving() {
		return r.opts.Instances.Refresh(a.ID) // it goes already: another's write was found by one that failed
	}
	if a.Reason == fleet.ReasonGroupDeleted && r.opts.Liveness.Heard([]fleet.Instance{row.Instance})[0].MayRun() {
		// Groups are planned at the same time: the plan has looked at the bound, and
		// this keeps it (S8).
		if !r.takeDeletion(row.Group, now) {
			if r.opts.Instances.Unconfirmed(a.ID) != nil {
				return errNoRoom // the plan has to repeat it, also where it does not look at the bound
			}
			return nil
		}
		defer func() { r.bounds.ended(row.Group, now, r.opts.Now()) }()
	}
	if a.Reason == fleet.ReasonRequested {
		r.bounds.name(row.Group, now)
	}
	_, err := r.opts.Instances.Change(ctx, a.ID, func(rec *layout.InstanceRecord) error {
		if rec.Deletion != nil {
			return nil
		}
		if err := r.kept(a, row.Group, rec, now); err != nil {
			return err
		}
		rec.Status = layout.StatusDeleting
		rec.Deletion = cmp.Or(r.opts.Instances.Unconfirmed(a.ID), deletionOf(a, row.Replacement, now))
		return nil
	})
	if errors.Is(err, errJoined) {
		return r.opts.Instances.Refresh(a.ID) // the answer to that write may have been lost
	}
	if errors.Is(err, errOnHold) {
		r.opts.Log.InfoContext(ctx, "removal dropped: the instance was put on hold meanwhile", "instance", a.ID,
			"tenant", row.Group.Tenant, "group", row.Group.Name, "reason", string(a.Reason))
		return r.opts.Instances.Refresh(a.ID)
	}
	if errors.Is(err, errRebuilt) {
		r.opts.Log.InfoContext(ctx, "removal dropped: the node machine of another instance is to be built first", "instance", a.ID,
			"tenant", row.Group.Tenant, "group", row.Group.Name, "reason", string(a.Reason))
		return r.opts.Instances.Refresh(a.ID)
	}
	if errors.Is(err, errNeeded) {
		r.opts.Log.InfoContext(ctx, "removal dropped: the group needs the instance again", "instance", a.ID,
			"tenant", row.Group.Tenant, "group", row.Group.Name, "decided_ago", r.opts.Now().Sub(now))
		return nil
	}
	if errors.Is(err, objectstore.ErrNotFound) {
		if _, recorded := r.opts.Instances.Record(a.ID); recorded {
			r.opts.Instances.Lose(a.ID)
			return nil
		}
		return err // who removed it is about to end the instance; not to be asked at once again
	}
	if err != nil {
		r.opts.Again(row.Group, storeRetry) // it may be condemned, and then is to go
		return err
	}
	return nil
}

// kept says why an instance stays, although its removal was decided at the given time: its
// record, or its group, has changed since.
func (r *Remover) kept(a fleet.Condemn, group fleet.GroupID, rec *layout.InstanceRecord, decided time.Time) error {
	now := r.opts.Now()
	switch {
	case a.Reason.NeverJoined() && !rec.RegisteredAt.IsZero():
		return errJoined
	case a.Reason == fleet.ReasonScaleDown && now.Sub(decided) > oldDecision && !r.opts.StillChosen(group, a.ID):
		return errNeeded
	case instances.HoldOf(rec.Hold).Keeps(a.Reason, rec.OnDemand, now):
		return errOnHold
	}
	if a.Reason.Waits() {
		// Who puts an instance on hold looks for removals that are decided once the hold is on record: one of
		// the two sees the other (M70).
		if _, busy := fleet.Rebuilt(r.opts.Instances.Of(group), a.ID, now); busy {
			return errRebuilt
		}
	}
	return nil
}

// deletionOf is what the record of an instance says of a decision to delete it.
func deletionOf(a fleet.Condemn, replacement identity.ID, now time.Time) *layout.Deletion {
	d := &layout.Deletion{
		Reason: string(a.Reason), RequestedAt: layout.At(now), DeleteAt: layout.At(a.DeleteAt), ReplacementID: replacement,
	}
	if a.Drain {
		d.DrainStartedAt = layout.At(now)
	}
	return d
}

// oldDecision is how long a condemnation by a size may wait for the writes of the record
// that came before it. Then the group is planned again: it may have lost others meanwhile,
// or have grown (S6).
const oldDecision = time.Second

// errNoRoom says that as many instances of deleted groups go as may in a minute.
var errNoRoom = errors.New("the limit of deletes in a minute is reached, the shard's or the group's (rails.max_delete_share)")

// errNeeded says that an instance which was too many is not any more.
var errNeeded = errors.New("the group needs it again")

// errOnHold says that an instance was put on hold while its removal was decided.
var errOnHold = errors.New("it is on hold")

// errRebuilt says that another instance of the group was put on hold to be built again.
var errRebuilt = errors.New("another one of its group is built again")

// errJoined says that an agent registered while its instance was about to be
// condemned for not doing so.
var errJoined = errors.New("its agent has registered meanwhile")
