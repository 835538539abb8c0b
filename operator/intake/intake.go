// Package intake takes in what the shards say: it is between the connections, which
// understand nothing, and the inventory, which hears nothing by itself.
//
// An [Intake] is the sink of the connections. It puts everything into the inventory, wakes
// controllers by way of a waking.Hub, and hands the servers' error events to those who
// asked for them. It decides nothing: what to believe, the inventory decides.
package intake

import (
	"slices"
	"sync"
	"time"

	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/waking"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Intake takes in what is said for one tenant. It is safe for concurrent use; New makes one.
type Intake struct {
	inventory *inventory.Store
	hub       *waking.Hub
	now       func() time.Time

	mu          sync.Mutex
	connections map[string]int           // by shard: the last one that was noted
	told        map[string]shards.Status // by shard: what controllers were last woken for
	errors      []func(shard string, e *nstancev1.ErrorEvent)
}

var _ shards.Sink = (*Intake)(nil)

// New returns an intake with an empty inventory. now is the clock.
func New(tenant string, hub *waking.Hub, now func() time.Time) *Intake {
	return &Intake{
		inventory: inventory.NewStore(tenant, func(shard string, changes []inventory.Change) { hub.Changed(shard, changes...) }),
		hub:       hub, now: now, connections: map[string]int{}, told: map[string]shards.Status{},
	}
}

// Inventory returns what is known.
func (in *Intake) Inventory() *inventory.Store { return in.inventory }

// OnError has f called with every error event of a shard from now on, by the goroutine
// that receives it: f must not wait.
func (in *Intake) OnError(f func(shard string, e *nstancev1.ErrorEvent)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.errors = append(in.errors, f)
}

// StateChanged implements [shards.Sink].
func (in *Intake) StateChanged(shard string, status shards.Status) {
	now := in.now()
	switch {
	case in.connected(shard, status.Connections):
		in.inventory.Update(shard, func(s *inventory.Shard) []inventory.Change { return s.Connected(status.Term, now) })
	case status.State == shards.Unreachable:
		in.inventory.Update(shard, (*inventory.Shard).Lost)
	}
	if in.matters(shard, status) {
		in.hub.Changed(shard, inventory.Change{Kind: inventory.ShardChanged})
	}
}

// matters reports whether a change of a connection is anything to controllers. That one call
// has failed is not, nor that the next one succeeds: it would wake everything that the shard
// has, the object whose call failed included, and past all pauses.
func (in *Intake) matters(shard string, next shards.Status) bool {
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
func (in *Intake) connected(shard string, connections int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	anew := in.connections[shard] != connections
	in.connections[shard] = connections
	return anew
}

// Removed implements [shards.Sink]. That the inventory forgets the shard is up to whoever
// changes the configuration.
func (in *Intake) Removed(shard string) {
	in.mu.Lock()
	delete(in.connections, shard)
	delete(in.told, shard)
	in.mu.Unlock()
	in.hub.Changed(shard, inventory.Change{Kind: inventory.ShardChanged})
}

// GroupsListed implements [shards.Sink].
func (in *Intake) GroupsListed(shard string, list shards.GroupList) {
	in.inventory.Update(shard, func(s *inventory.Shard) []inventory.Change {
		return s.ListedGroups(inventory.GroupList{Groups: list.Groups, Asked: list.Began}, in.now())
	})
}

// InstancesListed implements [shards.Sink].
func (in *Intake) InstancesListed(shard string, list shards.InstanceList) {
	in.inventory.Update(shard, func(s *inventory.Shard) []inventory.Change {
		return s.ListedInstances(inventory.InstanceList{Instances: list.Instances, Complete: list.Complete, Asked: list.Began}, in.now())
	})
}

// GroupEvent implements [shards.Sink].
func (in *Intake) GroupEvent(shard string, e *nstancev1.GroupEvent) {
	in.inventory.Update(shard, func(s *inventory.Shard) []inventory.Change { return s.GroupEvent(e, in.now()) })
}

// InstanceEvent implements [shards.Sink].
func (in *Intake) InstanceEvent(shard string, e *nstancev1.InstanceEvent) {
	in.inventory.Update(shard, func(s *inventory.Shard) []inventory.Change { return s.InstanceEvent(e, in.now()) })
}

// ErrorEvent implements [shards.Sink].
func (in *Intake) ErrorEvent(shard string, e *nstancev1.ErrorEvent) {
	in.mu.Lock()
	listeners := slices.Clone(in.errors)
	in.mu.Unlock()
	for _, f := range listeners {
		f(shard, e)
	}
}
