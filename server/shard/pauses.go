package shard

import (
	"context"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// SetPause stops creates, deletes and rotation in a scope until it ends or is
// cleared; decisions are made and shown as before (S23). It is durable when the
// call returns, and no create or delete is sent from then on. A pause of the
// same scope is replaced. Of p, the scope, the group, the reason and the end count.
// Whether the caller may pause the whole shard is for the caller of this method to find out.
func (r *Requests) SetPause(ctx context.Context, tenant string, p groupfile.Pause) (groupfile.Pause, error) {
	scope, err := pauseScope(tenant, p.Scope, p.Group)
	if err != nil {
		return scope, err
	}
	scope.Reason, scope.Until = strings.TrimSpace(p.Reason), p.Until
	if scope, err = r.groups.SetPause(ctx, tenant, scope); err != nil {
		return scope, err
	}
	r.enqueueScope(scope)
	return scope, nil
}

// ClearPause ends the pause of a scope, durably; there need not be one.
func (r *Requests) ClearPause(ctx context.Context, tenant, scope, group string) error {
	p, err := pauseScope(tenant, scope, group)
	if err != nil {
		return err
	}
	if err := r.groups.ClearPause(ctx, tenant, p); err != nil {
		return err
	}
	r.enqueueScope(p)
	return nil
}

// pauseScope is the pause that a request speaks of, without what it says of it.
func pauseScope(tenant, scope, group string) (groupfile.Pause, error) {
	switch scope {
	case groupfile.PauseShard, groupfile.PauseTenant:
		if group != "" {
			return groupfile.Pause{}, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "group: it goes with scope %q only", groupfile.PauseGroup)
		}
		if scope == groupfile.PauseShard {
			tenant = ""
		}
		return groupfile.Pause{Scope: scope, Tenant: tenant}, nil
	case groupfile.PauseGroup:
		if err := identity.ValidateName(group); err != nil {
			return groupfile.Pause{}, refusal.New(refusal.InvalidArgument, "INVALID_KEY", "group: %v", err)
		}
		return groupfile.Pause{Scope: scope, Tenant: tenant, Group: group}, nil
	default:
		return groupfile.Pause{}, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "scope: %q must be one of shard, tenant, group", scope)
	}
}

// enqueueScope has every group looked at that a pause is about.
func (r *Requests) enqueueScope(p groupfile.Pause) {
	r.demandChanged()
	switch p.Scope {
	case groupfile.PauseGroup:
		r.queue.Enqueue(fleet.GroupID{Tenant: p.Tenant, Name: p.Group})
	default:
		r.queue.enqueueAll()
	}
}
