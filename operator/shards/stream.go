package shards

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// silence is how long a stream with heartbeats may say nothing.
const silence = 45 * time.Second

// errSilent ends a stream that says nothing any more.
var errSilent = status.Error(codes.DeadlineExceeded, "the stream is silent")

// watch is one of the three streams.
type watch[E any] struct {
	method string
	open   func(ctx context.Context) (grpc.ServerStreamingClient[E], error)
	// take handles an event; it returns whether the next one must come within silence.
	take func(*E) (strict bool)
	// strict is whether the first one must.
	strict bool
	// opened is called when the stream begins.
	opened func()
}

func (s *Shard) groupStream(c *session) watch[nstancev1.GroupEvent] {
	return watch[nstancev1.GroupEvent]{
		method: "WatchGroups",
		open: func(ctx context.Context) (grpc.ServerStreamingClient[nstancev1.GroupEvent], error) {
			return c.api.WatchGroups(ctx, &emptypb.Empty{})
		},
		take: func(e *nstancev1.GroupEvent) bool {
			if s.ours(e.GetGroup().GetTenant()) {
				s.opts.Sink.GroupEvent(s.name, e)
			}
			return false // groups change rarely, and have no heartbeat
		},
		opened: func() { c.relist(groups) },
	}
}

// instanceStream lists when the snapshot has ended: then no change falls between the two.
// A server without heartbeats shows so by sending none; its stream may be silent.
func (s *Shard) instanceStream(c *session) watch[nstancev1.InstanceEvent] {
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
					s.hear(c, Configured{digest})
				}
				return true
			case "snapshot_end":
				c.relist(instances)
				s.opts.Sink.InstanceEvent(s.name, e)
			default:
				if !s.ours(e.GetTenant()) {
					break
				}
				if e.GetStatus() == "created" && e.GetInstance().GetProviderUri() == "" {
					c.tell(instances) // what its provider calls it is no event
				}
				s.opts.Sink.InstanceEvent(s.name, e)
			}
			return beats
		},
		strict: true,
		opened: func() {},
	}
}

func (s *Shard) errorStream(c *session) watch[nstancev1.ErrorEvent] {
	return watch[nstancev1.ErrorEvent]{
		method: "WatchErrors",
		open: func(ctx context.Context) (grpc.ServerStreamingClient[nstancev1.ErrorEvent], error) {
			return c.api.WatchErrors(ctx, &emptypb.Empty{})
		},
		take: func(e *nstancev1.ErrorEvent) bool {
			s.opts.Sink.ErrorEvent(s.name, e)
			return false
		},
		opened: func() {},
	}
}

// ours drops what belongs to another tenant: a server's fault must not become our data.
func (s *Shard) ours(tenant string) bool {
	if tenant == "" || tenant == s.opts.Tenant {
		return true
	}
	s.opts.Observer.foreignTenant(s.name)
	s.opts.Log.Warn("dropped what belongs to another tenant")
	return false
}

// listen keeps one stream of a session open. It returns when the session is over: because
// ctx ends, or because the server no longer serves and all streams have to go elsewhere.
func listen[E any](ctx context.Context, s *Shard, c *session, w watch[E]) {
	for failures := 0; ; {
		began := s.opts.Now()
		err := receive(ctx, s, c, w)
		if ctx.Err() != nil {
			return
		}
		class, _ := Classify(c.why.Of(err))
		over := endsSession(class, err)
		s.restarted(c, w.method, class, err, over)
		if s.opts.Now().Sub(began) >= healthy {
			failures = 0
		}
		failures++
		switch {
		case over, class == Unimplemented:
			return // until the next session
		case class == Exhausted && failures == 1:
			continue // we were slow once
		}
		if !sleep(ctx, Pause(class, failures, s.opts.Random())) {
			return
		}
	}
}

// endsSession reports whether a stream that ended so takes the others with it: the server
// no longer serves, or not us.
func endsSession(class Class, err error) bool {
	switch class {
	case Unavailable:
		return !errors.Is(err, errSilent)
	case AuthFailed, TenantUnknown, Mismatch:
		return true
	}
	return false
}

// restarted reports the end of a stream, and leaves the session if it is over with it. If
// not, a list shows soon whether it was this stream alone, as with a call that failed.
func (s *Shard) restarted(c *session, method string, class Class, err error, over bool) {
	reason := string(class)
	if errors.Is(err, errSilent) {
		reason = "silent"
	}
	s.opts.Observer.restart(s.name, method, reason)
	s.opts.Log.Info("stream ended", "stream", method, "reason", reason, "error", err)
	switch class {
	case Unimplemented, Denied, Precondition, Invalid: // the shard answers, and this is not heard
		s.hear(c, Lacks{method})
	}
	event := eventOf(class, words(err))
	if over {
		s.leave(c, event)
		return
	}
	s.hear(c, event)
	if _, failed := event.(Failed); failed {
		c.relist(groups)
	}
}

// receive opens a stream once and hands on what it says until it ends.
func receive[E any](ctx context.Context, s *Shard, c *session, w watch[E]) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	alarm := time.AfterFunc(silence, func() { end(errSilent) })
	defer alarm.Stop()
	stream, err := w.open(ctx)
	if err != nil {
		return err
	}
	s.opts.Log.DebugContext(ctx, "stream opened", "stream", w.method)
	w.opened()
	if !w.strict {
		alarm.Stop()
	}
	for first := true; ; first = false {
		event, err := stream.Recv()
		if err != nil {
			s.point(leaderOf(stream.Trailer()))
		}
		switch {
		case errors.Is(err, io.EOF):
			return status.Error(codes.Unavailable, "the server ended the stream")
		case err != nil && errors.Is(context.Cause(ctx), errSilent):
			return errSilent
		case err != nil:
			return err
		}
		if first {
			s.hear(c, Has{w.method})
		}
		alarm.Stop()
		if w.take(event) {
			alarm.Reset(silence)
		}
	}
}

// sleep waits, and reports whether ctx still goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
