package shard

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config"
	"nstance.dev/server/decisions"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
	"nstance.dev/server/retry"
)

// SetPause stops creates, deletes and rotation in a scope until it ends or is
// cleared; decisions are made and shown as before (S23). It is durable when the
// call returns, and no create or delete is sent from then on. A pause of the
// same scope is replaced. Whether the caller may pause the whole shard is for
// the caller of this method to find out.
func (r *Reign) SetPause(ctx context.Context, tenant string, req *nstancev1.SetPauseRequest) (*nstancev1.Pause, error) {
	p, err := pauseScope(tenant, req.Scope, req.Group)
	if err != nil {
		return nil, err
	}
	if _, ok := r.wanted.any(fleet.GroupID{Tenant: tenant, Name: p.Group}); !ok && p.Scope == config.PauseGroup {
		return nil, errUnknown("group", p.Group)
	}
	now := r.now()
	p.Reason, p.Since = strings.TrimSpace(req.Reason), &config.Time{Time: now}
	if req.Until != nil {
		p.Until = &config.Time{Time: req.Until.AsTime()}
	}
	if err := p.Check(); err != nil {
		return nil, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "%v", err)
	}
	if p.Until != nil && !p.Until.After(now) {
		return nil, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "until: %s is past", p.Until.Format(time.RFC3339))
	}
	err = r.wanted.change(ctx, asker{tenant: tenant}, func(_ *config.Config, file *config.GroupFile) (bool, error) {
		file.SetPause(p, now)
		return true, nil
	})
	if err != nil {
		return nil, groupRefusal(err)
	}
	r.log.WarnContext(ctx, "paused", "scope", p.Scope, "tenant", p.Tenant, "group", p.Group, "reason", p.Reason, "until", p.Until)
	r.enqueueScope(p)
	return pauseStatus(p), nil
}

// ClearPause ends the pause of a scope, durably; there need not be one.
func (r *Reign) ClearPause(ctx context.Context, tenant string, req *nstancev1.ClearPauseRequest) error {
	p, err := pauseScope(tenant, req.Scope, req.Group)
	if err != nil {
		return err
	}
	found := false
	err = r.wanted.change(ctx, asker{tenant: tenant}, func(_ *config.Config, file *config.GroupFile) (bool, error) {
		found = file.ClearPause(p, r.now())
		return found, nil
	})
	if err != nil {
		return groupRefusal(err)
	}
	if found {
		r.log.WarnContext(ctx, "resumed", "scope", p.Scope, "tenant", p.Tenant, "group", p.Group)
	}
	r.enqueueScope(p)
	return nil
}

// pauseScope is the pause that a request speaks of, without what it says of it.
func pauseScope(tenant, scope, group string) (config.Pause, error) {
	switch scope {
	case config.PauseShard, config.PauseTenant:
		if group != "" {
			return config.Pause{}, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "group: it goes with scope %q only", config.PauseGroup)
		}
		if scope == config.PauseShard {
			tenant = ""
		}
		return config.Pause{Scope: scope, Tenant: tenant}, nil
	case config.PauseGroup:
		if err := identity.ValidateName(group); err != nil {
			return config.Pause{}, refusal.New(refusal.InvalidArgument, "INVALID_KEY", "group: %v", err)
		}
		return config.Pause{Scope: scope, Tenant: tenant, Group: group}, nil
	default:
		return config.Pause{}, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "scope: %q is none; one of shard, tenant, group", scope)
	}
}

// pause is what holds back everything in a group because somebody said so, or may
// have: pauses stand in the group file, and while that is missing or unreadable no
// group is known to go on (S23). The zero Hold: nothing does.
func (w *wanted) pause(group fleet.GroupID, now time.Time) decisions.Hold {
	if why := w.unknown(); why != "" {
		return decisions.Hold{By: fleet.BlockerHeld, Why: "nobody knows whether it is paused: " + why}
	}
	if g, ok := w.any(group); ok && g.Rebuilt {
		return decisions.Hold{By: fleet.BlockerRebuilt, Why: rebuiltGroup}
	}
	p, paused := w.pauseOf(group, now)
	if !paused {
		return decisions.Hold{}
	}
	hold := decisions.Hold{By: fleet.BlockerPaused, Why: fmt.Sprintf("the %s is paused: %s", p.Scope, p.Reason)}
	if p.Until != nil {
		hold.Until = p.Until.Time
	}
	return hold
}

// unknown says why the group file is not known; empty: it is.
func (w *wanted) unknown() string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.hold == nil {
		return ""
	}
	return w.hold.why
}

// pauseOf is the widest pause in force for a group; false if none is.
func (w *wanted) pauseOf(group fleet.GroupID, now time.Time) (config.Pause, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.file.PauseOf(group.Tenant, group.Name, now)
}

// paused reports whether nothing may be created or deleted in a group now.
func (r *Reign) paused(group fleet.GroupID) bool {
	return r.wanted.pause(group, r.now()).By != ""
}

// errPaused refuses what a caller asks for by name while it cannot be done.
func (r *Reign) errPaused(group fleet.GroupID) error {
	hold := r.wanted.pause(group, r.now())
	switch {
	case hold.By == "":
		return nil
	case hold.By == fleet.BlockerHeld:
		return refusal.New(refusal.FailedPrecondition, "GROUP_FILE_UNUSABLE", "%s", hold.Why)
	case hold.By == fleet.BlockerRebuilt:
		return refusal.New(refusal.FailedPrecondition, "GROUP_REBUILT", "%s", hold.Why)
	case hold.Until.IsZero():
		return refusal.New(refusal.FailedPrecondition, "PAUSED", "%s; resume it first", hold.Why)
	default:
		return refusal.New(refusal.FailedPrecondition, "PAUSED", "%s; it ends at %s", hold.Why, hold.Until.UTC().Format(time.RFC3339))
	}
}

// admitDelete waits until a delete may be sent in a group. Its token is taken last:
// those who waited for the end of a pause go on at the pace of the bucket (S21).
func (r *Reign) admitDelete(ctx context.Context, group fleet.GroupID) error {
	for {
		for r.deletesHeld(group) {
			if err := retry.Wait(ctx, time.Second); err != nil {
				return err
			}
		}
		if err := r.provider.WaitDelete(ctx, group); err != nil {
			return err
		}
		if !r.deletesHeld(group) {
			return nil
		}
	}
}

// deletesHeld reports whether no delete may be sent in a group, not even one that
// was under way: the provider's listing is not to be believed (S8), or somebody has
// paused the group (S23).
func (r *Reign) deletesHeld(group fleet.GroupID) bool {
	return r.collector.alarmed() != "" || r.paused(group)
}

// enqueueScope has every group looked at that a pause is about.
func (r *Reign) enqueueScope(p config.Pause) {
	switch p.Scope {
	case config.PauseGroup:
		r.Enqueue(fleet.GroupID{Tenant: p.Tenant, Name: p.Group})
	default:
		r.enqueueAll()
	}
}

// pauseStatus is a pause in the words of the API.
func pauseStatus(p config.Pause) *nstancev1.Pause {
	out := &nstancev1.Pause{Scope: p.Scope, Group: p.Group, Reason: p.Reason}
	if p.Until != nil {
		out.Until = timestamppb.New(p.Until.Time)
	}
	if p.Since != nil {
		out.Since = timestamppb.New(p.Since.Time)
	}
	return out
}
