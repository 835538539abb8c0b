// Package transition decides what nstance-paver does next on its host.
//
// [Next] is a pure function of the journal, the last accepted assignment, what runs, and the time:
// it returns one step with its reason. The caller carries the step out, and [After] says what the
// journal is then. Between the two nothing is remembered, so a process that is killed at any
// instruction goes on from the journal: each step may be carried out again.
//
// The rules that it keeps:
//   - At most one slot runs. Which one may, follows from the journal alone.
//   - Whatever can fail without the old machine is done before that is stopped.
//   - The old machine is given up only when the journal says that the new one has joined.
//   - What does not join is tried again, then reverted or held, as its assignment says.
//   - Where no machine runs that could be kept, the attempts never end.
//
// What a step does to the host is the business of package paver.
package transition

import (
	"time"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
)

// Observed is what was seen of a slot.
type Observed struct {
	Phase   journal.Phase
	BootID  string // of a running machine; empty while it is not known
	Kubelet bool   // the kubelet in it is active, or may be
	// Reusable is the hash of the content if the slot's marker vouches for a complete tree.
	Reusable string
}

// Confirmation is word from the API server: a Node with this boot ID is ready (M46).
type Confirmation struct {
	Epoch   int64
	NodeUID string
	BootID  string
}

// View is all that a decision follows from.
type View struct {
	Journal    journal.Journal
	Assignment *assignment.Assignment // the last accepted one; nil if none ever was
	Slots      map[journal.Slot]Observed
	// Credential: there is one for the assignment's epoch, and it can still be used, until
	// CredentialUntil; zero: it is not known until when.
	Credential      bool
	CredentialUntil time.Time
	Confirmed       *Confirmation
	// DiskLow: what can be done without should be deleted.
	DiskLow bool
	// Idle is when a step that the journal does not count may be tried again after a failure.
	Idle time.Time
	Now  time.Time
}

// Kind is what a step does.
type Kind string

// Kinds of steps. Those without a comment do the work of the stage that is named like them.
const (
	Wait         Kind = "wait"         // nothing, until Until or until something changes
	Begin        Kind = "begin"        // write the transition down
	TakeOver     Kind = "take over"    // restart the kubelet, so that it makes its Node if that is gone; write down that this is what was assigned
	Refuse       Kind = "refuse"       // see that the kubelet runs; write down that the assignment cannot be carried out
	FreeSlot     Kind = "free"         // delete the tree of the slot that can be done without
	KillSlot     Kind = "kill"         // kill what runs in the slot, at once
	StopSlot     Kind = "stop"         // stop the machine in an orderly way
	StartActive  Kind = "start"        // boot the active slot
	StopKubelet  Kind = "stop kubelet" // in 5s; then the Pods, unless they are to be kept
	GiveUp       Kind = "give up"      // start the kubelet of the old machine again, and that with its host
	RecordHost   Kind = "record"       // write down what the host is like, before the first change
	LoseAttempt  Kind = "lose attempt" // write down that an attempt failed
	ResetHost    Kind = "reset"        // remove all that was ever built or set, and the journal last
	FetchRoot    Kind = "fetch"
	BuildSlot    Kind = "build"
	RefreshSlot  Kind = "refresh"
	CheckGuards  Kind = "guard"
	RetireSlot   Kind = "retire"
	BootSlot     Kind = "boot"
	ConfirmJoin  Kind = "confirm"
	EnableSlot   Kind = "commit"
	SweepSlots   Kind = "sweep"
	LookAgain    Kind = "look again" // write down the boot ID of the machine that runs now
	AskForSecret Kind = "ask for credential"
)

// Step is one thing to do, and why.
type Step struct {
	Kind   Kind
	Slot   journal.Slot // that it is done to; None where it is about none
	Reason string
	// Until is when to look again at the latest; of [Wait] and [AskForSecret].
	Until time.Time
	// Limit is how long the step may take; zero where it only writes.
	Limit time.Duration
}
