package shards

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// session is a connection to a server that has proved to lead the shard, and the loops
// that listen to it.
type session struct {
	cc      *grpc.ClientConn
	api     nstancev1.OperatorServiceClient
	why     *Cause
	address string
	info    *nstancev1.GetServerInfoResponse // nil: the server does not say

	end  func()        // ends the loops, once they are started; may be called again
	over chan struct{} // closed by end
	done chan struct{} // closed once the loops have ended

	mu       sync.Mutex
	calls    int  // in flight
	retired  bool // closed as soon as none is
	listed   [2]bool
	listNow  [2]chan struct{} // wakes the lists up
	listSoon [2]chan struct{} // does so after [soon]
}

// soon is when to list after an event told of something new: what its provider calls it was not
// known yet, and one list tells of many.
const soon = 2 * time.Second

// The two lists, as indices.
const (
	groupList = iota
	instanceList
)

// Abilities are those of a server, by the names of GetServerInfo, that the operator relies
// on. An older server ignores the fields that they stand for and does something else.
var Abilities = []string{ClearFields, "coordinated-drain", "decrement-size", DemandGroups, "expected-etag", "group-capacity", "group-manager", "instance-list"}

// ClearFields is the ability to set fields of a group back to what the template says.
const ClearFields = "clear-fields"

// DemandGroups is the ability to have groups of mode demand.
const DemandGroups = "demand-groups"

// unnamed are the abilities that a server does not name, nil for one that names nothing
// about itself.
func unnamed(info *nstancev1.GetServerInfoResponse) []string {
	if info == nil {
		return nil
	}
	var missing []string
	for _, ability := range Abilities {
		if !slices.Contains(info.GetFeatures(), ability) {
			missing = append(missing, ability)
		}
	}
	return missing
}

// newSession returns a session whose loops are yet to be started.
func newSession(cc *grpc.ClientConn, why *Cause, address string, info *nstancev1.GetServerInfoResponse) *session {
	c := &session{
		cc: cc, api: nstancev1.NewOperatorServiceClient(cc), why: why, address: address, info: info,
		over: make(chan struct{}), done: make(chan struct{}),
	}
	c.end = sync.OnceFunc(func() { close(c.over) })
	for i := range c.listNow {
		c.listNow[i], c.listSoon[i] = make(chan struct{}, 1), make(chan struct{}, 1)
	}
	return c
}

// ended reports whether the session is no longer listened to, or soon will not be.
func (c *session) ended() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// stop ends the loops and closes the connection once the calls in flight have ended.
func (c *session) stop() {
	c.end()
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	c.closeIdle()
}

// begin counts a call in, and reports whether the connection is still to be used.
func (c *session) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		return false
	}
	c.calls++
	return true
}

// finish counts a call out.
func (c *session) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls--
	c.closeIdle()
}

func (c *session) closeIdle() {
	if c.retired && c.calls == 0 {
		_ = c.cc.Close()
	}
}

// relistNow asks for a list as soon as the last one is through.
func (c *session) relistNow(which int) { signal(c.listNow[which]) }

// relistSoon asks for a list soon.
func (c *session) relistSoon(which int) { signal(c.listSoon[which]) }

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default: // one is on its way
	}
}

// due waits until it is time for a list, next at the latest. False: ctx has ended.
func (c *session) due(ctx context.Context, which int, next time.Duration) bool {
	timer := time.NewTimer(next)
	defer timer.Stop()
	requested := c.listSoon[which]
	for {
		select {
		case <-ctx.Done():
			return false
		case <-c.listNow[which]:
			return true
		case <-timer.C:
			return true
		case <-requested:
			requested = nil // what comes now is for the list after this one
			timer.Reset(min(soon, next))
		}
	}
}

// complete notes that a list was complete, and reports whether both are now.
func (c *session) complete(which int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed[which] = true
	return c.listed[groupList] && c.listed[instanceList]
}

func (c *session) term() int64 { return c.info.GetTerm() }
