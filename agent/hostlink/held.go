package hostlink

import (
	"slices"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// held is what is in force for the machine: of each kind the last that came, and the operations
// that are not over. The zero value holds nothing.
type held struct {
	serial int // of the last one that was taken
	kinds  [kinds]item
	orders []item // in the order of their serials
}

// mostOrders is how many operations are held; the oldest make room.
const mostOrders = 32

// The kinds of work, in the order in which a paver has to hear of them.
const (
	assignment = iota
	credential
	confirmation
	prebuild
	kinds
)

type item struct {
	serial int // 0: there is none
	work   *nstancev1.MachineWork
}

// take notes work that came, and reports whether it is of a known kind and belongs to the
// assignment in force. What belonged to another assignment is forgotten with that, as is what was to be
// prepared before it, and the credential when the machine has joined.
func (h *held) take(work *nstancev1.MachineWork) bool {
	kind := assignment
	switch w := work.GetWork().(type) {
	case *nstancev1.MachineWork_Assignment:
		if w.Assignment.GetEpoch() != h.epoch() {
			h.kinds[credential], h.kinds[confirmation], h.kinds[prebuild] = item{}, item{}, item{}
		}
	case *nstancev1.MachineWork_CredentialUpdate:
		if kind = credential; w.CredentialUpdate.GetEpoch() != h.epoch() {
			return false
		}
	case *nstancev1.MachineWork_NodeConfirmed:
		if kind = confirmation; w.NodeConfirmed.GetEpoch() != h.epoch() {
			return false
		}
		h.kinds[credential] = item{}
	case *nstancev1.MachineWork_Prebuild:
		kind = prebuild
	case *nstancev1.MachineWork_Operation:
		return h.order(w.Operation.GetId(), work)
	case *nstancev1.MachineWork_CancelOperation:
		return h.order(w.CancelOperation.GetId(), work)
	case *nstancev1.MachineWork_LogsStored:
		return h.order(w.LogsStored.GetOperationId(), work) // the paver that has sent logs knows the operation
	default:
		return false
	}
	h.serial++
	h.kinds[kind] = item{h.serial, work}
	return true
}

// order notes what came of an operation: that it is to be carried out, or that it is cancelled, which
// takes the place of that.
func (h *held) order(id string, work *nstancev1.MachineWork) bool {
	h.drop(id)
	h.serial++
	h.orders = append(h.orders, item{h.serial, work})
	if over := len(h.orders) - mostOrders; over > 0 {
		h.orders = slices.Delete(h.orders, 0, over)
	}
	return true
}

// drop forgets an operation.
func (h *held) drop(id string) {
	h.orders = slices.DeleteFunc(h.orders, func(it item) bool {
		return id == it.work.GetOperation().GetId() || id == it.work.GetCancelOperation().GetId() || id == it.work.GetLogsStored().GetOperationId()
	})
}

// reported forgets the operations and the prebuild that are over: their host will not be asked for them
// again.
func (h *held) reported(s *nstancev1.MachineStatus) {
	switch s.GetPrebuild().GetState() {
	case nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_DONE, nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FAILED:
		if wanted := h.kinds[prebuild].work.GetPrebuild(); wanted.GetScope() == s.GetPrebuild().GetScope() &&
			wanted.GetAssignment().GetConfiguration().GetHash() == s.GetPrebuild().GetConfiguration().GetHash() {
			h.kinds[prebuild] = item{}
		}
	default:
	}
	for _, o := range s.GetOperations() {
		switch o.GetState() {
		case nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_COMPLETE, nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_FAILED:
			h.drop(o.GetId())
		default:
		}
	}
}

// epoch is that of the assignment in force; 0: there is none.
func (h *held) epoch() int64 { return h.kinds[assignment].work.GetAssignment().GetEpoch() }

// told is what a paver has been told on one connection: the serials of the last ones.
type told struct {
	kinds [kinds]int
	order int
}

// next is what a paver has to be told next; nil: nothing. then is what it has been told by
// that.
func (h *held) next(t told) (work *nstancev1.MachineWork, then told) {
	for kind, it := range h.kinds {
		if it.serial > t.kinds[kind] {
			t.kinds[kind] = it.serial
			return it.work, t
		}
	}
	for _, it := range h.orders {
		if it.serial > t.order {
			t.order = it.serial
			return it.work, t
		}
	}
	return nil, t
}
