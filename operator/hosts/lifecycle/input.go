package lifecycle

import (
	"time"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Input is all that a decision follows from.
type Input struct {
	// Machine as it was read. Of its status a decision uses what [Decide] and [Assign] have
	// written: nodeRef, configuration without desired, and repave.
	Machine *hostsv1.HostMachine
	// Older is the machine that has the same node name and came before; empty: there is none.
	Older    string
	Desired  Desired
	Node     Node
	Instance Instance
	Host     Host
	// Rolled: a rollout brings the machine to other versions, so that another one is no reason to build
	// it again while its Node is there.
	Rolled bool
	// Braked says why a repave that is due has to wait for others; empty: it has not.
	Braked string
}

// Desired is what the machine would be built from now.
type Desired struct {
	// Version; nil: none can be used.
	Version *hostsv1.VersionReference
	// Reason and Message say why there is none.
	Reason, Message string
	// Known reports whether a version exists as the host says that it was built from; nil: none
	// does.
	Known func(hostsv1.VersionReference) bool
}

// Presence says whether the Node of the machine's name is there.
type Presence string

// The answers. Unknown is everything that is no proof: a time-out, a refusal, a fault of the API
// server.
const (
	NodeUnknown Presence = "unknown"
	NodeLive    Presence = "live"
	NodeAbsent  Presence = "absent"
)

// Node is the Node of the machine's name. Its zero value is one of which nothing is known.
type Node struct {
	Presence Presence
	// Confirmed: that it is gone, or another one than nodeRef names, was seen twice ([Absence]).
	Confirmed bool
	// Why says why nothing is known; for people.
	Why string

	// Of a Node that is there:

	UID             string
	ResourceVersion string
	// BootID is the boot of the machine that its kubelet runs in.
	BootID string
	// Ready is its condition, ReadyMessage what the kubelet says of it, Heartbeat when it last said so.
	Ready        bool
	ReadyMessage string
	Heartbeat    time.Time
	// MachineUID is that of the HostMachine that its annotations name; empty: none does.
	MachineUID string
	// Marked: annotations and label are those that the status of the machine says.
	Marked bool
}

// there is whether a Node is there.
func (n Node) there() bool { return n.Presence == NodeLive }

// Instance is what the shard says of the machine's instance.
type Instance struct {
	// Gone: its shard said so, or a complete inventory lacks it. Complete: all that the shard has
	// is known.
	Gone, Complete bool
	// Running: the shard says that the instance runs. Alive: its agent was heard of.
	Running, Alive bool
	// Off: it is switched off on purpose. PowerHeld: it is on hold for that.
	Off, PowerHeld bool
	// Leaving says why the instance, or the machine of Cluster API, is going away; empty: it is not.
	Leaving string
}

// Host is what the shard knows of the host.
type Host struct {
	// Known: the shard has said all that it knows of hosts, and has not been lost since. Unless it
	// is, nothing of the rest can be believed to be so still.
	Known bool
	// Connected: the agent has a stream and a paver behind it.
	Connected bool
	// Report is the last that the host said; nil: it has not since the leader began.
	Report *Report
	// Stored is the assignment that the shard keeps for the host; nil: there is none.
	Stored *Stored
}

// Stage is how far a host is.
type Stage string

// The stages. A build goes through them from StageFetch to StageRunning.
const (
	StageUnknown   Stage = ""
	StageIdle      Stage = "Idle" // no node machine
	StageFetch     Stage = "Fetch"
	StageBuild     Stage = "Build"
	StageGuard     Stage = "Guard" // before the old machine is stopped
	StageRetire    Stage = "Retire"
	StageBoot      Stage = "Boot"
	StageJoin      Stage = "Join"
	StageCommit    Stage = "Commit"
	StageSweep     Stage = "Sweep"
	StageRunning   Stage = "Running"
	StageFailed    Stage = "Failed" // given up; Report.Failure says why
	StageResetting Stage = "Resetting"
	StageReset     Stage = "Reset"
)

// Building reports whether a build is under way.
func (s Stage) Building() bool {
	switch s {
	case StageFetch, StageBuild, StageGuard, StageRetire, StageBoot, StageJoin, StageCommit, StageSweep:
		return true
	default:
		return false
	}
}

// joining is whether a host waits for its Node to join.
func (s Stage) joining() bool { return s == StageBoot || s == StageJoin }

// Report is what a host says of itself.
type Report struct {
	// Epoch is the highest that the host has accepted; 0: none. Stage is about it.
	Epoch int64
	Stage Stage
	// Slots are the places for node machines, as far as anything is in them.
	Slots []Slot
	// Previous is what could be booted instead of built; nil: nothing.
	Previous *hostsv1.VersionReference
	// Attempts failed so far, the last of them of LastError.
	Attempts  int32
	LastError string
	// Progress is how far the stage is; zero: that is not known.
	Progress Progress
	// CredentialNeeded: it has none for its assignment, and cannot go on.
	CredentialNeeded bool
	Preflight        []Check
	// Failure is set once the assignment of its epoch was given up; nil: it was not.
	Failure *Failure
	// Drifted are files that differ from what was written.
	Drifted int
}

// Progress is how far a stage is that takes long.
type Progress struct {
	// What is being done, for people.
	What string
	// Done bytes of Total; 0 of 0: not known.
	Done, Total int64
}

// Slot is one of the two places for a node machine.
type Slot struct {
	State   hostsv1.SlotState
	Version hostsv1.VersionReference
	Epoch   int64
	BootID  string
}

// Check is something that a host checked before building. Failed: no node machine can be built.
type Check struct {
	ID, Message string
	Failed      bool
}

// Outcome is what became of a host after an assignment was given up.
type Outcome string

// The outcomes.
const (
	OutcomeKept     Outcome = "Kept"     // the old machine was never stopped, or its kubelet was started again
	OutcomeReverted Outcome = "Reverted" // the old machine was started again
	OutcomeHeld     Outcome = "Held"     // the new machine was left as it is
)

// Failure says why an assignment was given up.
type Failure struct {
	Epoch           int64
	Stage           Stage
	Reason, Message string
	Outcome         Outcome
}

// Stored is the assignment that a shard keeps for a host.
type Stored struct {
	Epoch int64
	Mode  hostsv1.AssignmentMode
	// MachineUID is that of the HostMachine that it was made for, Version what is to be built.
	MachineUID string
	Version    hostsv1.VersionReference
	// Confirmed is the UID of the Node that the host was told has joined, ConfirmedBootID the boot
	// of its machine; empty: none was.
	Confirmed, ConfirmedBootID string
	// CredentialMissing: the shard has no credential for it, and it is not confirmed.
	CredentialMissing bool
}

// tells is whether the host knows from this that the Node has joined. A host that still waits for
// that believes it of the boot that runs alone (M46): one that has booted again is told again.
func (s *Stored) tells(r *Report, node, boot string) bool {
	return s.Confirmed == node && (s.ConfirmedBootID == boot || !r.Stage.joining())
}

// running returns the slot that runs; nil: none does.
func (r *Report) running() *Slot {
	if r == nil {
		return nil
	}
	for i := range r.Slots {
		if r.Slots[i].State == hostsv1.SlotRunning {
			return &r.Slots[i]
		}
	}
	return nil
}

// failed is what the host failed of, if it gave the assignment of an epoch up; nil: it did not.
func (r *Report) failed(epoch int64) *Failure {
	if r == nil || r.Failure == nil || r.Failure.Epoch != epoch {
		return nil
	}
	return r.Failure
}
