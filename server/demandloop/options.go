package demandloop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	agentbinding "nstance.dev/protos/binding"
	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// Options are what a [Loop] works with. All are required but those that say otherwise.
type Options struct {
	Term     uint64 // of the leader; for people, and to number what operators are told
	Engine   demand.Settings
	Supply   func() Supply // as of now; asked again after [Loop.SupplyChanged]
	Records  Records
	Machines Machines
	NewID    func(kind string) (identity.ID, error)
	URI      func(cache.Instance) string // of a machine that the provider has, as the spec of its Node has it; nil: the provider's own id
	Host     func(identity.ID) Host      // how far a host is whose node runs in a node machine; asked again after [Loop.Changed]. Nil: nothing is known of any
	Random   func() string               // names a request or a binding: 32 digits that never come again
	Metrics  *Metrics
	Now      func() time.Time
	Log      *slog.Logger

	// Workers is how many actions are carried out at once; 64.
	Workers int
}

// Host is how far a host is with its node machine.
type Host struct {
	// Assigned: it was told what to build, so there is a configuration for it.
	Assigned bool
	// Failed says why it gave up and left what failed for somebody to look at: no node runs on it. Empty: it did not.
	Failed string
}

// Records are the instances of the shard. [instances.Store] is one, but for All.
type Records interface {
	// All are the instances that are not deleted, in any order.
	All() []cache.Instance
	// Known returns the row of an instance that is not deleted.
	Known(id identity.ID) (cache.Instance, bool)
	Record(id identity.ID) (layout.InstanceRecord, bool)
	Change(ctx context.Context, id identity.ID, change func(*layout.InstanceRecord) error) (cache.Instance, error)
}

// Supply is what can be bought, and what the groups of demand mode set. A Supply does not change.
type Supply interface {
	Groups() []demand.Group
	Offers() []demand.Offer
	Pools() []demand.PoolChanged
	Policy() demand.Policy
	// Suspended is what is paused or rehearsed now.
	Suspended() []demand.Suspended
	// Next is when the Supply is another one without an event; zero: never.
	Next() time.Time

	// Source says what to ask for to buy of an offer.
	Source(offer string) (Source, bool)
	// Describe says what a machine is that was bought so, whether or not it is still offered; false: its
	// group is not known.
	Describe(source Source) (Description, bool)
	// Group is what the loop has to know of a group; false: it is not of demand mode.
	Group(id fleet.GroupID) (Group, bool)
	// Outdated says why a machine of a group of demand mode is to make room for another one, [demand.ReasonDrift] or
	// [demand.ReasonExpiry]; empty: it is not. The time is when to ask again without an event; zero: never.
	Outdated(row *cache.Instance, now time.Time) (demand.Reason, time.Time)
	// Makings is what Outdated goes by beside the machine and the time, by group: machines are looked at again when it
	// changes.
	Makings() map[fleet.GroupID]string
}

// Source is what a machine is bought by.
type Source struct {
	Group        fleet.GroupID
	InstanceType string
	CapacityType demand.CapacityType
	Reservation  string // empty: none
}

// Description is what is known of a machine before its Node has said anything.
type Description struct {
	Offer           string // that it counts for, whether or not it is offered now; empty: none
	Class           demand.Class
	InterruptionPPM int64
	Price           int64 // of an hour, in millionths of a dollar; 0: not known
	StartupTaints   []match.Taint
	Capacity        []vector.Amount  // that it counts for in the limits of its group
	Pools           []demand.PoolUse // that it takes units of
}

// Group is what a group of demand mode sets beside what the engine looks at.
type Group struct {
	Kind       string // that the ids of its instances begin with
	UserData   bool   // what it takes to join is in the user data
	AfterDrain AfterDrain
	ForceDrain bool              // a drain whose time is over goes on by force; else it is given up
	Vars       map[string]string // for the operator's template
}

// AfterDrain says what becomes of a machine that has left its cluster. The zero value: spot machines are
// deleted, and others used again.
type AfterDrain string

// What becomes of them.
const (
	IdleAfterDrain   AfterDrain = "idle"
	DeleteAfterDrain AfterDrain = "delete"
)

// deletes reports whether a machine of the group is deleted once it has left its cluster.
func (g *Group) deletes(capacity demand.CapacityType) bool {
	return g.UserData || g.AfterDrain == DeleteAfterDrain || g.AfterDrain == "" && capacity == demand.Spot
}

// Machines are the effects of the loop. Launch and Condemn are called by workers, and end with their
// context; Join and Leave are called by the loop, and do not wait.
type Machines interface {
	// Launch makes an instance durable with its binding, then has its machine made (S3). It returns once the
	// record stands. An error of type [*LaunchError] says what follows for its offer. What becomes of the
	// create call later the instance's end tells, and [Loop.CreateRefused] before it.
	Launch(ctx context.Context, p Purchase) error
	// Condemn makes durable that an instance goes, for a reason of demand mode. Work is moved off one that goes for its
	// age or its configuration. What is condemned already is no error.
	Condemn(ctx context.Context, id identity.ID, reason fleet.Reason, why string) error
	// Join tells the agent of an instance to join, and Leave to leave again. The errors match
	// [ErrNotConnected], [ErrNoCapability] or [ErrStreamFull] where it is one of these.
	Join(id identity.ID, join agentbinding.Join) error
	Leave(id identity.ID, name string) error
}

// Errors of [Machines]: nothing was sent.
var (
	ErrNotConnected = errors.New("the agent is not connected")
	ErrNoCapability = errors.New("the agent cannot join clusters")
	ErrStreamFull   = errors.New("too much waits for the agent")
)

// Purchase is one machine to be made.
type Purchase struct {
	ID       identity.ID
	Source   Source
	Binding  *layout.Binding // nil: it is for no cluster yet
	UserData Secret          // what it takes to join, where the group has it in the user data
}

// LaunchError says that a machine was not made, and for what kind of reason.
type LaunchError struct {
	Failure demand.Failure
	Err     error
}

// Error is that of the cause.
func (e *LaunchError) Error() string { return fmt.Sprintf("launch: %v", e.Err) }

// Unwrap returns the cause.
func (e *LaunchError) Unwrap() error { return e.Err }

const defaultWorkers = 64

func (o *Options) defaults() {
	if o.Workers == 0 {
		o.Workers = defaultWorkers
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if o.Host == nil {
		o.Host = func(identity.ID) Host { return Host{} }
	}
	if o.URI == nil {
		o.URI = func(in cache.Instance) string { return in.ProviderID }
	}
}
