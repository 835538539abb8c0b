// Package fleet is the heart of a shard server: what a group should be, what its
// instances are, and what to do about the difference.
//
// [Judge] says what an instance's health means, [Collect] what a listing of VMs
// means, and [Plan] what a group needs. A [Breaker] counts failed launches.
//
// Everything here is pure. All are total functions of their arguments: no
// clock, no I/O, no goroutine, no randomness, no map order that shows in a
// result. Equal arguments give equal answers, and the plan of a converged group
// is empty. Carrying a plan out, and finding out what is true, is the business
// of package shard; it calls again whenever something changed.
//
// The life of an instance is the state machine in state.go; no other file of this
// package changes a [State]. Other packages change it by events ([State.On]), but for the
// first one, which is read off the record.
package fleet

import (
	"cmp"
	"time"

	"nstance.dev/protos/identity"
)

// GroupID names a group within a shard.
type GroupID struct {
	Tenant string
	Name   string
}

// String is tenant and name with a slash between.
func (g GroupID) String() string { return g.Tenant + "/" + g.Name }

// Reason says why an instance is to go, in the words of the API.
type Reason string

// The reasons.
const (
	ReasonUnhealthy           Reason = "unhealthy"
	ReasonSpotTermination     Reason = "spot-termination"
	ReasonExpired             Reason = "expired"
	ReasonForcedExpiry        Reason = "forced-expiry"
	ReasonConfigDrift         Reason = "config-drift"
	ReasonScaleDown           Reason = "scale-down"
	ReasonGroupDeleted        Reason = "group-deleted"
	ReasonRequested           Reason = "requested"
	ReasonNotFound            Reason = "not-found"
	ReasonRegistrationTimeout Reason = "registration-timeout"
	ReasonAbandoned           Reason = "abandoned"
	ReasonTenantSleep         Reason = "tenant-sleep"

	// Of machines that demand has bought.
	ReasonReleased  Reason = "released"  // nobody needed it for a while
	ReasonSurplus   Reason = "surplus"   // it was drained, and is not used again
	ReasonPreempted Reason = "preempted" // as surplus, for another's need
	ReasonFailed    Reason = "failed"    // it was of no use to its cluster
)

// Power is what is known of an instance's VM, reduced to what decisions need.
type Power uint8

// The powers. NoVM: no create has been answered yet, and one may have been sent. Up: it
// runs, or nothing says that it does not. Down: the provider positively says that it does
// not run. Gone: confirmed not to exist any more. Unasked: no create has been sent.
const (
	NoVM Power = iota
	Up
	Down
	Gone
	Unasked
)

// Group is the wanted state of one group.
type Group struct {
	ID           GroupID
	Size         int           // wanted managed instances; ≥ 0
	Demand       bool          // its instances are made and ended as they are needed: Size counts for nothing, unless it is Deleted
	Deleted      bool          // to be emptied and forgotten; Size counts as 0
	Blocked      string        // not empty: why nothing may be created or deleted now
	BlockedBy    Blocker       // what kind of reason that is; zero: BlockerUnknownGroup
	DrainTimeout time.Duration // 0: removals do not wait
	InfraHash    string        // what a new instance is made from
	Retired      []Retired     // instances that a caller named to go
}

// Desired is the number of managed instances that should be there.
func (g Group) Desired() int {
	if g.Deleted {
		return 0
	}
	return max(g.Size, 0)
}

// Retired is an instance that a caller named when lowering the size.
type Retired struct {
	ID        identity.ID
	SkipDrain bool // its deletion waits for no drain
}

// Instance is one machine as decisions see it.
type Instance struct {
	ID       identity.ID
	Group    GroupID
	State    State
	Created  time.Time
	Power    Power
	OnDemand bool // made by an explicit call: never counted, replaced or scaled down
	// Reported: this leader has had a report of the agent. Where it has not, what a
	// former leader knew of the instance may still hold.
	Reported bool

	// ReplaceFirst: a caller wants it replaced, and gone once that is done, with
	// SkipDrain without a drain.
	ReplaceFirst bool
	SkipDrain    bool

	// RegisteredAt is when its agent first registered; zero: it has not.
	RegisteredAt time.Time
	// InfraHash is what the instance was made from. It never changes.
	InfraHash string

	// Replacement is the instance that was made to take this one's place; empty
	// if none was. It is set before this instance is condemned, and stays when
	// this one is well again: the replacement is then the one too many.
	Replacement identity.ID

	// Verdict says why the instance is Unhealthy. Zero in other states.
	Verdict Reason

	// Condemning is the reason of a condemnation that was sent to be recorded, where its
	// outcome is not known. It may stand, and there is no return from one. Empty: none.
	Condemning Reason
	// Writing: that write is under way, or its record is being taken back, and whoever
	// does that goes on.
	Writing bool

	// Hold is the last hold of the instance, in force or over. It is durable.
	Hold Hold

	// Notice is the provider's announcement that it takes the VM back.
	Notice Notice

	// Said is why the VM does not run, in the provider's words. For people alone.
	Said string

	// Removal is set once the instance is condemned; zero before.
	Removal Removal
}

// MayRun reports whether a VM of the instance may run: also one that was asked for, and of
// which nothing was heard.
func (in Instance) MayRun() bool {
	return in.Power == Up || in.State == Pending && in.Power == NoVM
}

// mayBeCondemned reports whether the instance may be condemned on record.
func (in *Instance) mayBeCondemned() bool {
	return in.Condemning != "" && (in.State.Live() || in.State.Sick())
}

// verdict is why a sick instance is sick.
func (in *Instance) verdict() Reason {
	return cmp.Or(in.Verdict, ReasonUnhealthy)
}

// Notice says that the provider takes a VM back, whatever anybody decides. The
// zero Notice says nothing.
type Notice struct {
	Action   string    // terminate, stop or hibernate; all mean the end
	Deadline time.Time // when the VM ends at the latest; zero: the provider did not say
}

// Given reports whether there is a notice.
func (n Notice) Given() bool { return n.Action != "" }

// Sooner reports whether n leaves less time than another notice.
func (n Notice) Sooner(other Notice) bool {
	return !n.Deadline.IsZero() && (other.Deadline.IsZero() || n.Deadline.Before(other.Deadline))
}

// Removal is the decision that an instance has to go. It is durable: the
// instance's record holds it, and the next leader resumes it.
type Removal struct {
	Reason       Reason
	RequestedAt  time.Time
	DrainStarted time.Time // zero: no drain
	DeleteAt     time.Time // when the drain ends at the latest; zero: at once
	Acked        bool      // whoever drains said that it is done
}
