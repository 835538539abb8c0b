package shards

import (
	"context"
	"time"

	"google.golang.org/grpc"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

const (
	// pageSize is how many instances come at once.
	pageSize = 1000
	// maxPages is far more than a shard has; a server that goes on names no end.
	maxPages = 200
)

// InstanceSink receives the tenant's instances. What is said of a sink at [Sink] applies.
type InstanceSink interface {
	// InstancesListed reports a list of the instances.
	InstancesListed(shard string, list InstanceList)
	// InstanceEvent reports a change, or an item of the snapshot; `snapshot_end` is
	// passed on, `heartbeat` is not.
	InstanceEvent(shard string, event *nstancev1.InstanceEvent)
}

// InstanceList is the result of ListInstances, all pages.
type InstanceList struct {
	Instances []*nstancev1.InstanceStatus
	// Complete is false while the leader does not know the whole shard: absence from the
	// list then means nothing.
	Complete bool
	Began    time.Time // as in GroupList
	Term     int64     // as in GroupList
}

// WatchInstances returns the stream and the list of instances.
func WatchInstances(sink InstanceSink) Stream {
	return Stream{
		receive: func(ctx context.Context, s *Shard, c *session) { listen(ctx, s, c, instanceEvents(s, c, sink)) },
		which:   instanceList,
		list: func(ctx context.Context, s *Shard, c *session) (bool, error) {
			return listInstances(ctx, s, c, sink)
		},
	}
}

// instanceEvents lists when the snapshot has ended: then no change falls between the two.
// A server without heartbeats shows so by sending none; its stream may be silent.
func instanceEvents(s *Shard, c *session, sink InstanceSink) watch[nstancev1.InstanceEvent] {
	beats := false
	return watch[nstancev1.InstanceEvent]{
		method: "WatchInstances",
		open: func(ctx context.Context) (grpc.ServerStreamingClient[nstancev1.InstanceEvent], error) {
			return c.api.WatchInstances(ctx, &nstancev1.WatchInstancesRequest{CoordinatesDrains: s.opts.CoordinatesDrains})
		},
		take: func(e *nstancev1.InstanceEvent) bool {
			switch e.GetStatus() {
			case "heartbeat":
				beats = true
				if digest := e.GetConfigDigest(); digest != "" {
					s.applySessionEvent(c, Configured{digest})
				}
				return true
			case "snapshot_end":
				c.relistNow(instanceList)
				sink.InstanceEvent(s.name, e)
			default:
				if !s.ours(e.GetTenant()) {
					break
				}
				if e.GetStatus() == "created" && e.GetInstance().GetProviderUri() == "" {
					c.relistSoon(instanceList) // what its provider calls it is no event
				}
				sink.InstanceEvent(s.name, e)
			}
			return beats
		},
		strict: true,
		opened: func() func() { return nil },
	}
}

// listInstances is complete if every page is.
func listInstances(ctx context.Context, s *Shard, c *session, sink InstanceSink) (bool, error) {
	list := InstanceList{Complete: true, Began: s.opts.Now(), Term: c.term()}
	token := ""
	for range maxPages {
		page, err := invoke(ctx, s, c, methodListInstances, about{}, func(ctx context.Context, api api, o ...grpc.CallOption) (*nstancev1.ListInstancesResponse, error) {
			return api.ListInstances(ctx, &nstancev1.ListInstancesRequest{PageToken: token, PageSize: pageSize}, o...)
		})
		if err != nil {
			return false, err
		}
		for _, in := range page.GetInstances() {
			if s.ours(in.GetTenant()) {
				list.Instances = append(list.Instances, in)
			}
		}
		list.Complete = list.Complete && page.GetComplete()
		next := page.GetNextPageToken()
		if next == "" {
			sink.InstancesListed(s.name, list)
			return list.Complete, nil
		}
		if next == token {
			break
		}
		token = next
	}
	endless := s.failure(ctx, methodListInstances, errEndless)
	s.conclude(c, endless, nil)
	return false, endless
}
