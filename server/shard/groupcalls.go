package shard

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"strings"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/bucket"
	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
)

// UpsertGroup creates or changes a group of the tenant and returns it as it is
// then, durably. What the request leaves out stays as it is; a change that
// changes nothing writes nothing.
func (r *Reign) UpsertGroup(ctx context.Context, tenant string, req *nstancev1.UpsertGroupRequest) (*nstancev1.GroupStatus, error) {
	if err := identity.ValidateName(req.Key); err != nil {
		return nil, refusal.New(refusal.InvalidArgument, "INVALID_KEY", "key: %v", err)
	}
	id := fleet.GroupID{Tenant: tenant, Name: req.Key}
	change := groupChangeOf(req)
	ctx, span := r.traces.start(ctx, "group.upsert", id)
	defer span.End()
	grows := &growth{tenant: tenant}
	defer r.grown(grows)
	written, write := r.traces.start(ctx, "group.write", id)
	err := r.wanted.change(written, asker{tenant: tenant}, func(cfg *config.Config, file *config.GroupFile) (bool, error) {
		if req.ExpectedEtag != nil && etagOf(cfg, file, id) != *req.ExpectedEtag {
			return false, refusal.New(refusal.Aborted, "ETAG_MISMATCH", "group %q has changed since it was read", req.Key)
		}
		entry, err := config.CheckUpsert(cfg, file, tenant, req.Key, change)
		if err != nil {
			return false, err
		}
		if old, ok := file.Group(tenant, req.Key); ok && old.Equal(entry) {
			return false, nil
		}
		if err := r.groupRoom(cfg, file, id, entry, grows); err != nil {
			return false, err
		}
		file.Set(tenant, req.Key, entry)
		return true, nil
	})
	endSpan(write, err)
	if err != nil {
		return nil, groupRefusal(err)
	}
	r.traces.caused(id, span.SpanContext())
	r.Enqueue(id)
	eff, ok := r.wanted.any(id)
	if !ok {
		return nil, errUnknown("group", req.Key)
	}
	st := r.groupStatus(id, eff)
	r.events.group(tenant, &nstancev1.GroupEvent{Type: "UPSERT", Group: st})
	return st, nil
}

// DeleteGroup empties a dynamic group and then forgets it; of a static one it
// removes what the API has set. A group that is not there is no error.
func (r *Reign) DeleteGroup(ctx context.Context, tenant string, req *nstancev1.DeleteGroupRequest) error {
	if err := identity.ValidateName(req.Key); err != nil {
		return refusal.New(refusal.InvalidArgument, "INVALID_KEY", "key: %v", err)
	}
	id := fleet.GroupID{Tenant: tenant, Name: req.Key}
	now := r.now()
	err := r.wanted.change(ctx, asker{tenant: tenant, ends: true}, func(cfg *config.Config, file *config.GroupFile) (bool, error) {
		entry, ok := file.Group(tenant, req.Key)
		if !ok || entry.DeletedAt != nil {
			return false, nil
		}
		if m := entry.Manager; m != "" && req.Manager != "" && m != req.Manager && !req.Takeover {
			return false, &config.ManagedByOtherError{Manager: m}
		}
		if _, static := cfg.Groups[tenant][req.Key]; static {
			file.Remove(tenant, req.Key)
			return true, nil
		}
		entry.DeletedAt, entry.Rebuilt = &config.Time{Time: now}, nil
		file.Set(tenant, req.Key, entry)
		return true, nil
	})
	if err != nil {
		return groupRefusal(err)
	}
	r.Enqueue(id)
	r.publishGroup(id)
	return nil
}

// publishGroup tells watchers how a group is now.
func (r *Reign) publishGroup(id fleet.GroupID) {
	if eff, ok := r.wanted.any(id); ok {
		r.events.group(id.Tenant, &nstancev1.GroupEvent{Type: "UPSERT", Group: r.groupStatus(id, eff)})
		return
	}
	r.events.group(id.Tenant, &nstancev1.GroupEvent{Type: "DELETE", Group: &nstancev1.GroupStatus{Key: id.Name, Tenant: id.Tenant}})
}

func groupChangeOf(req *nstancev1.UpsertGroupRequest) config.GroupChange {
	c := req.GetConfig()
	change := config.GroupChange{
		Template: c.GetTemplate(), InstanceType: c.GetInstanceType(), InstanceTypes: c.GetInstanceTypes().GetValues(),
		SubnetPool: c.GetSubnetPool(), Clear: c.GetClear(), Manager: req.Manager, Takeover: req.Takeover,
	}
	if c != nil && c.Size != nil {
		size := int(*c.Size)
		change.Size = &size
	}
	if c.GetVars() != nil {
		change.Vars = orEmpty(c.Vars.Values)
	}
	if c.GetArgs() != nil {
		change.Args = make(map[string]any, len(c.Args.Values))
		for name, text := range c.Args.Values {
			change.Args[name] = argValue(text)
		}
	}
	if c.GetLoadBalancers() != nil {
		change.LoadBalancers = append([]string{}, c.LoadBalancers.Values...)
	}
	return change
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// argValue reads an argument as JSON, and as a plain string where it is none. A whole number
// that a float64 does not hold exactly stays text, which providers take for a number as well:
// each of its digits counts.
func argValue(text string) any {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	numbers := json.NewDecoder(strings.NewReader(text))
	numbers.UseNumber()
	if numbers.Decode(&v) != nil {
		return text
	}
	return exact(v)
}

// exact has the numbers of a JSON value as float64, where that keeps what they say, and
// else as text.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		if digits, whole := new(big.Int).SetString(v.String(), 10); whole {
			if held, _ := new(big.Float).SetFloat64(f).Int(nil); held.Cmp(digits) != 0 {
				return v.String()
			}
		}
		return f
	case map[string]any:
		for key, inner := range v {
			v[key] = exact(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = exact(inner)
		}
	}
	return v
}

// groupRefusal says to a caller why a change of a group is not made.
func groupRefusal(err error) error {
	var (
		refused *refusal.Error
		locked  *config.LockedFieldError
		invalid *config.InvalidError
		managed *config.ManagedByOtherError
		quota   *config.QuotaError
	)
	switch {
	case errors.As(err, &refused), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &locked):
		return refusal.New(refusal.FailedPrecondition, "LOCKED_FIELD", "%v", err)
	case errors.As(err, &managed):
		return refusal.New(refusal.FailedPrecondition, "MANAGED_BY_OTHER", "%v", err)
	case errors.As(err, &invalid):
		return refusal.New(refusal.InvalidArgument, "INVALID_GROUP", "%v", err)
	case errors.As(err, &quota), errors.Is(err, config.ErrTooLarge):
		return refusal.New(refusal.ResourceExhausted, "QUOTA_EXCEEDED", "%v", err)
	case errors.Is(err, config.ErrGroupNotFound):
		return refusal.New(refusal.NotFound, "NOT_FOUND", "group not found")
	default:
		return unavailable(err)
	}
}

// unavailable answers for trouble with storage or the provider, whose words are
// for the log. What somebody has damaged or removed there no repeat will mend.
func unavailable(err error) *refusal.Error {
	for _, damage := range []error{bucket.ErrUnreadable, bucket.ErrNewer, config.ErrUnreadable, config.ErrNewer, objectstore.ErrNotFound} {
		if errors.Is(err, damage) {
			return &refusal.Error{Code: refusal.FailedPrecondition, Reason: "STORAGE_DAMAGED", Err: err,
				Message: "its object in storage is gone or cannot be read and has to be restored first; the server's log says which"}
		}
	}
	return &refusal.Error{Code: refusal.Unavailable, Reason: "STORAGE_UNAVAILABLE", Message: "the change could not be made durable; try again", Err: err}
}
