package operatorapi

import (
	"context"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/events"
)

// WatchGroups is [events.Broadcaster.WatchGroups].
func (l Leader) WatchGroups(ctx context.Context, tenant string, send func(*nstancev1.GroupEvent) error) error {
	return l.term.Events().WatchGroups(ctx, tenant, func(ev *events.Group) error { return send(groupEvent(ev)) })
}

// WatchInstances is [events.Broadcaster.WatchInstances].
func (l Leader) WatchInstances(ctx context.Context, tenant string, send func(*nstancev1.InstanceEvent) error) error {
	return l.term.Events().WatchInstances(ctx, tenant, func(ev *events.Instance) error { return send(instanceEvent(ev)) })
}

// WatchErrors is [events.Broadcaster.WatchErrors].
func (l Leader) WatchErrors(ctx context.Context, tenant string, send func(*nstancev1.ErrorEvent) error) error {
	return l.term.Events().WatchErrors(ctx, tenant, func(ev *events.Error) error { return send(errorEvent(ev)) })
}

func groupEvent(ev *events.Group) *nstancev1.GroupEvent {
	if ev.Gone {
		return &nstancev1.GroupEvent{Type: "DELETE", Group: groupStatus(&ev.Group)}
	}
	return &nstancev1.GroupEvent{Type: "UPSERT", Group: groupStatus(&ev.Group)}
}

// instanceEvent says all of the instance, unless there is none any more.
func instanceEvent(ev *events.Instance) *nstancev1.InstanceEvent {
	in := &ev.Instance
	if in.ID == "" {
		return &nstancev1.InstanceEvent{Status: ev.Status, ConfigDigest: ev.ConfigDigest}
	}
	out := &nstancev1.InstanceEvent{
		InstanceId: in.ID.String(), Tenant: in.Group.Tenant, ProviderInstanceId: in.ProviderID, Group: in.Group.Name,
		Status: ev.Status, Reason: string(in.Removal.Reason), Revision: in.Revision,
		UnhealthyAt: stamp(in.UnhealthyAt), DeleteAt: stamp(in.Removal.DeleteAt),
	}
	if ev.Status != "deleted" {
		out.Instance = instanceStatus(in)
	}
	return out
}

func errorEvent(ev *events.Error) *nstancev1.ErrorEvent {
	out := &nstancev1.ErrorEvent{Class: ev.Class, Shard: ev.Shard, Error: ev.Text, Timestamp: stamp(ev.At)}
	if ev.Group != "" {
		out.Group = &ev.Group
	}
	if ev.Instance != "" {
		id := ev.Instance.String()
		out.InstanceId = &id
	}
	return out
}
