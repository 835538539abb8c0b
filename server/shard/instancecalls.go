package shard

import (
	"context"
	"errors"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/provisioning"
	"nstance.dev/server/refusal"
)

// InstanceRequest asks for an on-demand instance.
type InstanceRequest struct {
	Group     string
	ID        string // made by the caller within the last 24 hours; empty: one is made
	Overrides effective.InstanceRequest
	By        groups.Manager
}

// Named is an instance that a call was about, and its status in the words of the API.
type Named struct {
	ID     identity.ID
	Status string
}

// CreateInstance makes an on-demand instance for a group. It returns once the
// record is durable; whether the provider takes it shows in its status. A
// repeat with the same id returns what is there.
func (r *Requests) CreateInstance(ctx context.Context, tenant string, req InstanceRequest) (Named, error) {
	if err := identity.ValidateName(req.Group); err != nil {
		return Named{}, refusal.New(refusal.InvalidArgument, "INVALID_GROUP", "config.group: %v", err)
	}
	group := fleet.GroupID{Tenant: tenant, Name: req.Group}
	eff, err := r.groups.OnDemand(group, req.Overrides, req.By)
	if err != nil {
		return Named{}, err
	}
	id, err := r.chooseID(req.ID, eff.Kind)
	if err != nil {
		return Named{}, err
	}
	if in, ok := r.cache.Instance(id); ok {
		return existing(in, tenant)
	}
	if err := r.groups.RefusePaused(group); err != nil {
		return Named{}, err
	}
	release, err := r.groups.ReserveInstance(tenant, id)
	if err != nil {
		return Named{}, err
	}
	defer release()
	launched, err := r.launcher.Launch(r.leadership.ctx, id, eff, provisioning.Request{OnDemand: true, Overrides: req.Overrides})
	if errors.Is(err, objectstore.ErrPrecondition) { // the same call twice at once
		if in, ok := r.cache.Instance(id); ok {
			return existing(in, tenant)
		}
	}
	switch {
	case err != nil:
		return Named{}, unavailable(err)
	case !launched:
		return Named{}, refusal.New(refusal.Unavailable, "NO_CAPACITY", "no machine can be made for group %q now; the error events say why", req.Group)
	}
	return Named{id, string(fleet.Pending)}, nil
}

// existing answers for an id that is taken. That another tenant has it is not told
// apart from an id that is too old (S12).
func existing(in cache.Instance, tenant string) (Named, error) {
	if in.Group.Tenant != tenant {
		return Named{}, errStaleID
	}
	if !in.OnDemand {
		return Named{}, refusal.New(refusal.AlreadyExists, "ID_IN_USE", "instance_id is in use")
	}
	return Named{in.ID, fleet.Status(in.Instance)}, nil
}

// errStaleID refuses an id that a caller made and nobody may use any more, or that
// somebody else has used.
var errStaleID = refusal.New(refusal.InvalidArgument, "INVALID_ID", "instance_id: it must be new, and from the last 24 hours; make a new one or leave it out")

// chooseID takes the id that a caller made, or makes one.
func (r *Requests) chooseID(text, kind string) (identity.ID, error) {
	if text == "" {
		return r.opts.NewID(kind)
	}
	id, err := identity.ParseID(text)
	if err != nil {
		return "", refusal.New(refusal.InvalidArgument, "INVALID_ID", "instance_id: %v; leave it out to have one made", err)
	}
	if id.Prefix() != kind {
		return "", refusal.New(refusal.InvalidArgument, "INVALID_ID", "instance_id: it begins with %q; make one that begins with the kind of the template, %q, or leave it out", id.Prefix(), kind)
	}
	if age := r.opts.Now().Sub(id.CreatedAt()); age > fleet.LongestIDAge || age < -time.Minute {
		return "", errStaleID
	}
	return id, nil
}

// RemovalRequest asks for the end of an instance.
type RemovalRequest struct {
	ID            string
	SkipDrain     bool
	DecrementSize bool // its group becomes smaller by one in the same step
	ReplaceFirst  bool // it goes when another one works in its place; not with DecrementSize
}

// DeleteInstance has an instance removed, and says what has become of it: unknown, deleting
// or deleted. A managed one is replaced, unless the call lowers the size of its group in the
// same step. Repeats change nothing.
func (r *Requests) DeleteInstance(ctx context.Context, tenant string, req RemovalRequest) (status string, err error) {
	in, err := r.status.FindInstance(tenant, req.ID)
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) && refused.Code == refusal.NotFound {
		return "unknown", nil
	}
	if err != nil {
		return "", err
	}
	switch {
	case in.State == fleet.Deleted:
		return "deleted", nil
	case req.ReplaceFirst && req.DecrementSize:
		return "", refusal.New(refusal.InvalidArgument, "CONTRADICTION", "replace_first and decrement_size contradict each other")
	case req.ReplaceFirst:
		err = r.replaceNamed(in, req.SkipDrain)
	case req.DecrementSize && !in.OnDemand:
		// A smaller size is a wish: while the group is paused it stands and waits.
		if err = r.retire(ctx, in, req.SkipDrain); err == nil && in.State.Leaving() {
			err = r.removals.CondemnNamed(in, req.SkipDrain)
		}
	case in.State.Leaving():
		err = r.removals.CondemnNamed(in, req.SkipDrain)
	default:
		if err = r.groups.RefusePaused(in.Group); err == nil {
			err = r.removals.CondemnNamed(in, req.SkipDrain)
		}
	}
	if err != nil {
		return "", answerTo(err)
	}
	return "deleting", nil
}

// retire has a smaller size of its group take an instance, durably.
func (r *Requests) retire(ctx context.Context, in cache.Instance, skipDrain bool) error {
	if groups.PlaceGone(in) {
		return nil
	}
	err := r.groups.Retire(ctx, in.Group, in.ID, skipDrain)
	if err == nil {
		r.queue.Enqueue(in.Group)
		r.events.Group(in.Group)
	}
	return err
}

// replaceNamed makes a caller's wish durable that an instance be replaced, and
// deleted once that is done (S15). Repeats change nothing.
func (r *Requests) replaceNamed(in cache.Instance, skipDrain bool) error {
	if in.OnDemand {
		return refusal.New(refusal.FailedPrecondition, "NOT_REPLACED", "instance %s was made on demand: nothing replaces it; delete it without replace_first", in.ID)
	}
	switch {
	case in.State.Leaving() && in.Removal.Revocable():
		return r.removals.Confirm(in.ID)
	case in.State.Leaving():
		return nil
	}
	_, err := r.instances.Change(r.leadership.ctx, in.ID, func(rec *layout.InstanceRecord) error {
		if rec.Replace == nil || skipDrain && !rec.Replace.SkipDrain {
			rec.Replace = &layout.ReplaceRequest{RequestedAt: layout.At(r.opts.Now()), SkipDrain: skipDrain}
		}
		return nil
	})
	return err
}
