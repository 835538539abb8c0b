// Package conns bounds the connections of a listener, so that strangers can exhaust
// neither a server's file descriptors nor its memory (S22).
//
// Whoever connects is a stranger at first. A [Listener] has a limit for the strangers of
// one source and one for all of its connections; at a limit the oldest stranger goes and
// the newcomer is let in, so that somebody who opens connections and says nothing keeps
// nobody out. A connection stops being a stranger's by [Conn.Own], once its owner is
// known: then it counts among its owner's, and is not closed for others.
//
// What a connection may do, and how long it may be idle, is the business of the server
// above.
package conns

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"
)

// young is how old a stranger's connection must be to be closed for a newcomer of the same
// source: many machines behind one address may arrive at once, and each needs the time to
// say who it is.
const young = 2 * time.Second

// Limits are those of one listener; zero fields do not limit.
type Limits struct {
	Total     int // connections at once
	PerSource int // strangers at once from an IPv4 address or the /64 of an IPv6 address
	PerOwner  int // connections at once of one owner
}

// Options are the settings of a [Listener].
type Options struct {
	Limits
	Now func() time.Time // time.Now
	// Closed, if set, is told of each connection that is closed for a limit. It must not
	// call the listener.
	Closed func(source netip.Addr, why Reason)
}

// Reason says which limit a connection was closed for.
type Reason string

// The reasons.
const (
	TooManyOfSource Reason = "too many connections of its source"
	TooManyOfOwner  Reason = "too many connections of its owner"
	TooMany         Reason = "too many connections"
)

// Listener accepts connections within limits. It is safe for concurrent use.
type Listener struct {
	net.Listener
	opts Options

	mu        sync.Mutex
	open      int
	strangers list.List // of *Conn, the oldest first
	sources   map[netip.Prefix]*list.List
	owners    map[string]*list.List
}

// Limit returns a listener that accepts the connections of l within limits. Close it
// instead of l.
func Limit(l net.Listener, opts Options) *Listener {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Listener{Listener: l, opts: opts, sources: map[netip.Prefix]*list.List{}, owners: map[string]*list.List{}}
}

// Accept waits for a connection, a [*Conn]. Those that find no room are closed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := addrOf(raw.RemoteAddr())
		c := &Conn{Conn: raw, l: l, source: source, since: l.opts.Now()}
		closed, ok := l.admit(c)
		l.tell(closed)
		if ok {
			return c, nil
		}
		_ = raw.Close() // nobody has it
		l.tell([]victim{{c, TooMany}})
	}
}

// victim is a connection that goes for a limit.
type victim struct {
	conn *Conn
	why  Reason
}

// admit enters a connection, and says which ones go for it.
func (l *Listener) admit(c *Conn) (closed []victim, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	prefix := Source(c.source)
	of := l.sources[prefix]
	for most := l.opts.PerSource; most > 0 && of != nil && of.Len() >= most; {
		oldest := first(of)
		if c.since.Sub(oldest.since) < young {
			break
		}
		closed = append(closed, l.evict(oldest, TooManyOfSource))
	}
	if l.opts.Total > 0 && l.open >= l.opts.Total {
		oldest := first(&l.strangers)
		if most := l.opts.PerSource; most > 0 && of != nil && of.Len() >= most {
			oldest = first(of) // however young: who has too many closes nobody else's
		}
		if oldest == nil {
			return closed, false
		}
		closed = append(closed, l.evict(oldest, TooMany))
	}
	if of = l.sources[prefix]; of == nil { // the last one of the source may just have gone
		of = list.New()
		l.sources[prefix] = of
	}
	l.open++
	c.among, c.place, c.stranger = of, of.PushBack(c), l.strangers.PushBack(c)
	return closed, true
}

func first(of *list.List) *Conn {
	if e := of.Front(); e != nil {
		return e.Value.(*Conn) //nolint:forcetypeassert // the lists hold nothing else
	}
	return nil
}

// evict takes a connection out; the caller closes it without the lock.
func (l *Listener) evict(c *Conn, why Reason) victim {
	l.remove(c)
	return victim{c, why}
}

// remove needs the lock. It may be called again.
func (l *Listener) remove(c *Conn) {
	if c.place == nil {
		return
	}
	l.open--
	l.leave(c)
}

// leave takes a connection from the group that it is among. It needs the lock.
func (l *Listener) leave(c *Conn) {
	c.among.Remove(c.place)
	if c.stranger != nil {
		l.strangers.Remove(c.stranger)
		if c.among.Len() == 0 {
			delete(l.sources, Source(c.source))
		}
	} else if c.among.Len() == 0 {
		delete(l.owners, c.owner)
	}
	c.among, c.place, c.stranger = nil, nil, nil
}

func (l *Listener) tell(closed []victim) {
	for _, v := range closed {
		_ = v.conn.Conn.Close() // it is gone either way
		if l.opts.Closed != nil {
			l.opts.Closed(v.conn.source, v.why)
		}
	}
}

// Open returns how many connections there are.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Conn is a connection of a [Listener]. Its methods are safe for concurrent use.
type Conn struct {
	net.Conn
	l      *Listener
	source netip.Addr
	since  time.Time

	// Of the listener's lock.
	owner           string
	among           *list.List // of its source or owner; nil: it was closed
	place, stranger *list.Element
}

// Own says whose the connection is, any text that is the owner's alone. If the owner has
// too many, its oldest one is closed.
func (c *Conn) Own(owner string) {
	c.l.mu.Lock()
	var closed []victim
	if c.place != nil {
		c.l.leave(c)
		of := c.l.owners[owner]
		if most := c.l.opts.PerOwner; most > 0 && of != nil && of.Len() >= most {
			closed = append(closed, c.l.evict(first(of), TooManyOfOwner))
			of = c.l.owners[owner]
		}
		if of == nil {
			of = list.New()
			c.l.owners[owner] = of
		}
		c.owner, c.among, c.place = owner, of, of.PushBack(c)
	}
	c.l.mu.Unlock()
	c.l.tell(closed)
}

// Close closes the connection and makes room.
func (c *Conn) Close() error {
	c.l.mu.Lock()
	c.l.remove(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// Source is what counts as one source: an IPv4 address, or the network of an IPv6
// address, of which one host has more addresses than could be counted. The zero prefix
// stands for all that have no address.
func Source(a netip.Addr) netip.Prefix {
	bits := 32
	if a = a.Unmap().WithZone(""); a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil { // no address at all: one source like any other
		return netip.Prefix{}
	}
	return p
}

// addrOf returns the address of a peer, as far as it has one.
func addrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
