package demand

import (
	"fmt"
	"time"

	"nstance.dev/server/demand/vector"
)

// Kind says what an [Action] asks for.
type Kind uint8

// The kinds. Provision makes a machine and binds it; Bootstrap binds one that exists; Preempt and
// Reclaim drain one of its cluster; Cancel takes a machine's intent back, which is kept as an idle
// one; Fail gives a machine up that did not join; Delete ends one.
const (
	Provision Kind = iota + 1
	Bootstrap
	Preempt
	Reclaim
	Cancel
	Fail
	Delete
)

var kindNames = [...]string{"", "provision", "bootstrap", "preempt", "reclaim", "cancel", "fail", "delete"}

// String is the kind in words.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Reason says why an action is asked for, or what a need lacks.
type Reason string

// The reasons of actions.
const (
	ReasonNeed        Reason = "need"
	ReasonMinimum     Reason = "minimum"
	ReasonWarm        Reason = "warm"
	ReasonSurplus     Reason = "surplus"
	ReasonEmpty       Reason = "empty"
	ReasonPreempted   Reason = "preempted"
	ReasonUnclaimed   Reason = "unclaimed"
	ReasonHoldExpired Reason = "hold-expired"
	ReasonFailed      Reason = "failed"
	ReasonJoinTimeout Reason = "join-timeout"
	// ReasonConsolidation: it is bought to replace what costs more, or is given back for having been replaced.
	ReasonConsolidation Reason = "consolidation"
	// ReasonDrift and ReasonExpiry: it goes, or takes the place of one that goes, because that was made from
	// something else than its group is made from now, or is too old.
	ReasonDrift  Reason = "drift"
	ReasonExpiry Reason = "expiry"
)

// The reasons of shortfalls.
const (
	NoMatchingOffer Reason = "NoMatchingOffer"
	QuotaExhausted  Reason = "QuotaExhausted"
	Cooldown        Reason = "Cooldown"
	NoDomain        Reason = "NoDomain"
	Skew            Reason = "Skew"
	GangIncomplete  Reason = "GangIncomplete"
	BootstrapError  Reason = "BootstrapError"
	Parked          Reason = "Parked"
	// ConfigurationPending: a machine is there, and waits for the configuration that its node is built from.
	ConfigurationPending Reason = "ConfigurationPending"
	PreemptDraining      Reason = "Draining"
	RailHeld             Reason = "RailHeld"
	LimitReached         Reason = "LimitReached"
)

// Disposition says what becomes of an action.
type Disposition uint8

// The dispositions. Only Execute is to be carried out.
const (
	Execute    Disposition = iota
	Suppressed             // paused
	DryRun                 // rehearsed
)

var dispositionNames = [...]string{"execute", "suppressed", "dry-run"}

// String is the disposition in words.
func (d Disposition) String() string { return dispositionNames[d] }

// Action is one thing to do. Actions are comparable values, and stand in the order in which they
// are to start.
type Action struct {
	Kind        Kind
	Disposition Disposition
	Machine     string
	Offer       string // with Provision
	Cluster     string // that it is bound to, or taken from; empty: none
	Need        Key    // the need it serves, or for which it is taken
	Stamp       Stamp  // with Provision and Bootstrap: what to record
	Price       int64  // with Provision and Bootstrap: to record
	Reason      Reason
	Grace       time.Duration // with Preempt and Reclaim: how long the drain may take
	Voluntary   bool          // the operator may refuse
	// Replaces are the machines that the one at hand is bought to replace, to record: their ids, with commas
	// between them. Empty: it is bought for a need.
	Replaces string
}

// String is the action on one line.
func (a Action) String() string {
	s := fmt.Sprintf("%s %s", a.Kind, a.Machine)
	if a.Offer != "" {
		s += " of " + a.Offer
	}
	if a.Cluster != "" {
		s += " cluster " + a.Cluster
	}
	if a.Grace > 0 {
		s += fmt.Sprintf(" grace %s", a.Grace)
	}
	s += ": " + string(a.Reason)
	if a.Disposition != Execute {
		s += " (" + a.Disposition.String() + ")"
	}
	return s
}

// Shortfall is what a need lacks after a cycle.
type Shortfall struct {
	Cluster     string
	Need        Key
	Fingerprint string
	Priority    int32
	Deficit     vector.Vector
	Since       time.Time
	Cycles      int // in which it was short
	Reason      Reason
}

// Answer is what became of a roll-up.
type Answer struct {
	Cluster     string
	Sequence    uint64
	Quarantined bool // it is not in force yet, and has to be sent again
}

// Service is that the first machine which was bound for a need has been configured.
type Service struct {
	Cluster string
	Took    time.Duration // since the first roll-up with the need
}

// Ending is the end of one replacement of machines.
type Ending struct {
	Group    string
	Cluster  string
	Replaced string // ids of machines, with commas between them, that were replaced, or were to be
	Why      string // in words that follow on `it ended because`
	Failed   bool   // the machines stay, and are left alone for a while
}

// Result is the answer of [Engine.Step]. Its slices are valid until the next one.
type Result struct {
	Actions    []Action
	Answers    []Answer
	Ended      []Ending    // replacements that ended
	Rejected   []error     // events that were not possible; what was known before still holds
	Shortfalls []Shortfall // the most urgent ones: by priority, then the one that lasts longest
	Capped     int         // reclaims beyond a cluster's limit, which are decided again
	Served     []Service   // needs that have got their first machine
	Reordered  int         // clusters whose keep order was changed, to keep cheaper machines
	Short      int         // how many needs are short
	Next       time.Time   // when to step again without an event; zero: only an event changes anything
}

// nearer is the reason that is nearer to buying something.
func nearer(a, b Reason) Reason {
	if b.distance() < a.distance() {
		return b
	}
	return a
}

// distance is how far from buying something a reason is, in no unit.
func (r Reason) distance() int {
	switch r {
	case Cooldown:
		return 0
	case QuotaExhausted:
		return 1
	case LimitReached:
		return 2
	case NoDomain:
		return 3
	case NoMatchingOffer:
		return 4
	case "":
		return 5
	default:
		return 6
	}
}
