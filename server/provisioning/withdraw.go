package provisioning

import (
	"context"
	"errors"
	"time"

	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/retry"
)

// withdraw takes the record of an instance back, for there certainly is no machine.
func (l *Launcher) withdraw(ctx context.Context, it *attempt) {
	l.opts.Instances.PendingRemovals.Begin(it.group, it.ID, fleet.ReasonAbandoned)
	defer l.opts.Instances.PendingRemovals.Done(it.group, it.ID)
	if err := l.opts.Instances.Withdraw(ctx, it.ID); err != nil {
		if errors.Is(err, instances.ErrCondemned) {
			return // whoever deletes it ends it
		}
		// The record stays and is found abandoned later: a delete, not a leak.
		l.opts.Over(err)
		l.opts.Log.WarnContext(ctx, "create failed, and its record could not be removed: the instance is removed when it is found unhealthy", "instance", it.ID, "error", err)
		return
	}
	l.opts.Instances.End(it.ID, fleet.EventCreateRefused)
}

// abandon has an instance deleted like any other, with its record until the end: there may
// be a machine.
func (l *Launcher) abandon(ctx context.Context, it *attempt, why string) {
	err := l.opts.Condemn(ctx, fleet.Condemn{ID: it.ID, Reason: fleet.ReasonAbandoned, Why: why})
	if err != nil && !l.opts.Over(err) {
		l.opts.Log.WarnContext(ctx, "create failed, and its instance could not be marked for deletion: that is done when it is found unhealthy", "instance", it.ID, "error", err)
	}
}

const (
	// lateWrites is how long a write may still take effect whose answer was lost.
	lateWrites = time.Minute

	// The pauses before such a record is written again.
	firstUnrecordRetry   = time.Second
	longestUnrecordRetry = time.Minute
)

// unrecord makes sure that a record does not stand whose write had an unknown
// outcome. It is written again, for while it stands no late write can bring it
// back, and removed when none is to be expected any more. An audit may have taken it
// in meanwhile: that instance ends with it, for nobody was asked for its machine.
func (l *Launcher) unrecord(ctx context.Context, rec layout.InstanceRecord) {
	for wait := firstUnrecordRetry; retry.Wait(ctx, wait) == nil; wait = min(2*wait, longestUnrecordRetry) {
		err := l.opts.Instances.Write(ctx, rec)
		if err == nil {
			if retry.Wait(ctx, lateWrites) != nil {
				return
			}
			err = l.opts.Instances.Remove(ctx, rec.ID)
		}
		switch {
		case err == nil:
			l.opts.Instances.End(rec.ID, fleet.EventCreateRefused)
			l.opts.Wake(instances.GroupOf(rec)) // also where nobody had taken it in
			return
		case l.opts.Over(err), errors.Is(err, objectstore.ErrPrecondition):
			return
		}
		l.opts.Log.WarnContext(ctx, "create failed, and its record could not be removed: tried again", "instance", rec.ID, "retry_in", wait, "error", err)
	}
}
