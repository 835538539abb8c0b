package shards

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

const (
	// pageSize is how many instances come at once.
	pageSize = 1000
	// maxPages is far more than a shard has; a server that goes on names no end.
	maxPages = 200
	// impatient is when to list again while not everything is known, or while no stream
	// says what happens.
	impatient = 5 * time.Second
	// soon is when to list after an event told of something new: what its provider calls it
	// was not known yet, and one list tells of many.
	soon = 2 * time.Second
)

// poll lists when the stream of the same things begins, soon after it told of something
// new, and from time to time. It returns when the session is over.
func (s *Shard) poll(ctx context.Context, c *session, which int, list func(context.Context, *session) (complete bool, err error)) {
	next := impatient
	for failures := 0; ; {
		if !c.due(ctx, which, next) {
			return
		}
		complete, err := list(ctx, c)
		class := ClassOf(err)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && class != Unimplemented:
			failures++
			next = Pause(class, failures, s.opts.Random())
			continue
		}
		failures, next = 0, impatient
		if !complete && class != Unimplemented {
			continue
		}
		next = time.Duration(float64(s.opts.PollInterval) * (0.9 + 0.2*s.opts.Random()))
		if c.complete(which) {
			s.hear(c, Synced{})
		}
	}
}

// listGroups is always complete.
func (s *Shard) listGroups(ctx context.Context, c *session) (bool, error) {
	began := s.opts.Now()
	reply, err := invoke(ctx, s, c, methodListGroups, about{}, func(ctx context.Context, api api, o ...grpc.CallOption) (*nstancev1.ListGroupsResponse, error) {
		return api.ListGroups(ctx, &emptypb.Empty{}, o...)
	})
	if err != nil {
		return false, err
	}
	list := slices.DeleteFunc(reply.GetGroups(), func(g *nstancev1.GroupStatus) bool { return !s.ours(g.GetTenant()) })
	s.opts.Sink.GroupsListed(s.name, GroupList{Groups: list, Began: began, Term: c.term()})
	return true, nil
}

// listInstances is complete if every page is.
func (s *Shard) listInstances(ctx context.Context, c *session) (bool, error) {
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
			s.opts.Sink.InstancesListed(s.name, list)
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
