package rpc

import (
	"context"
	"net"

	"golang.org/x/time/rate"
)

// Handshakes are what a stranger can make a server do at the smallest price, so
// a listener begins only so many in a second. The rest waits in the backlog of
// the operating system: after a change of leader, all agents come at once.
const (
	handshakesPerSecond = 500
	handshakeBurst      = 100
)

// paced is a listener that accepts at a bounded pace.
type paced struct {
	net.Listener
	bucket *rate.Limiter
	ctx    context.Context //nolint:containedctx // ends with Close: a wait is no call that a caller could cancel
	stop   context.CancelFunc
}

func newPaced(l net.Listener) *paced {
	ctx, stop := context.WithCancel(context.Background())
	return &paced{Listener: l, bucket: rate.NewLimiter(handshakesPerSecond, handshakeBurst), ctx: ctx, stop: stop}
}

// Accept waits for a token and then for a connection.
func (p *paced) Accept() (net.Conn, error) {
	if err := p.bucket.Wait(p.ctx); err != nil {
		return nil, net.ErrClosed
	}
	return p.Listener.Accept()
}

// Close ends Accept.
func (p *paced) Close() error {
	p.stop()
	return p.Listener.Close()
}
