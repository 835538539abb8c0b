package shards

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// silence is how long a stream with heartbeats may say nothing.
	silence = 45 * time.Second
	// impatient is when to list again while not everything is known, or while no stream
	// says what happens.
	impatient = 5 * time.Second
)

// errSilent ends a stream that says nothing any more.
var errSilent = status.Error(codes.DeadlineExceeded, "the stream is silent")

// Stream is one kind of message that is received from every shard: a watch stream, and the
// list of the same things if there is one. Whoever makes a Stream names the sink that gets what
// it receives: see [WatchGroups], [WatchInstances], [WatchErrors] and [WatchMachines]. A further kind of message
// is a further Stream.
type Stream struct {
	// receive keeps the watch stream of a session open until the session is over.
	receive func(ctx context.Context, s *Shard, c *session)
	// list lists everything once; nil: there is no list. Its number is that of which.
	list  func(ctx context.Context, s *Shard, c *session) (complete bool, err error)
	which int
}

// watch is the watch stream of a session.
type watch[E any] struct {
	method string
	open   func(ctx context.Context) (grpc.ServerStreamingClient[E], error)
	// take handles an event; it returns whether the next one must come within silence.
	take func(*E) (strict bool)
	// strict is whether the first one must.
	strict bool
	// opened is called when the stream begins, and what it returns when that ends; nil: nothing is.
	opened func() (closed func())
}

// start begins to listen. The session ends with ctx, with [session.end], or when one of
// its streams finds out that the server no longer leads.
func (s *Shard) start(ctx context.Context, c *session) {
	ctx, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	loops.Go(func() {
		defer cancel()
		select {
		case <-ctx.Done():
		case <-c.over:
		}
	})
	for _, stream := range s.opts.Streams {
		loops.Go(func() { stream.receive(ctx, s, c) })
	}
	for _, stream := range s.opts.Streams {
		if stream.list != nil {
			loops.Go(func() { s.poll(ctx, c, stream) })
		}
	}
	go func() {
		defer close(c.done)
		loops.Wait()
	}()
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
		s.applySessionEvent(c, Lacks{method})
	}
	event := eventOf(class, err)
	if over {
		s.applyFinalEvent(c, event)
		return
	}
	s.applySessionEvent(c, event)
	if _, failed := event.(Failed); failed {
		c.relistNow(groupList)
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
	if closed := w.opened(); closed != nil {
		defer closed()
	}
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
			s.applySessionEvent(c, Has{w.method})
		}
		alarm.Stop()
		if w.take(event) {
			alarm.Reset(silence)
		}
	}
}

// poll lists when the stream of the same things begins, soon after it told of something
// new, and from time to time. It returns when the session is over.
func (s *Shard) poll(ctx context.Context, c *session, stream Stream) {
	next := impatient
	for failures := 0; ; {
		if !c.due(ctx, stream.which, next) {
			return
		}
		complete, err := stream.list(ctx, s, c)
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
		if c.complete(stream.which) {
			s.applySessionEvent(c, Synced{})
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
