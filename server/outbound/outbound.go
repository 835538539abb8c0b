// Package outbound bounds how long the kernel goes on sending what the server has handed to it: to
// object storage, and to a provider's API.
//
// A leader stops a margin before its lease ends, but a request that it wrote before may wait in this
// machine: where the network is cut off, the kernel tries for a quarter of an hour, even after the
// process has closed the connection or has ended, and a request of long ago arrives when the network
// is back. Connections of this package end (TCP_USER_TIMEOUT) when what they have sent is not
// confirmed within [Limit], which stays below the margin: what a leader had under way has left, or is
// gone, before anybody else may lead. Conditions, terms and idempotency tokens make a late request
// harmless in any case; here it is seen to that there is none.
//
// The limit is the process's: it has one lease length. Who makes connections for those two purposes
// makes them by a dialer with [Bound], and where a library takes them out of http.DefaultTransport,
// as Google's do, [BoundDefault] has bounded that.
package outbound

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// shortest is the limit until one is set: it is below the margin of any lease.
const shortest = 900 * time.Millisecond

var limit atomic.Int64 // in nanoseconds; 0: shortest

// Below sets the limit of connections that are made from now on to nine tenths of a margin.
func Below(margin time.Duration) { limit.Store(int64(margin * 9 / 10)) }

// Limit is how long data may be unconfirmed.
func Limit() time.Duration {
	if d := time.Duration(limit.Load()); d > 0 {
		return d
	}
	return shortest
}

// Bound has d make bounded connections. It replaces what d had for Control.
func Bound(d *net.Dialer) { d.Control, d.ControlContext = control, nil }

// BoundDefault has http.DefaultTransport, and what is cloned of it afterwards, make bounded
// connections. A program does this once, before it makes clients.
func BoundDefault() {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		d := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second} // as it is made by net/http
		Bound(d)
		t.DialContext = d.DialContext
	}
}
