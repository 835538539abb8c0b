// Package carry passes TCP connections on: from an address of a test to wherever a
// connection is to lead when it is made. A network that loses packets and an address that
// moves between servers are made of it.
//
// None of those who speak here half closes a connection: when one side ends, both do.
package carry

import (
	"net"
	"sync"
)

// Carrier listens on one address. Start makes one.
type Carrier struct {
	to       func() (net.Conn, error)
	hold     func()
	listener net.Listener
	all      sync.WaitGroup // what it has started

	mu    sync.Mutex
	conns map[net.Conn]bool
	ended bool
}

// Start listens on a host and port, until Close. Each connection that comes in is carried to
// one that to opens; where that fails it is closed. hold is called before anything is passed
// on, the opening of the connection included, and may wait; nil: nothing waits.
func Start(address string, to func() (net.Conn, error), hold func()) (*Carrier, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if hold == nil {
		hold = func() {}
	}
	c := &Carrier{to: to, hold: hold, listener: listener, conns: map[net.Conn]bool{}}
	c.all.Go(c.accept)
	return c, nil
}

// Close ends the carrier and its connections. Nothing may be held any more.
func (c *Carrier) Close() {
	_ = c.listener.Close()
	c.mu.Lock()
	c.ended = true
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.all.Wait()
}

func (c *Carrier) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return // it is closed
		}
		c.all.Go(func() { c.lead(conn) })
	}
}

// lead carries one connection until either side ends it.
func (c *Carrier) lead(client net.Conn) {
	defer c.forget(client)
	if !c.keep(client) {
		return
	}
	c.hold()
	server, err := c.to()
	if err != nil {
		return
	}
	defer c.forget(server)
	if !c.keep(server) {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		c.pass(client, server)
	}()
	c.pass(server, client)
	<-back
}

// pass carries one direction of a connection, and then ends it whole.
func (c *Carrier) pass(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		c.hold()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// keep remembers a connection, and reports whether it may go on.
func (c *Carrier) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[conn] = true
	return !c.ended
}

func (c *Carrier) forget(conn net.Conn) {
	_ = conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}
