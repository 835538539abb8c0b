package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// watch answers with one of a shard's streams as server-sent events: each of its messages
// is an event, named after what it is about, with a number that grows. A reader that comes
// back starts with the snapshot of the stream again, wherever it was: there is no log to
// go on in.
func (g *Gateway) watch(w http.ResponseWriter, r *http.Request, s *shard, what string) {
	stream, err := openStream(r, s, what)
	if err != nil {
		WriteError(w, err)
		return
	}
	select {
	case g.streams <- struct{}{}:
		defer func() { <-g.streams }()
	default:
		WriteError(w, Errorf(codes.ResourceExhausted, "TOO_MANY_STREAMS", "%d streams are open, which is as many as there may be", cap(g.streams)))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	messages, ended := pump(ctx, stream)
	var first proto.Message
	select {
	case first = <-messages:
	case err := <-ended:
		WriteError(w, err)
		return
	case <-time.After(g.opts.FirstAnswer):
	case <-ctx.Done():
		return
	}
	out := NewEvents(w, g.opts.WriteTimeout)
	if err := out.Begin(); err != nil {
		return // the reader is gone
	}
	if first != nil && out.message(stream.event, first) != nil {
		return
	}
	_ = g.relay(ctx, out, stream.event, messages, ended) // the reader is gone, or slow: there is nobody to tell
}

// relay passes a stream on until one of its ends fails.
func (g *Gateway) relay(ctx context.Context, out *Events, event string, messages <-chan proto.Message, ended <-chan error) error {
	heartbeat := time.NewTicker(g.opts.Heartbeat)
	defer heartbeat.Stop()
	for {
		var err error
		select {
		case m := <-messages:
			err = out.message(event, m)
		case <-heartbeat.C:
			err = out.Comment("heartbeat")
		case end := <-ended:
			return sendEnd(ctx, out, end)
		case <-ctx.Done():
			return sendEnd(ctx, out, ctx.Err())
		}
		if err != nil {
			return err
		}
	}
}

// sendEnd says why a stream ends. Where its reader may read no more, its context says so; a
// context that has ended without a reason has nobody to tell.
func sendEnd(ctx context.Context, out *Events, why error) error {
	if cause := context.Cause(ctx); cause != nil {
		if _, told := status.FromError(cause); !told {
			return cause
		}
		why = cause
	}
	text, _ := encodeError(why)
	return out.Send("end", text)
}

// serverStream is a stream of a shard that is not open yet.
type serverStream struct {
	event string // what its messages are called
	open  func(context.Context) (next func() (proto.Message, error), err error)
}

// openStream returns the stream that the last part of a path names.
func openStream(r *http.Request, s *shard, what string) (*serverStream, error) {
	for name := range r.URL.Query() {
		if what != "instances" || !slices.Contains(drainParameters, name) {
			return nil, Errorf(codes.InvalidArgument, "UNKNOWN_PARAMETER", "parameter %q: the stream has no parameter of that name", name)
		}
	}
	switch what {
	case "groups":
		return &serverStream{"group", func(ctx context.Context) (func() (proto.Message, error), error) {
			return reader(s.api.WatchGroups(ctx, &emptypb.Empty{}))
		}}, nil
	case "instances":
		req := &nstancev1.WatchInstancesRequest{CoordinatesDrains: coordinatesDrains(r)}
		return &serverStream{"instance", func(ctx context.Context) (func() (proto.Message, error), error) {
			return reader(s.api.WatchInstances(ctx, req))
		}}, nil
	case "errors":
		return &serverStream{"failure", func(ctx context.Context) (func() (proto.Message, error), error) {
			return reader(s.api.WatchErrors(ctx, &emptypb.Empty{}))
		}}, nil
	case "machines":
		return &serverStream{"machine", func(ctx context.Context) (func() (proto.Message, error), error) {
			return reader(s.api.WatchMachines(ctx, &nstancev1.WatchMachinesRequest{}))
		}}, nil
	}
	return nil, Errorf(codes.NotFound, "UNKNOWN_STREAM", "watch/%s: it must be one of groups, instances, errors, machines", what)
}

// reader makes one kind of the streams of all messages.
func reader[E any, M interface {
	*E
	proto.Message
}](stream grpc.ServerStreamingClient[E], err error) (func() (proto.Message, error), error) {
	if err != nil {
		return nil, err
	}
	return func() (proto.Message, error) {
		e, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		return M(e), nil
	}, nil
}

// pump reads a stream in a goroutine that ends with ctx. It takes the next message only
// when the one before was taken: who does not read holds the shard up, which ends it.
func pump(ctx context.Context, s *serverStream) (<-chan proto.Message, <-chan error) {
	messages, ended := make(chan proto.Message), make(chan error, 1)
	go func() {
		next, err := s.open(ctx)
		for err == nil {
			var m proto.Message
			if m, err = next(); err != nil {
				break
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if errors.Is(err, io.EOF) {
			err = Errorf(codes.Unavailable, "STREAM_ENDED", "the shard has ended the stream; open it again")
		}
		ended <- err
	}()
	return messages, ended
}

// drainParameters are the names of the one parameter that a stream may have.
var drainParameters = []string{"coordinatesDrains", "coordinates_drains"}

// coordinatesDrains reports whether a reader says that it moves work away. What can't be
// read counts as yes, which needs more than to read.
func coordinatesDrains(r *http.Request) bool {
	q := r.URL.Query()
	for _, name := range drainParameters {
		for _, value := range q[name] {
			if on, err := strconv.ParseBool(value); err != nil || on {
				return true
			}
		}
	}
	return false
}
