package cli

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// How often the groups are listed while they are watched: not more often than
// the one, however many events come, and not less often than the other.
const (
	groupRowsGap  = 100 * time.Millisecond
	groupRowsPoll = 30 * time.Second
)

// watchGroupRows prints all groups, and then each one when it or its counts
// change. Counts follow from the instances, so their events count too: all of
// them only say that it is time to look again.
func watchGroupRows(ctx context.Context, env *Env, s *shard, stream *output.Stream[*nstancev1.GroupStatus]) error {
	wake := make(chan struct{}, 1)
	signal := func() error {
		select {
		case wake <- struct{}{}:
		default:
		}
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return follow(ctx, env, s, openGroupEvents(s), func(*nstancev1.GroupEvent) error { return signal() })
	})
	group.Go(func() error {
		return follow(ctx, env, s, openInstanceEvents(s), func(*nstancev1.InstanceEvent) error { return signal() })
	})
	group.Go(func() error {
		rows := &groupRows{shard: s, stream: stream, last: map[string]*nstancev1.GroupStatus{}}
		return rows.run(ctx, wake)
	})
	return group.Wait()
}

// groupRows prints groups as they change.
type groupRows struct {
	shard  *shard
	stream *output.Stream[*nstancev1.GroupStatus]
	last   map[string]*nstancev1.GroupStatus // as printed
}

func (r *groupRows) run(ctx context.Context, wake <-chan struct{}) error {
	for {
		if err := r.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(groupRowsGap):
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		case <-time.After(groupRowsPoll):
		}
	}
}

// look prints what differs from what has been printed. A group that is no more
// is printed a last time, as empty.
func (r *groupRows) look(ctx context.Context) error {
	items, err := listGroups(ctx, r.shard)
	if err != nil {
		return err
	}
	now := map[string]*nstancev1.GroupStatus{}
	var changed []output.Item[*nstancev1.GroupStatus]
	for _, item := range items {
		key := item.Message.GetKey()
		now[key] = item.Message
		if !proto.Equal(unrevised(r.last[key]), unrevised(item.Message)) {
			changed = append(changed, item)
		}
	}
	for key, group := range r.last {
		if now[key] == nil {
			changed = append(changed, itemOf(r.shard, &nstancev1.GroupStatus{Key: key, Tenant: group.GetTenant(), Deleting: true}))
		}
	}
	r.last = now
	return r.stream.Print(changed...)
}

// unrevised leaves out the number that changes with anything.
func unrevised(g *nstancev1.GroupStatus) *nstancev1.GroupStatus {
	if g == nil {
		return nil
	}
	g = proto.CloneOf(g)
	g.Revision = 0
	return g
}
