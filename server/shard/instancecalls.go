package shard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
	"nstance.dev/server/layout"
	"nstance.dev/server/masking"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/provisioning"
	"nstance.dev/server/refusal"
	"nstance.dev/server/userdata"
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

// Output is what a machine has written, as far as it may be told.
type Output struct {
	Source  driver.OutputSource
	Text    string
	Cut     bool                  // something came before it
	Masked  int                   // places
	Sources []driver.OutputSource // that the provider has
}

// InstanceOutput returns the end of what the machine of an instance has written, without nonces
// and user data. An empty source is the first that the provider has.
func (r *Requests) InstanceOutput(ctx context.Context, tenant, id, source string) (Output, error) {
	in, err := r.status.FindInstance(tenant, id)
	if err != nil {
		return Output{}, err
	}
	from, err := r.outputSource(source)
	if err != nil {
		return Output{}, err
	}
	if in.ProviderID == "" || in.State == fleet.Deleted {
		return Output{}, refusal.New(refusal.FailedPrecondition, "NO_MACHINE", "instance %s is %s and has no machine", in.ID, fleet.Status(in.Instance))
	}
	ctx, cancel := r.leadership.bound(ctx)
	defer cancel()
	mask, err := r.maskOf(ctx, in)
	if err != nil {
		return Output{}, err
	}
	raw, err := r.provider.Output(ctx, in.Group, driver.Ref{InstanceID: in.ID, ProviderID: in.ProviderID}, from)
	if err != nil {
		return Output{}, r.outputRefused(in, err)
	}
	out := Output{Source: from, Sources: r.provider.OutputSources()}
	tail, cut := masking.Tail(raw.Data, driver.MaxOutput, raw.Cut)
	out.Text, out.Masked = mask.Apply(string(tail))
	out.Cut = cut
	return out, nil
}

// outputSource is the source that a caller means, which the provider has.
func (r *Requests) outputSource(asked string) (driver.OutputSource, error) {
	sources, kind := r.provider.OutputSources(), r.groups.Config().Server.Provider.Kind
	source := driver.OutputSource(asked)
	switch {
	case source != "" && source != driver.Console && source != driver.Log:
		return "", refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "source: %q must be %s or %s, or be left out", asked, driver.Console, driver.Log)
	case len(sources) == 0:
		return "", refusal.New(refusal.FailedPrecondition, "NO_OUTPUT", "the provider %s does not tell what machines write; look at the machine itself", kind)
	case source == "":
		return sources[0], nil
	case !slices.Contains(sources, source):
		return "", refusal.New(refusal.FailedPrecondition, "NO_OUTPUT", "the provider %s has no %s of machines; ask for source %s", kind, source, sources[0])
	}
	return source, nil
}

// maskOf is what must not be told of what a machine has written. Where it is not known what the
// machine was made from, nothing is told.
func (r *Requests) maskOf(ctx context.Context, in cache.Instance) (masking.Mask, error) {
	unknown := refusal.New(refusal.FailedPrecondition, "USER_DATA_UNKNOWN",
		"instance %s was made from another configuration than the one in force, so that its user data is not known and could not be masked; "+
			"look at its output with the provider's own tools, or replace the instance", in.ID)
	rec, stored := r.instances.Record(in.ID)
	d, ok := r.groups.Definition(in.Group, rec)
	if !stored || !ok || rec.InfraHash != d.Group.InfraHash && !d.Group.MadeLike()(rec.InfraHash, rec.InstanceType) {
		return masking.Mask{}, unknown
	}
	u := d.Group.Userdata
	raw := []byte(u.Content)
	if u.Source == document.SourceURL {
		var err error
		if raw, err = r.opts.FetchUserdata(ctx, u.Content); err != nil {
			return masking.Mask{}, &refusal.Error{
				Code: refusal.Unavailable, Reason: "USER_DATA_UNAVAILABLE", Err: err,
				Message: "the user data of the instance could not be fetched, so that it could not be masked; try again",
			}
		}
		if rec.UserdataSHA256 != userdata.Hash(raw) {
			return masking.Mask{}, refusal.New(refusal.FailedPrecondition, "USER_DATA_UNKNOWN",
				"instance %s is not known to be made from what stands at the address of its user data now, so that its user data could not be masked; "+
					"look at its output with the provider's own tools, or replace the instance", in.ID)
		}
	}
	text, err := u.Decode(raw)
	if err != nil {
		unknown.Err = err
		return masking.Mask{}, unknown
	}
	return masking.New(text, slices.Sorted(maps.Values(d.Group.Vars))), nil
}

// outputRefused is the answer where the provider does not tell.
func (r *Requests) outputRefused(in cache.Instance, err error) error {
	if lost(err) {
		return answerTo(err)
	}
	kind := r.groups.Config().Server.Provider.Kind
	told := &refusal.Error{Err: err}
	switch driver.ClassOf(err) {
	case driver.NotFound:
		told.Code, told.Reason, told.Message = refusal.FailedPrecondition, "NO_MACHINE", "the provider knows no machine of instance "+in.ID.String()
	case driver.Auth:
		told.Code, told.Reason = refusal.FailedPrecondition, "OUTPUT_REFUSED"
		told.Message = "the provider does not let the server read what machines write; the page of provider " + kind + " names the permission, among the optional ones"
	case driver.Unsupported:
		told.Code, told.Reason, told.Message = refusal.FailedPrecondition, "NO_OUTPUT", "the provider does not tell what this machine writes"
	case driver.Throttled:
		told.Code, told.Reason, told.Message = refusal.ResourceExhausted, "PROVIDER_THROTTLED", "the provider asks for a slower pace; try again in a minute"
	default:
		told.Code, told.Reason, told.Message = refusal.Unavailable, "PROVIDER_UNAVAILABLE", "the provider did not answer; try again"
	}
	return told
}
