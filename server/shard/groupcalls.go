package shard

import (
	"context"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
	"nstance.dev/server/refusal"
	"nstance.dev/server/status"
	"nstance.dev/server/traces"
)

// groupID is the group of a tenant that a request names in a field.
func groupID(tenant, key, field string) (fleet.GroupID, error) {
	if err := identity.ValidateName(key); err != nil {
		return fleet.GroupID{}, refusal.New(refusal.InvalidArgument, "INVALID_KEY", "%s: %v", field, err)
	}
	return fleet.GroupID{Tenant: tenant, Name: key}, nil
}

// UpsertGroup creates or changes a group of the tenant and returns it as it is
// then, durably. What the change leaves out stays as it is; a change that
// changes nothing writes nothing. An etag that is given has to be that of the group.
func (r *Requests) UpsertGroup(ctx context.Context, tenant, key string, change requests.GroupChange, etag *string) (*status.Group, error) {
	id, err := groupID(tenant, key, "key")
	if err != nil {
		return nil, err
	}
	ctx, span := r.traces.Start(ctx, "group.upsert", id)
	defer span.End()
	written, write := r.traces.Start(ctx, "group.write", id)
	err = r.groups.Upsert(written, id, change, etag)
	traces.End(write, err)
	if err != nil {
		return nil, err
	}
	r.traces.Caused(id, span.SpanContext())
	r.queue.Enqueue(id)
	st, ok := r.events.Group(id)
	if !ok {
		return nil, errUnknown("group", key)
	}
	return st, nil
}

// CheckGroup says what [Requests.UpsertGroup] would do, or why it would refuse, and changes nothing.
func (r *Requests) CheckGroup(tenant, key string, change requests.GroupChange, etag *string) (groups.Checked, error) {
	id, err := groupID(tenant, key, "key")
	if err != nil {
		return groups.Checked{}, err
	}
	return r.groups.Check(id, change, etag)
}

// DeleteGroup empties a dynamic group and then forgets it; of a static one it
// removes what the API has set. A group that is not there is no error.
func (r *Requests) DeleteGroup(ctx context.Context, tenant, key string, by groups.Manager) error {
	id, err := groupID(tenant, key, "key")
	if err != nil {
		return err
	}
	if err := r.groups.Delete(ctx, id, by); err != nil {
		return err
	}
	r.queue.Enqueue(id)
	r.events.Group(id)
	return nil
}

// ConfirmGroups lets groups of a tenant go on that were rebuilt after the group file
// was lost, all that wait if no keys are given, and returns which these were. Whether
// the caller may speak for the tenant is for the caller of this method to find out.
func (r *Requests) ConfirmGroups(ctx context.Context, tenant string, keys []string) ([]string, error) {
	for _, key := range keys {
		if err := identity.ValidateName(key); err != nil {
			return nil, refusal.New(refusal.InvalidArgument, "INVALID_KEY", "keys: %v", err)
		}
	}
	confirmed, err := r.groups.Confirm(ctx, tenant, keys)
	if err != nil {
		return nil, err
	}
	for _, key := range confirmed {
		id := fleet.GroupID{Tenant: tenant, Name: key}
		r.queue.Enqueue(id)
		r.events.Group(id)
	}
	return confirmed, nil
}
