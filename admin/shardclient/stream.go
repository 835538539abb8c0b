package shardclient

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// NewStream implements grpc.ClientConnInterface for streams from the server. The
// request is sent with the first Recv, which finds the leader as a call does.
// After its first message the stream stays with its server, and a caller whose
// stream breaks opens another one.
func (c *Conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if desc.ClientStreams {
		return nil, errors.New("streams from the client are not supported")
	}
	return &stream{ctx: ctx, conn: c, desc: desc, method: method, opts: opts}, nil
}

// stream is a stream from the server that is opened late.
type stream struct {
	ctx     context.Context //nolint:containedctx // a gRPC stream carries the context that it was opened with
	conn    *Conn
	desc    *grpc.StreamDesc
	method  string
	opts    []grpc.CallOption
	request any
	open    grpc.ClientStream // nil until the first message
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) CloseSend() error { return nil }

func (s *stream) SendMsg(m any) error {
	s.request = m
	return nil
}

func (s *stream) Header() (metadata.MD, error) {
	if s.open == nil {
		return nil, nil
	}
	return s.open.Header()
}

func (s *stream) Trailer() metadata.MD {
	if s.open == nil {
		return nil
	}
	return s.open.Trailer()
}

func (s *stream) RecvMsg(m any) error {
	if s.open != nil {
		return s.open.RecvMsg(m)
	}
	return s.conn.try(s.ctx, true, func(cc *grpc.ClientConn) (metadata.MD, error) {
		opened, err := cc.NewStream(s.ctx, s.desc, s.method, s.opts...)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(opened.SendMsg(s.request), opened.CloseSend()); err != nil {
			return nil, err
		}
		if err := opened.RecvMsg(m); err != nil {
			return opened.Trailer(), err
		}
		s.open = opened
		return nil, nil
	})
}
