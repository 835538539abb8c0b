package shardclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
)

// link is a connection to one address, which remembers why it is down: gRPC
// itself only tells a call, and a call may already be on its way then.
type link struct {
	cc  *grpc.ClientConn
	why *reason
}

type dialFunc = func(ctx context.Context, address string) (net.Conn, error)

func newLink(address string, config *tls.Config, dial dialFunc) (*link, error) {
	why := &reason{}
	cc, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(notingCredentials{credentials.NewTLS(config), why}),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dial(ctx, address)
			why.note(err)
			return conn, err
		}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: time.Second}),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
	)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &link{cc: cc, why: why}, nil
}

// connect waits until the link is up or known to be down. Nothing has been sent
// when it fails.
func (l *link) connect(ctx context.Context, timeout time.Duration) error {
	connectCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		state := l.cc.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return l.why.get("the connection failed")
		case connectivity.Idle:
			l.cc.Connect()
		}
		if !l.cc.WaitForStateChange(connectCtx, state) {
			return l.why.get("no connection after " + timeout.String())
		}
	}
}

// reason is the last thing that went wrong on a link.
type reason struct {
	mu  sync.Mutex
	err error
}

func (r *reason) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *reason) get(otherwise string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	return errors.New(otherwise)
}

// notingCredentials notes how handshakes end.
type notingCredentials struct {
	credentials.TransportCredentials
	why *reason
}

func (n notingCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := n.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		err = fmt.Errorf("%w: the server is not one of this shard and cluster: %w", ErrHandshake, err)
	}
	n.why.note(err)
	if err != nil {
		return nil, nil, err
	}
	return notingConn{conn, n.why}, info, nil
}

func (n notingCredentials) Clone() credentials.TransportCredentials {
	return notingCredentials{n.TransportCredentials.Clone(), n.why}
}

// notingConn notes a refusal that comes after the handshake: in TLS 1.3 a client
// hears only with its first read that its certificate was not accepted.
type notingConn struct {
	net.Conn
	why *reason
}

func (c notingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		c.why.note(fmt.Errorf("%w: the server refuses this identity: %w", ErrHandshake, err))
	}
	return n, err
}
