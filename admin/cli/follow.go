package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/shardclient"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// reopenPause is how long a broken stream rests before it is opened again.
const reopenPause = time.Second

// watchShards follows all selected shards at once, until ctx ends, which is no
// error, or one of them cannot be followed any more.
func watchShards(ctx context.Context, env *Env, f *shardFlags, watch func(context.Context, *shard) error) error {
	shards, done, err := openShards(env, f)
	if err != nil {
		return err
	}
	defer done()
	group, groupCtx := errgroup.WithContext(ctx)
	for _, s := range shards {
		group.Go(func() error { return s.wrap(watch(groupCtx, s)) })
	}
	err = group.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// receiver is a stream of events.
type receiver[E any] interface {
	Recv() (*E, error)
}

// follow hands every event of a stream to handle. A stream that breaks is opened
// again; whoever handles events has to bear that some come twice.
func follow[E any](ctx context.Context, env *Env, s *shard, open func(context.Context) (receiver[E], error), handle func(*E) error) error {
	for {
		err := followOnce(ctx, open, handle)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !reopens(err) {
			return err
		}
		fmt.Fprintf(env.Err, "%sthe stream has ended (%s), opening it again\n", s.prefix(), text(err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reopenPause):
		}
	}
}

func followOnce[E any](ctx context.Context, open func(context.Context) (receiver[E], error), handle func(*E) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return err
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := handle(event); err != nil {
			return err
		}
	}
}

// reopens reports whether a stream's end is one that another stream mends: its
// server has gone, or was faster than we. That no server was found in time is
// the end.
func reopens(err error) bool {
	if _, ok := errors.AsType[*shardclient.UnavailableError](err); ok {
		return false
	}
	return errors.Is(err, io.EOF) || status.Code(err) == codes.Unavailable || status.Code(err) == codes.ResourceExhausted
}

// watchGroups hands on the events of groups. What a new stream repeats is left
// out.
func watchGroups(ctx context.Context, env *Env, s *shard, handle func(*nstancev1.GroupEvent) error) error {
	last := map[string]*nstancev1.GroupStatus{}
	return follow(ctx, env, s, openGroupEvents(s), func(e *nstancev1.GroupEvent) error {
		key := e.GetGroup().GetKey()
		if e.GetType() == groupDeleted {
			delete(last, key)
		} else if proto.Equal(last[key], e.GetGroup()) {
			return nil
		} else {
			last[key] = e.GetGroup()
		}
		return handle(e)
	})
}

// groupDeleted is the type of the event about a group that is no more.
const groupDeleted = "DELETE"

func openGroupEvents(s *shard) func(context.Context) (receiver[nstancev1.GroupEvent], error) {
	return func(ctx context.Context) (receiver[nstancev1.GroupEvent], error) {
		return s.api.WatchGroups(ctx, &emptypb.Empty{})
	}
}

func openInstanceEvents(s *shard) func(context.Context) (receiver[nstancev1.InstanceEvent], error) {
	return func(ctx context.Context) (receiver[nstancev1.InstanceEvent], error) {
		return s.api.WatchInstances(ctx, &nstancev1.WatchInstancesRequest{})
	}
}
