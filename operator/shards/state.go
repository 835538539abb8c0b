package shards

import (
	"slices"
	"time"
)

// State is how far the operator is with a shard.
type State string

// The states of a shard.
//
//	Connecting ─connected→ Syncing ─synced→ Ready ─failed→ Degraded
//	     ↑ │                 │                ↑ └─succeeded──┘ │
//	     │ └─── no success for the grace ─────┼────────────────┤
//	     └───────────────── (start)           └ Syncing ← Unreachable
//
// From any state a refusal leads to Unreachable at once, and a new connection to Syncing.
const (
	Connecting  State = "Connecting"  // not connected since the shard was added
	Syncing     State = "Syncing"     // connected; what is there is not known completely
	Ready       State = "Ready"       // connected, and everything was listed since
	Degraded    State = "Degraded"    // the last call failed, or the connection is lost
	Unreachable State = "Unreachable" // no success for the grace, or the shard refuses us
)

// Reason says why a shard is not Ready, in the words of conditions and events.
type Reason string

// Reasons; an empty one goes with Connecting, Syncing and Ready.
const (
	ReasonUnreachable      Reason = "ShardUnreachable"      // it does not answer
	ReasonIdentityMismatch Reason = "ShardIdentityMismatch" // another shard or cluster answers
	ReasonAuthFailed       Reason = "ShardAuthFailed"       // it does not accept our certificate
	ReasonTenantUnknown    Reason = "TenantUnknown"         // it is not configured for our tenant
)

// DefaultGrace is how long a shard may fail before it counts as unreachable.
const DefaultGrace = 30 * time.Second

// Status is what is known of a connection. The zero value is not used; see [NewStatus].
type Status struct {
	State  State
	Reason Reason
	// Message is the last failure for users; empty in Ready.
	Message string
	// Refused: a server that has proved to be one of the shard does not let our certificate in.
	Refused bool
	// Since is when State or Reason became what they are.
	Since time.Time
	// LastContact is when the shard last answered; zero: never.
	LastContact time.Time
	// Address is where the shard was reached last; Term is the leader's, Version its build.
	Address string
	Term    int64
	Version string
	// Missing are the methods that the server of this connection does not have, or refuses
	// us for as long as it does, and the [Abilities] that it does not name, sorted.
	Missing []string
	// ConfigDigest stands for the part of the shard's configuration that concerns our
	// tenant: another one means that what was refused may be accepted now. Empty: the
	// server does not say.
	ConfigDigest string
	// Connections is how often the shard was connected: what was asked for over an earlier
	// connection may be of an earlier leader.
	Connections int

	grace  time.Duration
	synced bool      // everything was listed over the present connection
	failed time.Time // when the present run of failures began; zero: there is none
}

// NewStatus is the status of a shard that was added at a time, and that counts as
// unreachable once it has failed for grace.
func NewStatus(now time.Time, grace time.Duration) Status {
	return Status{State: Connecting, Since: now, failed: now, grace: grace}
}

// Event is what happens to a connection: one of the types below.
type Event interface{ event() }

// Connected says: a server has proved to be the leader of the shard.
type Connected struct {
	Address, Version string
	Term             int64
	Missing          []string // of Abilities, sorted
	ConfigDigest     string
}

// Configured says: the server has a configuration with that digest in force.
type Configured struct{ Digest string }

// Synced says: groups and instances were listed completely over the present connection.
type Synced struct{}

// Answered says: a call was answered, be it by a refusal.
type Answered struct{}

// Failed says: a call or the connection failed, for a reason that may be more than silence.
type Failed struct {
	Reason  Reason // ReasonUnreachable or a refusal
	Message string
	Refused bool // as that of Status; with ReasonAuthFailed alone
}

// Lacks says: the server does not have a method, or refuses it.
type Lacks struct{ Method string }

// Has says: the server has a method after all.
type Has struct{ Method string }

// Tick says: time has passed.
type Tick struct{}

func (Connected) event()  {}
func (Configured) event() {}
func (Synced) event()     {}
func (Answered) event()   {}
func (Failed) event()     {}
func (Lacks) event()      {}
func (Has) event()        {}
func (Tick) event()       {}

// Next returns the status after an event. It is pure.
func (s Status) Next(e Event, now time.Time) Status {
	switch e := e.(type) {
	case Connected:
		s.Address, s.Term, s.Version, s.Missing, s.ConfigDigest = e.Address, e.Term, e.Version, e.Missing, e.ConfigDigest
		s.LastContact, s.failed, s.Message, s.synced = now, time.Time{}, "", false
		s.Connections++
		return s.enter(Syncing, "", now)
	case Configured:
		s.ConfigDigest = e.Digest
		return s
	case Synced:
		s.synced = true
		return s.answered(now)
	case Answered:
		return s.answered(now)
	case Failed:
		return s.fail(e, now)
	case Lacks:
		if i, found := slices.BinarySearch(s.Missing, e.Method); !found {
			s.Missing = slices.Insert(slices.Clone(s.Missing), i, e.Method)
		}
		return s
	case Has:
		if i, found := slices.BinarySearch(s.Missing, e.Method); found {
			s.Missing = slices.Delete(slices.Clone(s.Missing), i, i+1)
		}
		return s
	case Tick:
		if !s.failed.IsZero() && now.Sub(s.failed) >= s.grace && s.State != Unreachable {
			return s.enter(Unreachable, ReasonUnreachable, now)
		}
	}
	return s
}

// Reachable reports whether the shard answers, as far as is known, so that a call has a chance.
func (s Status) Reachable() bool { return s.State != Unreachable && s.State != Connecting }

// Due returns when a [Tick] will change the status, zero if none will.
func (s Status) Due() time.Time {
	if s.failed.IsZero() || s.State == Unreachable {
		return time.Time{}
	}
	return s.failed.Add(s.grace)
}

// answered ends a run of failures. A shard that was given up is believed again only once
// it is connected again: a late answer says nothing about the streams.
func (s Status) answered(now time.Time) Status {
	s.LastContact = now
	if s.State == Connecting || s.State == Unreachable {
		return s
	}
	s.failed, s.Message = time.Time{}, ""
	if s.synced {
		return s.enter(Ready, "", now)
	}
	return s.enter(Syncing, "", now)
}

func (s Status) fail(e Failed, now time.Time) Status {
	if s.failed.IsZero() {
		s.failed = now
	}
	s.Message = e.Message
	switch {
	case e.Reason != ReasonUnreachable:
		s.Refused = e.Refused
		return s.enter(Unreachable, e.Reason, now)
	case s.State == Unreachable, s.State == Connecting:
		return s.Next(Tick{}, now)
	case now.Sub(s.failed) >= s.grace:
		return s.enter(Unreachable, ReasonUnreachable, now)
	}
	return s.enter(Degraded, ReasonUnreachable, now)
}

func (s Status) enter(state State, reason Reason, now time.Time) Status {
	if s.State != state || s.Reason != reason {
		s.State, s.Reason, s.Since = state, reason, now
	}
	s.Refused = s.Refused && reason == ReasonAuthFailed
	return s
}

// differs reports whether others should hear of the change from one status to another:
// that there was contact again is not worth it.
func (s Status) differs(from Status) bool {
	return s.State != from.State || s.Reason != from.Reason || s.Connections != from.Connections || s.Address != from.Address ||
		s.Term != from.Term || s.Version != from.Version || s.ConfigDigest != from.ConfigDigest || !slices.Equal(s.Missing, from.Missing)
}
