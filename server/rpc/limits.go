package rpc

import (
	"time"

	"golang.org/x/time/rate"
)

// Limits of every listener.
const (
	handshakeTimeout = 10 * time.Second
	maxHeaderList    = 8 << 10
	pingInterval     = 10 * time.Second
	pingTimeout      = 10 * time.Second
	minPing          = 9 * time.Second // clients ping every 10s, by their own clock
)

// limits are those that differ between listeners.
type limits struct {
	streams uint32        // of one connection at once
	calls   rate.Limit    // of one connection in a second; one that has used up burst ends
	burst   int           // of calls
	message int           // bytes
	small   bool          // many idle connections: no buffers or tables that wait for data
	idle    time.Duration // a connection without a call ends; 0: it stays
	age     time.Duration // every connection ends; 0: it stays

	perSource int // connections of strangers at once; 0: as many as there may be
	perOwner  int // connections at once of one certificate, or with one nonce
}

// Most callers of the registration port have no certificate and never will, so their
// connections are short. Who has a nonce that is outstanding is no stranger any more.
var (
	registrationLimits = limits{
		streams: 16, calls: 100, burst: 500, message: 64 << 10, small: true,
		idle: 15 * time.Second, age: time.Minute, perSource: 64, perOwner: 64,
	}
	agentLimits    = limits{streams: 16, calls: 10, burst: 100, message: 4 << 20, small: true, perOwner: 64}
	operatorLimits = limits{streams: 256, calls: 2000, burst: 20_000, message: 4 << 20, perOwner: 64}
)
