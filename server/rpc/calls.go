package rpc

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// admitCall stands before every call, even one that its caller has given up already. A
// connection that makes more calls than any client of ours has no further use: it ends.
func admitCall(ctx context.Context, _ *tap.Info) (context.Context, error) {
	client := clientOf(ctx)
	if client == nil || client.calls == nil || client.calls.Allow() {
		return ctx, nil
	}
	if client.conn != nil {
		_ = client.conn.Close() // it is to go
	}
	return nil, status.Error(codes.ResourceExhausted, "too many calls in one connection")
}

// clientOf is what the connection of a call knows of its client; nil: nothing.
func clientOf(ctx context.Context) *identified {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	client, _ := p.AuthInfo.(*identified)
	return client
}

// own notes whose the connection is.
func (i *identified) own(owner string) {
	if i != nil && i.conn != nil {
		i.conn.Own(owner)
	}
}
