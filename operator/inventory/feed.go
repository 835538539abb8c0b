package inventory

import (
	"slices"
	"sync"
	"time"

	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Feed takes in what is said for one tenant. It is safe for concurrent use; NewFeed makes one.
type Feed struct {
	inventory *Store
	hub       *Hub
	now       func() time.Time

	mu          sync.Mutex
	connections map[string]int           // by shard: the last one that was noted
	told        map[string]shards.Status // by shard: what controllers were last woken for
	errors      []func(shard string, e *nstancev1.ErrorEvent)
}

var _ shards.Sink = (*Feed)(nil)

// Streams returns the streams that the feed takes in.
func (in *Feed) Streams() []shards.Stream {
	return []shards.Stream{shards.WatchGroups(in), shards.WatchInstances(in), shards.WatchErrors(in)}
}

// NewFeed returns a feed with an empty inventory. now is the clock.
func NewFeed(tenant string, hub *Hub, now func() time.Time) *Feed {
	return &Feed{
		inventory: NewStore(tenant, func(shard string, changes []Change) { hub.Changed(shard, changes...) }),
		hub:       hub, now: now, connections: map[string]int{}, told: map[string]shards.Status{},
	}
}

// Inventory returns what is known.
func (in *Feed) Inventory() *Store { return in.inventory }

// OnError has f called with every error event of a shard from now on, by the goroutine
// that receives it: f must not wait.
func (in *Feed) OnError(f func(shard string, e *nstancev1.ErrorEvent)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.errors = append(in.errors, f)
}

// StateChanged implements [shards.Sink].
func (in *Feed) StateChanged(shard string, status shards.Status) {
	now := in.now()
	switch {
	case in.connected(shard, status.Connections):
		in.inventory.Update(shard, func(s *Shard) []Change { return s.Connected(status.Term, now) })
	case status.State == shards.Unreachable:
		in.inventory.Update(shard, (*Shard).Lost)
	}
	if in.matters(shard, status) {
		in.hub.Changed(shard, Change{Kind: ShardChanged})
	}
}

// matters reports whether a change of a connection is anything to controllers. That one call
// has failed is not, nor that the next one succeeds: it would wake everything that the shard
// has, the object whose call failed included, and past all pauses.
func (in *Feed) matters(shard string, next shards.Status) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	was, known := in.told[shard]
	if known && next.State == shards.Degraded {
		next.State, next.Reason = was.State, was.Reason
	}
	in.told[shard] = next
	return !known || next.State != was.State || next.Reason != was.Reason || next.Connections != was.Connections || next.Address != was.Address ||
		next.Term != was.Term || next.Version != was.Version || next.ConfigDigest != was.ConfigDigest || !slices.Equal(next.Missing, was.Missing)
}

// connected reports whether there is a connection that was not noted before.
func (in *Feed) connected(shard string, connections int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	anew := in.connections[shard] != connections
	in.connections[shard] = connections
	return anew
}

// Removed implements [shards.Sink]. That the inventory forgets the shard is up to whoever
// changes the configuration.
func (in *Feed) Removed(shard string) {
	in.mu.Lock()
	delete(in.connections, shard)
	delete(in.told, shard)
	in.mu.Unlock()
	in.hub.Changed(shard, Change{Kind: ShardChanged})
}

// GroupsListed implements [shards.GroupSink].
func (in *Feed) GroupsListed(shard string, list shards.GroupList) {
	in.inventory.Update(shard, func(s *Shard) []Change {
		return s.ListedGroups(GroupList{Groups: list.Groups, Asked: list.Began}, in.now())
	})
}

// InstancesListed implements [shards.InstanceSink].
func (in *Feed) InstancesListed(shard string, list shards.InstanceList) {
	in.inventory.Update(shard, func(s *Shard) []Change {
		return s.ListedInstances(InstanceList{Instances: list.Instances, Complete: list.Complete, Asked: list.Began}, in.now())
	})
}

// GroupEvent implements [shards.GroupSink].
func (in *Feed) GroupEvent(shard string, e *nstancev1.GroupEvent) {
	in.inventory.Update(shard, func(s *Shard) []Change { return s.GroupEvent(e, in.now()) })
}

// InstanceEvent implements [shards.InstanceSink].
func (in *Feed) InstanceEvent(shard string, e *nstancev1.InstanceEvent) {
	in.inventory.Update(shard, func(s *Shard) []Change { return s.InstanceEvent(e, in.now()) })
}

// ErrorEvent implements [shards.ErrorSink].
func (in *Feed) ErrorEvent(shard string, e *nstancev1.ErrorEvent) {
	in.mu.Lock()
	listeners := slices.Clone(in.errors)
	in.mu.Unlock()
	for _, f := range listeners {
		f(shard, e)
	}
}
