package conns_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"nstance.dev/server/conns"
)

// queue is a listener whose connections a test puts there.
type queue struct {
	waiting chan net.Conn
}

func (q *queue) Accept() (net.Conn, error) {
	c, ok := <-q.waiting
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (q *queue) Close() error   { close(q.waiting); return nil }
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }

// from is a connection of a source.
type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }

// stage is a listener, and a clock that a test turns.
type stage struct {
	t      *testing.T
	q      *queue
	l      *conns.Listener
	now    time.Time
	closed map[conns.Reason]int
}

func newStage(t *testing.T, limits conns.Limits) *stage {
	t.Helper()
	s := &stage{t: t, q: &queue{make(chan net.Conn, 1)}, now: time.Unix(0, 0), closed: map[conns.Reason]int{}}
	s.l = conns.Limit(s.q, conns.Options{
		Limits: limits, Now: func() time.Time { return s.now },
		Closed: func(_ netip.Addr, why conns.Reason) { s.closed[why]++ },
	})
	return s
}

// client is the other end of a connection.
type client struct {
	net.Conn
	server *conns.Conn
}

func (s *stage) connect(source string) client {
	s.t.Helper()
	near, far := net.Pipe()
	s.t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	s.q.waiting <- from{far, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(source), 1))}
	accepted, err := s.l.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	c, ok := accepted.(*conns.Conn)
	if !ok {
		s.t.Fatalf("accepted a %T", accepted)
	}
	return client{near, c}
}

// open reports whether the server has left the connection open.
func (c client) open() bool {
	_ = c.SetReadDeadline(time.Now())
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// TestS22_SilentStrangersOfOneSourceKeepNobodyOut: of a source, the oldest strangers go,
// and neither those that just came nor others' connections.
func TestS22_SilentStrangersOfOneSourceKeepNobodyOut(t *testing.T) {
	s := newStage(t, conns.Limits{Total: 100, PerSource: 3})
	other := s.connect("10.0.0.2")
	var mine []client
	for range 5 {
		mine = append(mine, s.connect("10.0.0.1"))
	}
	for i, c := range mine {
		if !c.open() {
			t.Errorf("connection %d of five that came at once was closed", i)
		}
	}
	s.now = s.now.Add(2 * time.Second)
	mine = append(mine, s.connect("10.0.0.1"))
	for i, want := range []bool{false, false, false, true, true, true} {
		if mine[i].open() != want {
			t.Errorf("two seconds later: connection %d open: %t, want %t", i, !want, want)
		}
	}
	if !other.open() || s.l.Open() != 4 || s.closed[conns.TooManyOfSource] != 3 {
		t.Errorf("%d are open, closed: %v", s.l.Open(), s.closed)
	}
}

// TestS22_AHostsManyAddressesAreOneSource: whoever has an IPv6 network has 2^64 addresses.
func TestS22_AHostsManyAddressesAreOneSource(t *testing.T) {
	s := newStage(t, conns.Limits{Total: 100, PerSource: 1})
	a, b := s.connect("2001:db8::1"), s.connect("2001:db8:0:1::1")
	s.now = s.now.Add(2 * time.Second)
	c := s.connect("2001:db8::2")
	if a.open() || !b.open() || !c.open() {
		t.Errorf("open: %t, %t, %t; want the first of the same network closed", a.open(), b.open(), c.open())
	}
}

// TestS22_StrangersGoBeforeOwners: at the total, the oldest stranger goes; a listener full
// of connections whose owners are known takes no more.
func TestS22_StrangersGoBeforeOwners(t *testing.T) {
	s := newStage(t, conns.Limits{Total: 3})
	known := s.connect("10.0.0.1")
	known.server.Own("a")
	first, second := s.connect("10.0.0.2"), s.connect("10.0.0.3")
	third := s.connect("10.0.0.4")
	if !known.open() || first.open() || !second.open() || !third.open() {
		t.Errorf("open: %t, %t, %t, %t", known.open(), first.open(), second.open(), third.open())
	}
	second.server.Own("b")
	third.server.Own("c")
	near, far := net.Pipe()
	defer near.Close()
	s.q.waiting <- from{far, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5)}}
	ended := make(chan error, 1)
	go func() { _, err := s.l.Accept(); ended <- err }()
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a newcomer to a full listener: %v, want it closed", err)
	}
	_ = s.l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if s.l.Open() != 3 || s.closed[conns.TooMany] != 2 {
		t.Errorf("%d open, closed: %v", s.l.Open(), s.closed)
	}
}

// TestS22_ASourceWithTooManyMakesRoomItself: at the total, connections that one source opens
// faster than they grow old close none of another's.
func TestS22_ASourceWithTooManyMakesRoomItself(t *testing.T) {
	s := newStage(t, conns.Limits{Total: 4, PerSource: 2})
	probe := s.connect("10.0.0.2")
	for range 20 {
		s.connect("10.0.0.1")
	}
	if !probe.open() {
		t.Error("a connection of another source was closed")
	}
	if late := s.connect("10.0.0.3"); !late.open() || s.l.Open() != 4 {
		t.Errorf("a newcomer is in: %t; %d are open", late.open(), s.l.Open())
	}
}

// TestS22_OneOwnersConnectionsAreBounded: its oldest goes, and nobody else's.
func TestS22_OneOwnersConnectionsAreBounded(t *testing.T) {
	s := newStage(t, conns.Limits{Total: 100, PerOwner: 2})
	other := s.connect("10.0.0.1")
	other.server.Own("b")
	var mine []client
	for range 4 {
		c := s.connect("10.0.0.1")
		c.server.Own("a")
		mine = append(mine, c)
	}
	if !other.open() || mine[0].open() || mine[1].open() || !mine[2].open() || !mine[3].open() {
		t.Errorf("open: other %t, mine %t %t %t %t", other.open(), mine[0].open(), mine[1].open(), mine[2].open(), mine[3].open())
	}
}

func TestClosedConnectionsMakeRoom(t *testing.T) {
	s := newStage(t, conns.Limits{Total: 2, PerSource: 1, PerOwner: 1})
	for i := range 10 {
		c := s.connect("10.0.0.1")
		if i%2 == 0 {
			c.server.Own("a")
		}
		_ = c.server.Close()
		_ = c.server.Close() // twice is no harm
		c.server.Own("late")
	}
	if s.l.Open() != 0 || len(s.closed) != 0 {
		t.Errorf("%d open, closed: %v", s.l.Open(), s.closed)
	}
}

func TestDivide(t *testing.T) {
	for _, limit := range []uint64{320, 400, 1024, 4096, 20_000, 65_536, 1 << 20, 1 << 63} {
		b, err := conns.Divide(limit)
		if err != nil {
			t.Errorf("%d: %v", limit, err)
			continue
		}
		sum := b.Registration + b.Operator + b.Agent + b.Election + b.Health + b.Metrics
		if n := int(min(limit, 1<<24)); sum > n-max(256, n/4) {
			t.Errorf("%d: %+v leave %d descriptors", limit, b, n-sum)
		}
		for _, n := range []int{b.Registration, b.Operator, b.Agent, b.Election, b.Health, b.Metrics} {
			if n < 4 || n > b.Agent && limit > 1000 {
				t.Errorf("%d: %+v", limit, b)
			}
		}
	}
	if b, _ := conns.Divide(20_000); b.Agent < 10_000 {
		t.Errorf("with 20,000 descriptors there is room for %d agents", b.Agent)
	}
	for _, limit := range []uint64{0, 64, 319} {
		if b, err := conns.Divide(limit); err == nil {
			t.Errorf("%d: %+v, want a refusal", limit, b)
		}
	}
}
