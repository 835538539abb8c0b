package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Row is the row of the table that a decision follows from.
type Row int

// The rows, in the order in which the machine states of the table stand; see table.go.
const (
	RowForeign   Row = 0  // no host of an instance: nothing is done to it
	RowDeleting  Row = 1  // the HostMachine is being deleted
	RowGone      Row = 2  // the instance is gone
	RowBlocked   Row = 3  // nothing may be decided, or begun, now
	RowNoVersion Row = 4  // nothing can be built
	RowFirst     Row = 5  // the host was told nothing
	RowTold      Row = 6  // the host was told, and has not taken it
	RowBuilding  Row = 7  // the host builds
	RowJoined    Row = 8  // what was built has joined
	RowMissed    Row = 9  // the Node is gone
	RowFailed    Row = 10 // the host gave up
	RowOutdated  Row = 11 // a repave would build something else
	RowSteady    Row = 12 // nothing is to be done
)

// Action is what is done next. Whatever it is, status and phase are written first where they differ.
type Action string

// The actions.
const (
	// None: nothing but what the status says.
	None Action = "none"
	// Hold: set the finalizer, before anything is built that it stands for.
	Hold Action = "set finalizer"
	// LookAgain: ask the API server for the Node once more, after Decision.After.
	LookAgain Action = "look again"
	// Assign: write the next assignment into the status; Decision.Assignment says which.
	Assign Action = "assign"
	// Recover: write into the status what the shard says that was assigned.
	Recover Action = "recover"
	// Publish: tell the shard what is assigned. With Decision.NewCredential a new one is made.
	Publish Action = "publish"
	// RemoveNode: delete the Node of the machine that is stopped; Decision.Joined says which.
	RemoveNode Action = "remove node"
	// Confirm: mark the Node, write that it has joined, and tell the host; Decision.Joined says
	// which.
	Confirm Action = "confirm"
	// Mark: set annotations and label of the Node right; Decision.Joined says which.
	Mark Action = "mark node"
	// Release: delete the Node, have the shard forget the assignment, delete the credential,
	// and remove the finalizer. Decision.Skipped says why the host was not reset first.
	Release Action = "release"
)

// Assignment is the next thing that a host is told.
type Assignment struct {
	Mode    hostsv1.AssignmentMode
	Epoch   int64
	Version hostsv1.VersionReference
	// Reason in one word, for status, events and metrics.
	Reason string
	// ExpectedNodeUID is the Node that may exist when the old machine is stopped; empty: none may.
	ExpectedNodeUID string
	// Cordon is the UID of a Node that is cordoned first; empty: none is.
	Cordon string
}

// Reasons of assignments.
const (
	ReasonFirst        = "FirstPave"
	ReasonAdopted      = "Adopted"
	ReasonNodeDeleted  = "NodeDeleted"
	ReasonNodeReplaced = "NodeReplaced"
	ReasonRetried      = "Retried"
	ReasonDeleting     = "Deleting"
	ReasonRecovered    = "Recovered" // from what the shard keeps
)

// Joined is a Node, and what it was built from.
type Joined struct {
	NodeUID         string
	ResourceVersion string
	Version         hostsv1.VersionReference
	// Tell the host of this boot; empty: it is told nothing.
	BootID string
	// Epoch of the assignment that it is told of.
	Epoch int64
}

// Held says why a repave that is due does not begin.
type Held struct{ Reason, Message string }

// Reasons why a repave is held, as RepavePending shows them after `Held:`.
const (
	HeldPaused     = "Paused"
	HeldLeaving    = "InstanceLeaving"
	HeldIncomplete = "ShardOutOfSight"
	HeldBrake      = "FleetBrake"
	HeldPower      = "PowerHold"
	HeldUnresolved = "ImageUnresolved"
)

// Decision is what follows from an input.
type Decision struct {
	Row    Row
	Action Action
	// Reason says why, for logs.
	Reason string

	Assignment    Assignment
	NewCredential bool
	Joined        Joined
	// Skipped says why the host is not reset; empty: it was, or there is nothing to reset.
	Skipped string
	// ResetKept: the shard keeps the reset that was skipped, and the host takes it when it is back.
	ResetKept bool

	// Held is why a repave that is due does not begin; zero: none is held.
	Held Held

	Phase hostsv1.HostMachinePhase
	// Conditions are those that this package decides, each time all of them.
	Conditions []metav1.Condition
	// After is when to decide again at the latest.
	After time.Duration
}
