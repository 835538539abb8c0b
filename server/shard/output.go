package shard

import (
	"context"
	"maps"
	"slices"

	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/masking"
	"nstance.dev/server/refusal"
)

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
	case driver.Unsupport:
		told.Code, told.Reason, told.Message = refusal.FailedPrecondition, "NO_OUTPUT", "the provider does not tell what this machine writes"
	case driver.Throttled:
		told.Code, told.Reason, told.Message = refusal.ResourceExhausted, "PROVIDER_THROTTLED", "the provider asks for a slower pace; try again in a minute"
	default:
		told.Code, told.Reason, told.Message = refusal.Unavailable, "PROVIDER_UNAVAILABLE", "the provider did not answer; try again"
	}
	return told
}
