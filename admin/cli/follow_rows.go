package cli

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Statuses in events of instances that are about the stream, and the last one
// that an instance has.
const (
	eventSnapshotEnd   = "snapshot_end"
	eventDeleted       = "deleted"
	instanceTerminated = "terminated"
)

// instanceRows prints instances as they change.
type instanceRows struct {
	shard  *shard
	group  string // empty: all
	stream *output.Stream[*nstancev1.InstanceStatus]
	last   map[string]*nstancev1.InstanceStatus // as printed
}

// watchInstanceRows prints all instances, and then each one when it changes. The
// list is taken after the stream has begun, so no change falls between them.
func watchInstanceRows(ctx context.Context, env *Env, s *shard, group string, stream *output.Stream[*nstancev1.InstanceStatus]) error {
	rows := &instanceRows{shard: s, group: group, stream: stream, last: map[string]*nstancev1.InstanceStatus{}}
	return follow(ctx, env, s, openInstanceEvents(s), func(e *nstancev1.InstanceEvent) error {
		switch {
		case e.GetStatus() == eventSnapshotEnd:
			return rows.list(ctx, env)
		case e.GetInstanceId() == "":
			return nil
		}
		return rows.event(ctx, e)
	})
}

// list prints what differs from what has been printed, and the end of those that
// are no more.
func (r *instanceRows) list(ctx context.Context, env *Env) error {
	items, err := listInstances(ctx, env, r.shard, r.group)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	var instances []*nstancev1.InstanceStatus
	for _, item := range items {
		there[item.Message.GetInstanceId()] = true
		instances = append(instances, item.Message)
	}
	if err := r.print(instances...); err != nil {
		return err
	}
	for id := range r.last {
		if !there[id] {
			if err := r.end(id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *instanceRows) event(ctx context.Context, e *nstancev1.InstanceEvent) error {
	if e.GetStatus() == eventDeleted {
		return r.end(e.GetInstanceId())
	}
	instance, err := r.shard.api.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: e.GetInstanceId()})
	if status.Code(err) == codes.NotFound {
		return r.end(e.GetInstanceId())
	}
	if err != nil {
		return err
	}
	if r.group != "" && instance.GetGroup() != r.group {
		return nil
	}
	return r.print(instance)
}

// end prints an instance a last time, if it has been printed before.
func (r *instanceRows) end(id string) error {
	last, ok := r.last[id]
	if !ok {
		return nil
	}
	delete(r.last, id)
	gone := proto.CloneOf(last)
	gone.Status = instanceTerminated
	return r.stream.Print(itemOf(r.shard, gone))
}

// print prints those that differ from what has been printed of them.
func (r *instanceRows) print(instances ...*nstancev1.InstanceStatus) error {
	var changed []output.Item[*nstancev1.InstanceStatus]
	for _, in := range instances {
		last, ok := r.last[in.GetInstanceId()]
		if ok && proto.Equal(steady(last), steady(in)) {
			continue
		}
		r.last[in.GetInstanceId()] = in
		changed = append(changed, itemOf(r.shard, in))
	}
	return r.stream.Print(changed...)
}

// steady leaves out what changes with every report of an agent.
func steady(instance *nstancev1.InstanceStatus) *nstancev1.InstanceStatus {
	s := proto.CloneOf(instance)
	s.LastSeen, s.CpuUsage, s.MemoryUsage, s.Revision = nil, nil, nil, 0
	return s
}
