package shards

import (
	"fmt"
	"net"
	"sync"

	"nstance.dev/e2e/env/carry"
	"nstance.dev/e2e/env/kube"
)

// relay stands between a server and those who call it, and passes on what they say. While
// it is cut it swallows all of it: a network that loses every packet refuses nobody.
type relay struct {
	address string // where it listens
	carrier *carry.Carrier

	mu     sync.Mutex
	passes chan struct{} // closed while it is not cut
}

// newRelay starts a relay to the address of a server.
func newRelay(server string) (*relay, error) {
	port, err := kube.FreePort()
	if err != nil {
		return nil, err
	}
	r := &relay{address: fmt.Sprintf("%s:%d", kube.Address(), port), passes: make(chan struct{})}
	close(r.passes)
	r.carrier, err = carry.Start(r.address, func() (net.Conn, error) { return net.Dial("tcp", server) }, r.wait)
	return r, err
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
	r.carrier.Close()
}

// wait waits while the relay is cut.
func (r *relay) wait() {
	r.mu.Lock()
	passes := r.passes
	r.mu.Unlock()
	<-passes
}
