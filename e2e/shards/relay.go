package shards

import (
	"fmt"
	"net"
	"sync"

	"nstance.dev/e2e/kube"
)

// relay stands between a server and those who call it, and passes on what they say. While
// it is cut it swallows all of it: a network that loses every packet refuses nobody.
type relay struct {
	address  string // where it listens
	server   string // where it leads
	listener net.Listener
	all      sync.WaitGroup // what it has started

	mu     sync.Mutex
	passes chan struct{} // closed while it is not cut
	ended  bool
	conns  map[net.Conn]bool
}

// newRelay starts a relay to the address of a server.
func newRelay(server string) (*relay, error) {
	port, err := kube.FreePort()
	if err != nil {
		return nil, err
	}
	r := &relay{address: fmt.Sprintf("127.0.0.1:%d", port), server: server, passes: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(r.passes)
	if r.listener, err = net.Listen("tcp", r.address); err != nil {
		return nil, err
	}
	r.all.Go(r.accept)
	return r, nil
}

// cut has nothing pass until mend.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.passes:
		r.passes = make(chan struct{})
	default: // it is cut
	}
}

// mend ends a cut. What was said meanwhile arrives late.
func (r *relay) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.passes:
	default:
		close(r.passes)
	}
}

// close ends the relay and its connections.
func (r *relay) close() {
	r.mend()
	_ = r.listener.Close()
	r.mu.Lock()
	r.ended = true
	for conn := range r.conns {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.all.Wait()
}

// wait waits while the relay is cut.
func (r *relay) wait() {
	r.mu.Lock()
	passes := r.passes
	r.mu.Unlock()
	<-passes
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // it is closed
		}
		r.all.Go(func() { r.lead(client) })
	}
}

// lead carries one connection until either side ends it.
func (r *relay) lead(client net.Conn) {
	defer r.forget(client)
	if !r.keep(client) {
		return
	}
	r.wait()
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	defer r.forget(server)
	if !r.keep(server) {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		r.pass(client, server)
	}()
	r.pass(server, client)
	<-back
}

// pass carries one direction of a connection, and then ends it whole: none of those who
// speak here half closes one.
func (r *relay) pass(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		r.wait()
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
func (r *relay) keep(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[conn] = true
	return !r.ended
}

func (r *relay) forget(conn net.Conn) {
	_ = conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
}
