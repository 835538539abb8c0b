package removal

import (
	"context"
	"errors"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
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

	// storeRetry is the pause after a write that was refused; it has been retried with jitter
	// before.
	storeRetry = time.Second
)

// Delete begins the deletion of a condemned instance's VM in the background.
func (r *Remover) Delete(a fleet.Delete) error {
	started := false
	_, err := r.opts.Instances.Note(a.ID, func(in *cache.Instance) error {
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
	r.opts.Go(func() { r.remove(r.ctx, a.ID) })
	return nil
}

// remove deletes the VM of one instance, waits until it is gone and ends the
// record. It stops, leaving the rest to the next leader, when ctx ends.
func (r *Remover) remove(ctx context.Context, id identity.ID) {
	r.leaveBalancers(ctx, id, time.Second) // the removal is announced first
	r.opts.Announce(id, "deleting")
	for {
		if err := r.opts.WaitForCreate(ctx, id); err != nil {
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
func (r *Remover) deleteVM(ctx context.Context, id identity.ID) error {
	for wait := firstDeleteRetry; ; wait = min(2*wait, longestDeleteRetry) {
		row, _ := r.opts.Cache.Instance(id)
		if err := r.admit(ctx, row.Group); err != nil {
			return err
		}
		row, _ = r.opts.Cache.Instance(id) // its VM may be known by now
		started := r.opts.Now()
		err := r.opts.Provider.Delete(ctx, row.Group, refOf(row))
		if err == nil {
			r.opts.Deleted(r.opts.Now().Sub(started))
			return nil
		}
		if r.opts.Over(err) || ctx.Err() != nil {
			return err
		}
		r.reportByID(id, driver.ClassOf(err), err)
		if err := retry.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// awaitGone asks for the VM until the provider says that it is gone, or a listing
// has shown so. False means that it has taken too long.
func (r *Remover) awaitGone(ctx context.Context, id identity.ID) (bool, error) {
	r.awaiting.Add(1)
	defer r.awaiting.Add(-1)
	deadline, asked := r.opts.Now().Add(stuckAfter), time.Time{}
	for wait := firstGoneCheck; r.opts.Now().Before(deadline); wait = min(wait*3/2, longestGoneCheck) {
		row, _ := r.opts.Cache.Instance(id)
		if row.Power == fleet.Gone {
			return true, nil
		}
		if pace := r.gonePace(); r.opts.Now().Sub(asked) >= pace {
			asked = r.opts.Now()
			if gone, err := r.isGone(ctx, row); gone || err != nil {
				return gone, err
			}
		} else if pace > longestGoneCheck {
			r.opts.List() // one listing answers for all
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
func (r *Remover) gonePace() time.Duration {
	return time.Duration(2 * float64(r.awaiting.Load()) / r.opts.Provider.ReadsPerSecond() * float64(time.Second))
}

// isGone asks the provider once.
func (r *Remover) isGone(ctx context.Context, row cache.Instance) (bool, error) {
	m, err := r.opts.Provider.Get(ctx, refOf(row))
	switch {
	case err == nil:
		return m.Status == driver.Deleted, nil
	case driver.IsNotFound(err):
		return r.provesAbsence(row), nil
	case r.opts.Over(err):
		return false, err
	default:
		return false, nil // it is asked again
	}
}

// provesAbsence reports whether "not found" can be believed: the provider has
// shown the VM before, or would by now.
func (r *Remover) provesAbsence(row cache.Instance) bool {
	return !row.ProviderSeenAt.IsZero() || r.opts.Now().Sub(row.Created) >= r.opts.Lag()
}

// finish ends an instance whose VM is confirmed gone. Its record stays as a tombstone for
// as long as anybody may bring the instance up again, and says so: the next leader must not
// tell of the instance again (S17), nor make it again (S18).
func (r *Remover) finish(ctx context.Context, id identity.ID) {
	row, _ := r.opts.Cache.Instance(id)
	keep := r.tombstoneTime(row)
	if keep > 0 {
		if !r.repeat(ctx, id, "mark the record of a deleted instance", func() error { return r.writeTombstone(ctx, id) }) {
			return
		}
		r.opts.Instances.End(id, fleet.EventGone) // also where somebody has removed its record
	}
	r.deleteRecordAfter(ctx, id, keep)
}

// tombstoneTime is how long a record outlives its VM: as long as the provider may still
// bring that up again. The id of an instance on demand may be its caller's own, who repeats a
// call whose answer was lost; it is known for as long as a deleted instance is.
func (r *Remover) tombstoneTime(in cache.Instance) time.Duration {
	keep := 10 * r.opts.Lag()
	if in.OnDemand {
		keep = max(keep, min(r.opts.Groups.Config().Server.GarbageCollection.DeletedRecordRetention.Std(), fleet.LongestIDAge))
	}
	return keep
}

// writeTombstone notes in the record of an instance that its VM is gone.
func (r *Remover) writeTombstone(ctx context.Context, id identity.ID) error {
	if err := r.opts.Instances.PassOnReplacement(ctx, id); err != nil {
		return err
	}
	_, err := r.opts.Instances.Change(ctx, id, func(rec *layout.InstanceRecord) error {
		if rec.Deletion != nil {
			ended := *rec.Deletion
			ended.GoneAt = layout.At(r.opts.Now())
			rec.Deletion = &ended
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil
	}
	return err
}

// DeleteRecordLater removes the record of an instance that a former leader has marked as ended, when its
// time is over.
func (r *Remover) DeleteRecordLater(in cache.Instance) {
	r.opts.Go(func() { r.deleteRecordAfter(r.ctx, in.ID, in.DeletedAt.Add(r.tombstoneTime(in)).Sub(r.opts.Now())) })
}

// deleteRecordAfter removes the record of an ended instance after a while.
func (r *Remover) deleteRecordAfter(ctx context.Context, id identity.ID, after time.Duration) {
	if retry.Wait(ctx, after) != nil {
		return
	}
	removed := r.repeat(ctx, id, "remove the record of a deleted instance", func() error {
		if err := r.opts.Instances.PassOnReplacement(ctx, id); err != nil {
			return err
		}
		if r.opts.BeforeRecord != nil {
			if err := r.opts.BeforeRecord(ctx, id); err != nil {
				return err
			}
		}
		return r.opts.Instances.Remove(ctx, id)
	})
	if removed {
		r.opts.Instances.End(id, fleet.EventGone)
	}
}

// repeat makes a write about an instance until it succeeds, and reports whether it
// did before the end of ctx or of the term.
func (r *Remover) repeat(ctx context.Context, id identity.ID, what string, write func() error) bool {
	for wait := storeRetry; ; wait = min(2*wait, longestDeleteRetry) {
		err := write()
		switch {
		case err == nil:
			return true
		case r.opts.Over(err), ctx.Err() != nil:
			return false
		}
		r.opts.Log.WarnContext(ctx, "write will be repeated", "write", what, "instance", id, "retry_in", wait, "error", err)
		if retry.Wait(ctx, wait) != nil {
			return false
		}
	}
}

// reportByID tells the tenant and the log about a delete that failed.
func (r *Remover) reportByID(id identity.ID, kind driver.ErrorClass, err error) {
	row, _ := r.opts.Cache.Instance(id)
	r.opts.Log.Warn("delete failed", "tenant", row.Group.Tenant, "group", row.Group.Name, "instance", id, "class", kind, "error", err)
	r.opts.Failed(row.Group, id, string(kind), err.Error())
}

func ignoreUnknown(err error) error {
	if errors.Is(err, cache.ErrUnknown) {
		return nil
	}
	return err
}
