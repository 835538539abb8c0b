package hostlink

import nstancev1 "nstance.dev/protos/nstance/v1"

// held is what is in force for the machine, of each kind the last that came. The zero value
// holds nothing.
type held struct {
	serial int // of the last one that was taken
	kinds  [kinds]item
}

// The kinds of work, in the order in which a paver has to hear of them.
const (
	assignment = iota
	credential
	confirmation
	kinds
)

type item struct {
	serial int // 0: there is none
	work   *nstancev1.MachineWork
}

// take notes work that came, and reports whether it is of a known kind and belongs to the
// assignment in force. What belonged to another assignment is forgotten with that, and the
// credential when the machine has joined.
func (h *held) take(w *nstancev1.MachineWork) bool {
	kind := assignment
	switch w := w.GetWork().(type) {
	case *nstancev1.MachineWork_Assignment:
		if w.Assignment.GetEpoch() != h.epoch() {
			h.kinds[credential], h.kinds[confirmation] = item{}, item{}
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
	default:
		return false
	}
	h.serial++
	h.kinds[kind] = item{h.serial, w}
	return true
}

// epoch is that of the assignment in force; 0: there is none.
func (h *held) epoch() int64 { return h.kinds[assignment].work.GetAssignment().GetEpoch() }

// told is what a paver has been told on one connection: by kind the serial of the last one.
type told [kinds]int

// next is what a paver has to be told next; nil: nothing. then is what it has been told by
// that.
func (h *held) next(t told) (work *nstancev1.MachineWork, then told) {
	for kind, it := range h.kinds {
		if it.serial > t[kind] {
			t[kind] = it.serial
			return it.work, t
		}
	}
	return nil, t
}
