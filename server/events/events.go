package events

import (
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/status"
)

// Instance is what became of an instance. It is not to be changed.
type Instance struct {
	Status       string          // the instance's in the words of the API; snapshot_end and heartbeat are of none
	Instance     status.Instance // as it is then; the zero value where the event is of none
	ConfigDigest string          // with a heartbeat: see [status.Reader.ConfigDigest]
}

// Group is what became of a group. It is not to be changed.
type Group struct {
	Gone  bool // there is no such group any more
	Group status.Group
}

// Error says that something is wrong. It is not to be changed.
type Error struct {
	Class    string // what it is about, in one word
	Text     string
	Shard    string
	Group    string      // empty: of no group
	Instance identity.ID // empty: of no instance
	At       time.Time
}

// Options are what a [Broadcaster] works with. All are required.
type Options struct {
	Shard  string
	Cache  *cache.Cache // instances are read, errors written
	Status *status.Reader
	Now    func() time.Time
}

// Broadcaster tells watchers what happens. It is safe for concurrent use.
type Broadcaster struct {
	opts Options

	mu        sync.Mutex // keeps the events of one instance in order
	changed   map[chan struct{}]struct{}
	instances hub[*Instance]
	groups    hub[*Group]
	errors    hub[*Error]
}

// New returns a broadcaster that nobody listens to.
func New(opts Options) *Broadcaster {
	return &Broadcaster{opts: opts, changed: map[chan struct{}]struct{}{}}
}

// Changed returns a channel that gets a value when instances have changed since
// the last one was taken, and what ends that.
func (b *Broadcaster) Changed() (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed[ch] = struct{}{}
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.changed, ch)
	}
}

// Instance publishes what an instance is now, under the given status.
func (b *Broadcaster) Instance(id identity.ID, status string) {
	for {
		row, known := b.opts.Cache.Instance(id)
		var ev *Instance
		if known {
			ev = &Instance{Status: status, Instance: b.opts.Status.Instance(row)}
		}
		if b.publish(id, ev) {
			return
		}
	}
}

// publish publishes an event of an instance; nil: nobody knows it. False: it is not what the
// instance is by now, and another event may tell that already.
func (b *Broadcaster) publish(id identity.ID, ev *Instance) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	row, known := b.opts.Cache.Instance(id)
	if known != (ev != nil) || known && row.Revision != ev.Instance.Instance.Revision {
		return false
	}
	for ch := range b.changed {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	if known {
		b.instances.publish(row.Group.Tenant, ev)
	}
	return true
}

// Group publishes what a group is now, or that there is none any more, and returns that;
// false: there is none.
func (b *Broadcaster) Group(id fleet.GroupID) (*status.Group, bool) {
	g, ok := b.opts.Status.Group(id)
	if !ok {
		b.groups.publish(id.Tenant, &Group{Gone: true, Group: status.Gone(id)})
		return nil, false
	}
	b.groups.publish(id.Tenant, &Group{Group: *g})
	return g, true
}

// Error publishes that something is wrong with a group or an instance, and keeps it for later
// readers. Class is one word; an empty id: of no instance.
func (b *Broadcaster) Error(group fleet.GroupID, id identity.ID, class, text string) {
	now := b.opts.Now()
	b.opts.Cache.AddError(cache.ErrorRow{Tenant: group.Tenant, Group: group.Name, Instance: id, Error: class + ": " + text, At: now})
	b.errors.publish(group.Tenant, &Error{Class: class, Shard: b.opts.Shard, Text: text, Group: group.Name, Instance: id, At: now})
}

// Close ends all watches: the term is over.
func (b *Broadcaster) Close() {
	b.instances.close()
	b.groups.close()
	b.errors.close()
}
