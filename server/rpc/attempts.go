package rpc

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/peer"

	"nstance.dev/server/conns"
)

// Limits of registrations that are not known beforehand to be wanted.
const (
	attemptsPerSource   = 10 // a second
	burstPerSource      = 50
	attemptsPerListener = 200 // a second
	sourcesRemembered   = 4096
)

// attempts limits the registrations of each source and of all together. Sources
// are kept in two generations: when the young one is full the old one is
// forgotten, so memory is bounded and whoever comes often stays known.
type attempts struct {
	now func() time.Time

	mu         sync.Mutex
	all        *rate.Limiter
	young, old map[netip.Prefix]*rate.Limiter
}

func newAttempts(now func() time.Time) *attempts {
	return &attempts{
		now: now, all: rate.NewLimiter(attemptsPerListener, attemptsPerListener),
		young: map[netip.Prefix]*rate.Limiter{},
	}
}

// allow takes a token of the source and one of the listener. A source that has
// none left takes none from the others.
func (a *attempts) allow(source netip.Addr) bool {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of(conns.Source(source)).AllowN(now, 1) && a.all.AllowN(now, 1)
}

// of needs mu.
func (a *attempts) of(source netip.Prefix) *rate.Limiter {
	if l, ok := a.young[source]; ok {
		return l
	}
	l, ok := a.old[source]
	if !ok {
		l = rate.NewLimiter(attemptsPerSource, burstPerSource)
	}
	if len(a.young) >= sourcesRemembered/2 {
		a.young, a.old = map[netip.Prefix]*rate.Limiter{}, a.young
	}
	a.young[source] = l
	return l
}

// sourceOf returns the address that a call comes from, as far as it has one.
func sourceOf(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	at, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}
