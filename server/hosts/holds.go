package hosts

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/refusal"
)

// HoldOptions are what [Holds] work with. All are required.
type HoldOptions struct {
	Instances Changer

	// LongestOff is how long an instance may be switched off on purpose.
	LongestOff func(cache.Instance) time.Duration

	// Running returns the power operation of an instance that is not over, and its deadline;
	// empty: there is none. [Operations.Running] does.
	Running func(ctx context.Context, id identity.ID) (operation string, deadline time.Time, err error)

	// Members are the instances of a group, with the removals that are decided.
	Members func(group fleet.GroupID) []fleet.Instance

	// Unavailable is the answer to an error of storage, which it may end the term for.
	Unavailable func(error) error

	Metrics *Metrics
	Now     func() time.Time
	Log     *slog.Logger
}

// Changer makes changes of instances durable. [instances.Store] does.
type Changer interface {
	Change(ctx context.Context, id identity.ID, change func(*layout.InstanceRecord) error) (cache.Instance, error)
}

// Holds put the instances of a shard on hold, and end that. It is safe for concurrent use. A
// hold stands in the record of its instance, so it outlives the leader. What follows from it
// package fleet decides.
type Holds struct {
	opts HoldOptions
	ctx  context.Context //nolint:containedctx // the leadership's: effects end with it, not with a caller
}

// NewHolds returns the holds of one leader's term, whose effects end with ctx.
func NewHolds(ctx context.Context, opts HoldOptions) *Holds { return &Holds{opts: opts, ctx: ctx} }

// errAsBefore says that there is nothing to be written.
var errAsBefore = errors.New("the hold is as it was")

// Set puts an instance on hold, durably, and returns the hold that is in force then. Until may
// be zero: as long as possible. While a power operation of the instance runs, its hold cannot be
// made to end sooner, and while another instance of its group is replaced at a good moment none is set for a
// rollout. The instance is one of the caller's tenant.
func (h *Holds) Set(ctx context.Context, in cache.Instance, reason fleet.HoldReason, until time.Time) (fleet.Hold, error) {
	now := layout.At(h.opts.Now()).Time // as a record has it
	until = layout.At(until).Time
	longest := reason.Longest(h.opts.LongestOff(in))
	switch {
	case longest <= 0:
		return fleet.Hold{}, h.answer("set", refusal.New(refusal.InvalidArgument, "INVALID_HOLD", "reason: %q must be one of rollout, reboot, repave, power", reason))
	case !until.IsZero() && !until.After(now):
		return fleet.Hold{}, h.answer("set", refusal.New(refusal.InvalidArgument, "INVALID_HOLD", "until: %s is over; the clock of the server says %s",
			until.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339)))
	}
	operation, deadline, err := h.opts.Running(ctx, in.ID)
	if err == nil && operation != "" && !until.IsZero() && until.Before(deadline) && until.Before(in.Hold.Until) {
		err = running(in.ID, operation)
	}
	if err != nil {
		return fleet.Hold{}, h.answer("set", err)
	}
	if err := h.rotates(in, reason); err != nil {
		return fleet.Hold{}, h.answer("set", err)
	}
	wish := wish{reason: reason, until: until, longest: longest, unwell: in.Unwell(), now: now}
	var hold fleet.Hold
	_, err = h.opts.Instances.Change(h.ctx, in.ID, func(rec *layout.InstanceRecord) (err error) {
		hold, err = wish.note(rec)
		return err
	})
	switch {
	case errors.Is(err, errAsBefore):
		return hold, h.answer("set", nil)
	case err != nil:
		return fleet.Hold{}, h.answer("set", err)
	}
	if err := h.rotates(in, reason); err != nil { // a removal that was decided meanwhile, and did not see the hold
		return fleet.Hold{}, h.answer("set", errors.Join(err, h.withdraw(in, hold)))
	}
	h.opts.Log.InfoContext(ctx, "hold set", "instance", in.ID, "tenant", in.Group.Tenant, "group", in.Group.Name,
		"until", hold.Until, "since", hold.Since, "reason", string(hold.Reason))
	return hold, h.answer("set", nil)
}

// rotates says that a rollout is not to begin an instance now, as another one of its group leaves (M70).
func (h *Holds) rotates(in cache.Instance, reason fleet.HoldReason) error {
	if reason != fleet.HoldRollout {
		return nil
	}
	if other, leaves := fleet.Rotates(h.opts.Members(in.Group), in.ID); leaves {
		return refusal.New(refusal.FailedPrecondition, "GROUP_ROTATING", "instance %q of group %q is being replaced: wait until it is gone", other, in.Group.Name)
	}
	return nil
}

// withdraw takes a hold back that was just set.
func (h *Holds) withdraw(in cache.Instance, hold fleet.Hold) error {
	_, err := h.opts.Instances.Change(h.ctx, in.ID, func(rec *layout.InstanceRecord) error {
		if holdOf(rec) != hold {
			return errAsBefore
		}
		rec.Hold = nil
		return nil
	})
	if errors.Is(err, errAsBefore) {
		return nil
	}
	return err
}

// wish is what a caller wants for a hold.
type wish struct {
	reason  fleet.HoldReason
	until   time.Time // zero: as long as possible
	longest time.Duration
	unwell  bool // the instance is silent or off
	now     time.Time
}

// note notes the hold in a record, and returns the one that is in force then.
func (w wish) note(rec *layout.InstanceRecord) (fleet.Hold, error) {
	switch {
	case rec.Deletion != nil:
		return fleet.Hold{}, refusal.New(refusal.FailedPrecondition, "INSTANCE_LEAVING", "instance %q is to be deleted: it cannot be put on hold", rec.ID)
	case rec.RegisteredAt.IsZero():
		return fleet.Hold{}, refusal.New(refusal.FailedPrecondition, "NOT_REGISTERED", "instance %q has not registered yet: it cannot be put on hold", rec.ID)
	}
	before := holdOf(rec)
	next, not := before.Set(w.reason, w.until, w.longest, w.unwell, w.now)
	switch {
	case not == fleet.Exhausted:
		return before, refusal.New(refusal.FailedPrecondition, "HOLD_EXHAUSTED", "instance %q has been on hold since %s and is silent or off: it may be so for %s; once it is heard of again it can be put on hold",
			rec.ID, before.Since.UTC().Format(time.RFC3339), w.longest)
	case not != 0:
		return before, refusal.New(refusal.FailedPrecondition, "ON_HOLD", "instance %q is on hold (%s) until %s; wait, or clear that hold",
			rec.ID, before.Reason, before.Until.UTC().Format(time.RFC3339))
	case next == before:
		return before, errAsBefore
	}
	noteHold(rec, next)
	return holdOf(rec), nil
}

// Clear ends the hold of an instance, durably; there need not be one. A hold for another
// reason than the named one stays; an empty reason is any. One that a power operation needs
// stays until that is over: its machine may be off.
func (h *Holds) Clear(ctx context.Context, in cache.Instance, reason fleet.HoldReason) error {
	now := layout.At(h.opts.Now()).Time
	if reason != "" && reason.Longest(time.Hour) <= 0 {
		return h.answer("clear", refusal.New(refusal.InvalidArgument, "INVALID_HOLD", "reason: %q must be empty or one of rollout, reboot, repave, power", reason))
	}
	operation, _, err := h.opts.Running(ctx, in.ID)
	if err != nil {
		return h.answer("clear", err)
	}
	var was fleet.Hold
	_, err = h.opts.Instances.Change(h.ctx, in.ID, func(rec *layout.InstanceRecord) error {
		was = holdOf(rec)
		next, changes := was.Clear(reason, now)
		switch {
		case !changes:
			return errAsBefore
		case operation != "":
			return running(in.ID, operation)
		}
		noteHold(rec, next)
		return nil
	})
	switch {
	case errors.Is(err, errAsBefore):
		return h.answer("clear", nil)
	case err != nil:
		return h.answer("clear", err)
	}
	h.opts.Log.InfoContext(ctx, "hold cleared", "instance", in.ID, "tenant", in.Group.Tenant, "group", in.Group.Name,
		"since", was.Since, "reason", string(was.Reason))
	return h.answer("clear", nil)
}

func running(id identity.ID, operation string) error {
	return refusal.New(refusal.FailedPrecondition, "OPERATION_RUNNING", "operation %q of instance %q is not over, and needs its hold; wait for it, or cancel it", operation, id)
}

// answer counts a call, and says why it was not carried out.
func (h *Holds) answer(call string, err error) error {
	var already *refusal.Error
	switch {
	case err == nil:
		h.opts.Metrics.held(call, "done")
	case errors.As(err, &already):
		h.opts.Metrics.held(call, "refused")
	default:
		h.opts.Metrics.held(call, "failed")
		return h.opts.Unavailable(err)
	}
	return err
}

// holdOf is the hold that a record has, as decisions see it.
func holdOf(rec *layout.InstanceRecord) fleet.Hold {
	if rec.Hold == nil {
		return fleet.Hold{}
	}
	return fleet.Hold{Reason: fleet.HoldReason(rec.Hold.Reason), Since: rec.Hold.Since.Time, Until: rec.Hold.Until.Time}
}

// noteHold notes a hold in a record.
func noteHold(rec *layout.InstanceRecord, hold fleet.Hold) {
	rec.Hold = &layout.Hold{Reason: string(hold.Reason), Since: layout.At(hold.Since), Until: layout.At(hold.Until)}
}
