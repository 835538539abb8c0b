package demandloop

import (
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
)

// Message is what an operator is told: [RollupAnswer], [BootstrapRequest], [ReclaimInstruction],
// [NodeState] or [Capacity]. That a session stands, that a roll-up is rejected, and that an answer to
// an instruction has arrived, the session says by itself.
type Message interface {
	// Key names what the message is about, if a newer one about the same takes its place while it
	// waits; empty: each one is sent.
	Key() string
}

// RollupAnswer says what became of a roll-up.
type RollupAnswer struct {
	Sequence    uint64
	Quarantined bool   // it is not in force yet, and has to come again
	Detail      string // why it is quarantined, for people
}

// BootstrapRequest asks for what makes a machine join the cluster.
type BootstrapRequest struct {
	Request      string // 128 random bits in hexadecimal digits
	Machine      string
	InstanceType string
	Zone         string
	CapacityType demand.CapacityType
	Requirements []match.Requirement // of the need that the machine was bought for
	// What the kubelet has to register.
	Labels                map[string]string
	Taints, StartupTaints []match.Taint
	Vars                  map[string]string // of the group, for the operator's template
	Deadline              time.Time         // when the loop stops waiting
}

// ReclaimInstruction asks for the Node of a machine to be cordoned and drained, or with Cancel for
// that to be stopped and undone.
type ReclaimInstruction struct {
	Instruction       string // stable over repetition and restarts
	Machine           string
	Node              string        // its name; empty: not known
	Grace             time.Duration // 0: the operator's default; sent in whole seconds, rounded up
	PreemptorPriority int32         // for people; 0 when voluntary
	Voluntary         bool          // the operator may refuse, and nothing is forced
	Cancel            bool
	Reason            string // for people: surplus or preempted
}

// MachineState is where a machine is in its life, for the cluster that it is bound to. Its numbers are
// those of the wire contract.
type MachineState uint8

// The states of machines. The zero value is not valid.
const (
	Speculative MachineState = iota + 1 // it could be bought; nothing exists
	Creating                            // the provider was asked for it
	Idle                                // it runs and belongs to no cluster
	Configuring                         // it is joining the cluster
	Configured                          // its Node was seen ready
	Draining                            // work is leaving it
	Deleting                            // the provider was asked to delete it
	Failed                              // it cannot be used; LastError says why
	Deleted                             // it is gone: the last update of a machine
)

// NodeState is the state of one machine that is bound to the cluster, or is about to be. All of it is
// told each time.
type NodeState struct {
	Machine               string
	State                 MachineState
	Seq                   uint64 // increases with each change of this machine, over restarts too
	ProviderID            string // as in the spec of a Node; empty: none yet
	Node                  string // its name; empty: not known
	LastError             string // with Failed alone
	Labels                map[string]string
	Resources             []vector.Amount // what it offers to Pods
	Taints, StartupTaints []match.Taint
	InstanceType          string
	Zone                  string
	CapacityType          demand.CapacityType
}

// Confidence is how likely capacity is to be had. Its numbers are those of the wire contract.
type Confidence uint8

// The degrees of confidence. The zero value is not valid.
const (
	NoCapacity       Confidence = iota + 1 // nothing matches
	LowConfidence                          // only what was refused a short time ago matches
	MediumConfidence                       // it can be bought
	HighConfidence                         // a machine that runs and is idle matches
)

// Capacity is what the shard could give for one profile that the cluster asks for, and what it lacks.
type Capacity struct {
	Fingerprint  string
	Terms        match.Terms
	Confidence   Confidence
	Available    int64 // how many machines
	CostMicroUSD int64 // per hour, of the cheapest one, in millionths of a dollar
	Shortfall    []vector.Amount
	Since        time.Time     // of the shortfall; zero: none
	Reason       demand.Reason // of the shortfall
	Withdrawn    bool          // the profile is asked for no longer; all but the Fingerprint is empty
}

// Key is empty: each roll-up is answered.
func (RollupAnswer) Key() string { return "" }

// Key is that of the request.
func (m BootstrapRequest) Key() string { return "bootstrap:" + m.Request }

// Key is that of the instruction: what cancels it takes its place.
func (m ReclaimInstruction) Key() string { return "reclaim:" + m.Instruction }

// Key is that of the machine.
func (m NodeState) Key() string { return "node:" + m.Machine }

// Key is that of the profile.
func (m Capacity) Key() string { return "available:" + m.Fingerprint }
