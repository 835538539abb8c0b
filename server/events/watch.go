package events

import (
	"context"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// Heartbeat is how often a watcher of instances hears that there is no news.
const Heartbeat = 15 * time.Second

// WatchErrors sends the tenant's errors from now on, until ctx or the term ends.
func (b *Broadcaster) WatchErrors(ctx context.Context, tenant string, send func(*Error) error) error {
	sub := b.errors.subscribe(tenant)
	defer b.errors.unsubscribe(sub)
	return follow(ctx, sub, nil, send)
}

// WatchInstances sends what is being removed, a mark, and then every event of
// the tenant's instances and a heartbeat, until ctx or the term ends.
func (b *Broadcaster) WatchInstances(ctx context.Context, tenant string, send func(*Instance) error) error {
	sub := b.instances.subscribe(tenant)
	defer b.instances.unsubscribe(sub)
	seen := map[identity.ID]int64{}
	for _, row := range b.opts.Cache.Tenant(tenant) {
		if !row.State.Leaving() {
			continue
		}
		status := "pending_deletion"
		if row.State == fleet.Deleting {
			status = "deleting"
		}
		ev := &Instance{Status: status, Instance: b.opts.Status.Instance(row)}
		seen[row.ID] = ev.Instance.Revision
		if err := send(ev); err != nil {
			return err
		}
	}
	if err := send(&Instance{Status: "snapshot_end"}); err != nil {
		return err
	}
	digest := b.opts.Status.FollowConfigDigest(tenant)
	beat := func() error {
		return send(&Instance{Status: "heartbeat", ConfigDigest: digest()})
	}
	return follow(ctx, sub, beat, func(ev *Instance) error {
		if ev.Instance.Revision <= seen[ev.Instance.ID] {
			return nil // the snapshot was newer
		}
		return send(ev)
	})
}

// WatchGroups sends all groups of the tenant and then their changes, until ctx
// or the term ends.
func (b *Broadcaster) WatchGroups(ctx context.Context, tenant string, send func(*Group) error) error {
	sub := b.groups.subscribe(tenant)
	defer b.groups.unsubscribe(sub)
	seen := map[string]int64{}
	for _, g := range b.opts.Status.Groups(tenant) {
		seen[g.Key] = g.Revision
		if err := send(&Group{Group: *g}); err != nil {
			return err
		}
	}
	return follow(ctx, sub, nil, func(ev *Group) error {
		if !ev.Gone && ev.Group.Revision <= seen[ev.Group.Key] {
			return nil
		}
		return send(ev)
	})
}

// follow passes a subscription's events on until ctx ends or it is closed.
func follow[T any](ctx context.Context, sub *subscription[T], beat func() error, send func(T) error) error {
	var ticks <-chan time.Time
	if beat != nil {
		ticker := time.NewTicker(Heartbeat)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
			if err := beat(); err != nil {
				return err
			}
		case ev, open := <-sub.queue:
			if !open {
				return sub.why
			}
			if err := send(ev); err != nil {
				return err
			}
		}
	}
}
