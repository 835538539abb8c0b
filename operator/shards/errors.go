package shards

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// ErrorSink receives what goes wrong in the shards. What is said of a sink at [Sink] applies.
type ErrorSink interface {
	// ErrorEvent reports something that went wrong in the shard.
	ErrorEvent(shard string, event *nstancev1.ErrorEvent)
}

// WatchErrors returns the stream of errors. It has no list.
func WatchErrors(sink ErrorSink) Stream {
	return Stream{receive: func(ctx context.Context, s *Shard, c *session) { listen(ctx, s, c, errorEvents(s, c, sink)) }}
}

func errorEvents(s *Shard, c *session, sink ErrorSink) watch[nstancev1.ErrorEvent] {
	return watch[nstancev1.ErrorEvent]{
		method: "WatchErrors",
		open: func(ctx context.Context) (grpc.ServerStreamingClient[nstancev1.ErrorEvent], error) {
			return c.api.WatchErrors(ctx, &emptypb.Empty{})
		},
		take: func(e *nstancev1.ErrorEvent) bool {
			sink.ErrorEvent(s.name, e)
			return false
		},
		opened: func() func() { return nil },
	}
}
