package tenant

import (
	"time"

	"nstance.dev/e2e/sim/demandsim/cluster"
)

// Instruction asks the operator to give a machine back.
type Instruction struct {
	ID, Machine string
	Grace       time.Duration
	// Voluntary says that the operator may refuse, and that Pods are not forced to end.
	Voluntary bool
	// Cancel ends what the instruction of this ID began.
	Cancel bool
}

// Ack answers an instruction: the drain has begun, or is refused for a reason.
type Ack struct {
	Instruction, Machine string
	Started              bool
	Refused              string
}

// Report says how the Node of a machine is.
type Report struct {
	Machine, Node string
	Ready         bool
	Allocatable   cluster.Vector
	Evictable     int // Pods that a drain would have to move
	Drained       bool
	Instruction   string // of which Drained or Error speaks
	Error         string
	Remaining     int // Pods that a drain which has failed left
	At            time.Time
}
