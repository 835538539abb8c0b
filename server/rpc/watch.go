package rpc

import (
	"context"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// sendTimeout is how long a watcher may leave one event unread.
const sendTimeout = 30 * time.Second

// WatchGroups implements [nstancev1.OperatorServiceServer].
func (s *operatorService) WatchGroups(_ *emptypb.Empty, stream grpc.ServerStreamingServer[nstancev1.GroupEvent]) error {
	return watch(s, stream, func(ctx context.Context, c *caller, send func(*nstancev1.GroupEvent) error) error {
		return c.reign.WatchGroups(ctx, c.Tenant, send)
	})
}

// WatchInstances implements [nstancev1.OperatorServiceServer].
func (s *operatorService) WatchInstances(req *nstancev1.WatchInstancesRequest, stream grpc.ServerStreamingServer[nstancev1.InstanceEvent]) error {
	return watch(s, stream, func(ctx context.Context, c *caller, send func(*nstancev1.InstanceEvent) error) error {
		if req.CoordinatesDrains {
			if err := c.reign.CoordinateDrains(c.Peer); err != nil {
				return err
			}
		}
		return c.reign.WatchInstances(ctx, c.Tenant, send)
	})
}

// WatchErrors implements [nstancev1.OperatorServiceServer].
func (s *operatorService) WatchErrors(_ *emptypb.Empty, stream grpc.ServerStreamingServer[nstancev1.ErrorEvent]) error {
	return watch(s, stream, func(ctx context.Context, c *caller, send func(*nstancev1.ErrorEvent) error) error {
		return c.reign.WatchErrors(ctx, c.Tenant, send)
	})
}

// watch runs one stream of events. It ends with the caller, with the caller's
// record (S13), with its certificate, or when the caller stops to read: a send
// that waits for a reader knows of nothing else, so it runs beside.
func watch[E any](s *operatorService, stream grpc.ServerStreamingServer[E], run func(context.Context, *caller, func(*E) error) error) error {
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	c := callerOf(ctx)
	expiry := time.AfterFunc(c.NotAfter.Sub(s.opts.Now()), func() { end(errExpired) })
	defer expiry.Stop()
	stalled := time.AfterFunc(sendTimeout, func() { end(errStalled) })
	stalled.Stop()
	defer stalled.Stop()
	send := func(ev *E) error {
		stalled.Reset(sendTimeout)
		defer stalled.Stop()
		return stream.Send(ev)
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				s.opts.Log.ErrorContext(ctx, "watch panicked", "panic", r, "stack", string(debug.Stack()))
				done <- errInternal
			}
		}()
		done <- run(ctx, c, send)
	}()
	select {
	case err := <-done:
		if err == nil {
			err = context.Cause(ctx)
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.opts.Operators.Gone(c.ID):
		return errRevoked
	}
}
