package lease_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"nstance.dev/server/lease"
)

// reach is how a node is connected to the other servers, in both directions.
type reach int

const (
	answers reach = iota
	refuses       // at once
	hangs         // until the caller has had enough
)

// peers is one node's way to the others. The way to the store is another one.
type peers struct {
	mu    sync.Mutex
	reach reach
	calls int // that the node was asked
}

func (p *peers) set(r reach) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reach = r
}

func (p *peers) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

var errRefused = errors.New("connection refused")

// pass carries a call through the node's end of the connection. A caller that
// is frozen itself can't give up in time.
func (n *node) pass(ctx context.Context, caller bool) error {
	n.peers.mu.Lock()
	reach := n.peers.reach
	n.peers.mu.Unlock()
	switch reach {
	case refuses:
		return errRefused
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	n.net.mu.Lock()
	frozen := n.net.frozen
	n.net.mu.Unlock()
	thaw := time.After(time.Until(frozen))
	if caller {
		<-thaw
		return nil
	}
	select {
	case <-thaw:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask is the peer transport of the server that listens at self. A server
// that was frozen amid a call hears an answer that is old.
func (c *cluster) ask(self string) func(context.Context, string) (lease.Document, error) {
	return func(ctx context.Context, addr string) (lease.Document, error) {
		c.mu.Lock()
		from, to := c.servers[self], c.servers[addr]
		c.mu.Unlock()
		if to == nil {
			return lease.Document{}, errRefused
		}
		for _, n := range []*node{from, to} {
			if err := n.pass(ctx, n == from); err != nil {
				return lease.Document{}, err
			}
		}
		to.peers.mu.Lock()
		to.peers.calls++
		to.peers.mu.Unlock()
		doc, ok := to.Held()
		if !ok {
			return lease.Document{}, lease.ErrNotLeader
		}
		return doc, from.pass(ctx, true)
	}
}

// inPeerMode lets a server ask the others.
func (c *cluster) inPeerMode(o *lease.Options) { o.Ask = c.ask(o.LeaderAddr) }
