package operatorapi

import (
	"context"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/refusal"
)

var (
	errRevoked = refusal.New(refusal.PermissionDenied, "UNKNOWN_OPERATOR", "%v", operatorauth.ErrUnknown)
	errStalled = refusal.New(refusal.ResourceExhausted, "WATCHER_TOO_SLOW", "the watcher does not read; connect again for a new snapshot")
)

// sendTimeout is how long a watcher may leave one event unread.
const sendTimeout = 30 * time.Second

// WatchGroups implements [nstancev1.OperatorServiceServer].
func (s *Service) WatchGroups(_ *emptypb.Empty, stream grpc.ServerStreamingServer[nstancev1.GroupEvent]) error {
	return watch(s, stream, func(ctx context.Context, c *Caller, send func(*nstancev1.GroupEvent) error) error {
		return c.leader().WatchGroups(ctx, c.Tenant, send)
	})
}

// WatchInstances implements [nstancev1.OperatorServiceServer].
func (s *Service) WatchInstances(req *nstancev1.WatchInstancesRequest, stream grpc.ServerStreamingServer[nstancev1.InstanceEvent]) error {
	return watch(s, stream, func(ctx context.Context, c *Caller, send func(*nstancev1.InstanceEvent) error) error {
		if req.CoordinatesDrains {
			if c.Role == identity.RoleViewer {
				return refusal.New(refusal.PermissionDenied, "READ_ONLY",
					"coordinates_drains: a viewer may look and change nothing, and machines would wait for who coordinates drains")
			}
			if err := c.Term.Requests().CoordinateDrains(c.Peer); err != nil {
				return err
			}
		}
		return c.leader().WatchInstances(ctx, c.Tenant, send)
	})
}

// WatchErrors implements [nstancev1.OperatorServiceServer].
func (s *Service) WatchErrors(_ *emptypb.Empty, stream grpc.ServerStreamingServer[nstancev1.ErrorEvent]) error {
	return watch(s, stream, func(ctx context.Context, c *Caller, send func(*nstancev1.ErrorEvent) error) error {
		return c.leader().WatchErrors(ctx, c.Tenant, send)
	})
}

// WatchMachines implements [nstancev1.OperatorServiceServer].
func (s *Service) WatchMachines(_ *nstancev1.WatchMachinesRequest, stream grpc.ServerStreamingServer[nstancev1.MachineEvent]) error {
	return watch(s, stream, func(ctx context.Context, c *Caller, send func(*nstancev1.MachineEvent) error) error {
		return c.leader().WatchMachines(ctx, c.Tenant, send)
	})
}

// watch runs one stream of events. It ends with the caller, with the caller's
// record (S13), with its certificate, or when the caller stops to read: a send
// that waits for a reader knows of nothing else, so it runs beside.
func watch[E any](s *Service, stream grpc.ServerStreamingServer[E], run func(context.Context, *Caller, func(*E) error) error) error {
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	c := CallerOf(ctx)
	expiry := time.AfterFunc(c.NotAfter.Sub(s.opts.Now()), func() { end(refusal.ErrCertificateExpired) })
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
				done <- refusal.ErrInternal
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
