package shard

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/retry"
)

// The pace of a removal: delete calls that fail are repeated, an accepted one
// is followed until the VM is gone, and given again if that takes too long.
const (
	firstDeleteRetry   = 2 * time.Second
	longestDeleteRetry = time.Minute
	firstGoneCheck     = 50 * time.Millisecond
	longestGoneCheck   = 10 * time.Second
	stuckAfter         = 10 * time.Minute
)

// condemn makes the decision to remove an instance durable. This leader does not return
// from it, and the next one resumes it, unless it may take the removal back: see
// [Reign.reconsider].
func (r *Reign) condemn(ctx context.Context, a fleet.Condemn) error {
	now := r.now()
	row, ok := r.instances.Known(a.ID)
	if !ok {
		return nil
	}
	if a.Reason == fleet.ReasonGroupDeleted && r.health.heardOf([]fleet.Instance{row.Instance})[0].MayRun() {
		// Groups are planned at the same time: the plan has looked at the bound, and
		// this keeps it (S8).
		if !r.deletions.take(r.deletionBound(), now) {
			if r.instances.Unconfirmed(a.ID) != nil {
				return errNoRoom // the plan has to repeat it, also where it does not look at the bound
			}
			return nil
		}
		defer func() { r.deletions.ended(now, r.now()) }()
	}
	_, err := r.instances.Change(ctx, a.ID, func(rec *bucket.InstanceRecord) error {
		if rec.Deletion == nil && a.Reason.NeverJoined() && !rec.RegisteredAt.IsZero() {
			return errJoined
		}
		if rec.Deletion == nil && a.Reason == fleet.ReasonScaleDown && r.now().Sub(now) > oldDecision && !r.chosen(row.Group, a.ID) {
			return errNeeded
		}
		if rec.Deletion == nil {
			rec.Status = bucket.StatusDeleting
			rec.Deletion = cmp.Or(r.instances.Unconfirmed(a.ID), deletionOf(a, row.Replacement, now))
		}
		return nil
	})
	if errors.Is(err, errJoined) {
		return r.instances.Refresh(a.ID) // the answer to that write may have been lost
	}
	if errors.Is(err, errNeeded) {
		r.log.InfoContext(ctx, "condemnation dropped: the size does not ask for it any more", "instance", a.ID,
			"tenant", row.Group.Tenant, "group", row.Group.Name, "decided_ago", r.now().Sub(now))
		return nil
	}
	if errors.Is(err, objectstore.ErrNotFound) {
		if _, recorded := r.instances.Record(a.ID); recorded {
			r.instances.Lose(a.ID)
			return nil
		}
		return err // who removed it is about to end the instance; not to be asked at once again
	}
	if err != nil {
		r.queue.AddAfter(row.Group, storeRetry) // it may be condemned, and then is to go
		return err
	}
	return nil
}

// oldDecision is how long a condemnation by a size may wait for the writes of the record
// that came before it. Then the group is planned again: it may have lost others meanwhile,
// or have grown (S6).
const oldDecision = time.Second

// errNoRoom says that as many instances of deleted groups go as may in a minute.
var errNoRoom = errors.New("as many deletes as the shard allows in a minute are under way")

// errNeeded says that an instance which was too many is not any more.
var errNeeded = errors.New("the group needs it again")

// chosen reports whether a plan made now condemns an instance for the size of its group,
// beside the others that are to end already.
func (r *Reign) chosen(group fleet.GroupID, id identity.ID) bool {
	view := r.view(group, r.now())
	for i := range view.Instances {
		if in := &view.Instances[i]; in.ID == id {
			in.Condemning, in.Writing = "", false
		}
	}
	return slices.ContainsFunc(fleet.Plan(view, r.now()).Actions, func(action fleet.Action) bool {
		a, condemns := action.(fleet.Condemn)
		return condemns && a.ID == id && a.Reason == fleet.ReasonScaleDown
	})
}

// errJoined says that an agent registered while its instance was about to be
// condemned for not doing so.
var errJoined = errors.New("its agent has registered meanwhile")

// startDelete begins the deletion of a condemned instance's VM in the background.
func (r *Reign) startDelete(_ context.Context, a fleet.Delete) error {
	started := false
	_, err := r.instances.Note(a.ID, func(in *cache.Instance) error {
		if in.State == fleet.Deleting {
			return nil
		}
		state, err := in.State.On(fleet.EventDeleteSent)
		if err != nil {
			return err
		}
		in.State, started = state, true
		return nil
	})
	if err != nil || !started {
		return ignoreUnknown(err)
	}
	r.tasks.Go(func() { r.remove(r.ctx, a.ID) })
	return nil
}

// remove deletes the VM of one instance, waits until it is gone and ends the
// record. It stops, leaving the rest to the next leader, when ctx ends.
func (r *Reign) remove(ctx context.Context, id identity.ID) {
	r.leaveBalancers(ctx, id, time.Second) // the removal is announced first
	r.events.instance(r.cache, id, "deleting")
	for {
		if err := r.creator.wait(ctx, id); err != nil {
			return
		}
		if err := r.deleteVM(ctx, id); err != nil {
			return
		}
		gone, err := r.awaitGone(ctx, id)
		if err != nil {
			return
		}
		if gone {
			break
		}
		r.reportByID(id, driver.Transient, errors.New("the provider accepted the delete and the VM is still there; asking again"))
	}
	r.finish(ctx, id)
}

// deleteVM repeats the delete call until the provider accepts it.
func (r *Reign) deleteVM(ctx context.Context, id identity.ID) error {
	for wait := firstDeleteRetry; ; wait = min(2*wait, longestDeleteRetry) {
		row, _ := r.cache.Instance(id)
		if err := r.admitDelete(ctx, row.Group); err != nil {
			return err
		}
		row, _ = r.cache.Instance(id) // its VM may be known by now
		started := r.now()
		err := r.provider.Delete(ctx, row.Group, refOf(row))
		if err == nil {
			r.opts.Metrics.deleted(r.now().Sub(started))
			return nil
		}
		if r.stumble(err) || ctx.Err() != nil {
			return err
		}
		r.reportByID(id, driver.KindOf(err), err)
		if err := retry.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// awaitGone asks for the VM until the provider says that it is gone, or a listing
// has shown so. False means that it has taken too long.
func (r *Reign) awaitGone(ctx context.Context, id identity.ID) (bool, error) {
	r.awaiting.Add(1)
	defer r.awaiting.Add(-1)
	deadline, asked := r.now().Add(stuckAfter), time.Time{}
	for wait := firstGoneCheck; r.now().Before(deadline); wait = min(wait*3/2, longestGoneCheck) {
		row, _ := r.cache.Instance(id)
		if row.Power == fleet.Gone {
			return true, nil
		}
		if pace := r.gonePace(); r.now().Sub(asked) >= pace {
			asked = r.now()
			if gone, err := r.isGone(ctx, row); gone || err != nil {
				return gone, err
			}
		} else if pace > longestGoneCheck {
			r.collector.soon() // one listing answers for all
		}
		if err := retry.Wait(ctx, wait); err != nil {
			return false, err
		}
	}
	return false, nil
}

// gonePace is how long one removal waits at least between two questions, so that all
// of them together take no more than half of what the provider lets us read (S21): the
// other half is for machines that fall ill.
func (r *Reign) gonePace() time.Duration {
	return time.Duration(2 * float64(r.awaiting.Load()) / r.provider.ReadsPerSecond() * float64(time.Second))
}

// isGone asks the provider once.
func (r *Reign) isGone(ctx context.Context, row cache.Instance) (bool, error) {
	m, err := r.provider.Get(ctx, refOf(row))
	switch {
	case err == nil:
		return m.Status == driver.Deleted, nil
	case driver.IsNotFound(err):
		return r.provesAbsence(row), nil
	case r.stumble(err):
		return false, err
	default:
		return false, nil // it is asked again
	}
}

// provesAbsence reports whether "not found" can be believed: the provider has
// shown the VM before, or would by now.
func (r *Reign) provesAbsence(row cache.Instance) bool {
	return !row.ProviderSeenAt.IsZero() || r.now().Sub(row.Created) >= r.opts.Driver.Lag()
}

// finish ends an instance whose VM is confirmed gone. Its record stays as a
// tombstone for as long as the provider may still bring the VM up again, and says
// so: the next leader must not tell anybody of the instance again (S17).
func (r *Reign) finish(ctx context.Context, id identity.ID) {
	keep := r.tombstoneTime()
	if keep > 0 {
		if !r.repeat(ctx, id, "mark the record of a deleted instance", func() error { return r.entomb(ctx, id) }) {
			return
		}
		r.instances.End(id, fleet.EventGone) // also where somebody has removed its record
	}
	r.bury(ctx, id, keep)
}

// tombstoneTime is how long a record outlives its VM.
func (r *Reign) tombstoneTime() time.Duration { return 10 * r.opts.Driver.Lag() }

// entomb notes in the record of an instance that its VM is gone.
func (r *Reign) entomb(ctx context.Context, id identity.ID) error {
	if err := r.instances.HandOn(ctx, id); err != nil {
		return err
	}
	_, err := r.instances.Change(ctx, id, func(rec *bucket.InstanceRecord) error {
		if rec.Deletion != nil {
			ended := *rec.Deletion
			ended.GoneAt = bucket.At(r.now())
			rec.Deletion = &ended
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil
	}
	return err
}

// bury removes the record of an ended instance after a while.
func (r *Reign) bury(ctx context.Context, id identity.ID, after time.Duration) {
	if retry.Wait(ctx, after) != nil {
		return
	}
	removed := r.repeat(ctx, id, "remove the record of a deleted instance", func() error {
		if err := r.instances.HandOn(ctx, id); err != nil {
			return err
		}
		return r.instances.Remove(ctx, id)
	})
	if removed {
		r.instances.End(id, fleet.EventGone)
	}
}

// repeat makes a write about an instance until it succeeds, and reports whether it
// did before the end of ctx or of the reign.
func (r *Reign) repeat(ctx context.Context, id identity.ID, what string, write func() error) bool {
	for wait := storeRetry; ; wait = min(2*wait, longestDeleteRetry) {
		err := write()
		switch {
		case err == nil:
			return true
		case r.stumble(err), ctx.Err() != nil:
			return false
		}
		r.log.WarnContext(ctx, "write will be repeated", "write", what, "instance", id, "retry_in", wait, "error", err)
		if retry.Wait(ctx, wait) != nil {
			return false
		}
	}
}

// reportByID tells the tenant and the log about a delete that failed.
func (r *Reign) reportByID(id identity.ID, kind driver.Kind, err error) {
	row, _ := r.cache.Instance(id)
	r.logTrouble(row.Group, id, kind, err)
	r.events.failure(r.cache, row.Group, id, string(kind), err.Error(), r.now())
}

func ignoreUnknown(err error) error {
	if errors.Is(err, cache.ErrUnknown) {
		return nil
	}
	return err
}
