package shards

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// GroupSink receives the tenant's groups. What is said of a sink at [Sink] applies.
type GroupSink interface {
	// GroupsListed reports a complete list of the groups.
	GroupsListed(shard string, list GroupList)
	// GroupEvent reports a change, or an item of the snapshot that begins the stream.
	GroupEvent(shard string, event *nstancev1.GroupEvent)
}

// GroupList is the result of ListGroups.
type GroupList struct {
	Groups []*nstancev1.GroupStatus
	// Began is when the list was asked for: nothing follows from the absence of what was
	// heard of later.
	Began time.Time
	Term  int64 // of the leader that was connected then
}

// WatchGroups returns the stream and the list of groups.
func WatchGroups(sink GroupSink) Stream {
	return Stream{
		receive: func(ctx context.Context, s *Shard, c *session) { listen(ctx, s, c, groupEvents(s, c, sink)) },
		which:   groupList,
		list: func(ctx context.Context, s *Shard, c *session) (bool, error) {
			return listGroups(ctx, s, c, sink)
		},
	}
}

func groupEvents(s *Shard, c *session, sink GroupSink) watch[nstancev1.GroupEvent] {
	return watch[nstancev1.GroupEvent]{
		method: "WatchGroups",
		open: func(ctx context.Context) (grpc.ServerStreamingClient[nstancev1.GroupEvent], error) {
			return c.api.WatchGroups(ctx, &emptypb.Empty{})
		},
		take: func(e *nstancev1.GroupEvent) bool {
			if s.ours(e.GetGroup().GetTenant()) {
				sink.GroupEvent(s.name, e)
			}
			return false // groups change rarely, and have no heartbeat
		},
		opened: func() func() {
			c.relistNow(groupList)
			return nil
		},
	}
}

// listGroups is always complete.
func listGroups(ctx context.Context, s *Shard, c *session, sink GroupSink) (bool, error) {
	began := s.opts.Now()
	reply, err := invoke(ctx, s, c, methodListGroups, about{}, func(ctx context.Context, api api, o ...grpc.CallOption) (*nstancev1.ListGroupsResponse, error) {
		return api.ListGroups(ctx, &emptypb.Empty{}, o...)
	})
	if err != nil {
		return false, err
	}
	list := slices.DeleteFunc(reply.GetGroups(), func(g *nstancev1.GroupStatus) bool { return !s.ours(g.GetTenant()) })
	sink.GroupsListed(s.name, GroupList{Groups: list, Began: began, Term: c.term()})
	return true, nil
}
