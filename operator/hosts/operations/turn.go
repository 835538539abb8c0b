package operations

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Turn returns which of the operations of one machine comes next: the one that an executor has or may
// take, or else the oldest of those that could begin now, by their names where they are as old. Those
// that wait for something else than their turn hold nobody up. Nil: none could begin.
func Turn(all []*hostsv1.MachineOperation, m Machine) *hostsv1.MachineOperation {
	var ready []*hostsv1.MachineOperation
	for _, op := range all {
		switch {
		case Finished(op.Status.State):
		case op.Status.State == hostsv1.OperationInProgress:
			return op
		case !op.DeletionTimestamp.IsZero():
		case mayBegin(op, m):
			if op.Labels[hostsv1.LabelExecutor] != "" {
				return op
			}
			ready = append(ready, op)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	return slices.MinFunc(ready, older)
}

// older orders operations by their age, and by their names where they are as old. One that could not be put
// on hold when it was its turn, or that its executor did not claim, comes after all others, which need not wait
// for that; of those that were not claimed, the one that has waited for its next turn longest comes first.
func older(a, b *hostsv1.MachineOperation) int {
	return cmp.Or(late(a).Compare(late(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// late is when an operation has missed its turn; the zero time: it has not.
func late(op *hostsv1.MachineOperation) time.Time {
	switch op.Status.Reason {
	case hostsv1.ReasonOnHold:
		return time.Unix(0, 0)
	case hostsv1.ReasonNotClaimed:
		if c := meta.FindStatusCondition(op.Status.Conditions, hostsv1.ConditionClaimed); c != nil {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// mayBegin reports whether nothing but its turn, and that of its parent, keeps an operation from
// beginning.
func mayBegin(op *hostsv1.MachineOperation, m Machine) bool {
	if held, _ := kept(op.Spec.OperationName, m); held != "" {
		return false
	}
	return m.Found && Executor(op.Spec.OperationName, m.Executors) != "" && (Forced(op) || !m.Paused && m.Repaving == "") &&
		!madeForAnother(op, m.UID)
}

// Running are the operations that an executor has or may take: of a machine one at most, and of the
// children of a parent as many as its limit says. The zero one has none. It has one user at a time.
type Running struct {
	by       map[string]run               // by the UID of the operation
	machines map[string]map[string]string // names of operations, by machine and UID
	parents  map[string]int               // how many, by the UID of their parent
}

type run struct {
	machine, parent string
	// until is when the executor of an operation that is gone has ended at the latest; zero: it is
	// there.
	until time.Time
}

// Note notes an operation as it is now: one that is claimed, or may be, runs; one that has finished does
// not.
func (r *Running) Note(op *hostsv1.MachineOperation) {
	switch {
	case op.Spec.MachineRef == nil:
	case Finished(op.Status.State):
		r.Drop(string(op.UID))
	case op.Status.State == hostsv1.OperationInProgress || op.Labels[hostsv1.LabelExecutor] != "":
		r.add(op)
	}
}

func (r *Running) add(op *hostsv1.MachineOperation) {
	uid, machine, parent := string(op.UID), string(op.Spec.MachineRef.Name), op.Labels[hostsv1.LabelParentUID]
	if _, has := r.by[uid]; has {
		return
	}
	if r.by == nil {
		r.by, r.machines, r.parents = map[string]run{}, map[string]map[string]string{}, map[string]int{}
	}
	r.by[uid] = run{machine: machine, parent: parent}
	if r.machines[machine] == nil {
		r.machines[machine] = map[string]string{}
	}
	r.machines[machine][uid] = op.Name
	r.parents[parent]++
}

// Take notes that an operation may be taken by its executor, unless another one of its machine runs or
// limit of the children of its parent do; a limit of 0 is none. To take what is taken changes nothing.
func (r *Running) Take(op *hostsv1.MachineOperation, limit int) bool {
	if r.Has(string(op.UID)) {
		return true
	}
	if r.Other(op) != "" || r.Full(op, limit) {
		return false
	}
	r.add(op)
	return true
}

// Has reports whether an operation runs.
func (r *Running) Has(uid string) bool { _, has := r.by[uid]; return has }

// Other is the name of another operation of the same machine that runs; empty: none does.
func (r *Running) Other(op *hostsv1.MachineOperation) string {
	name := ""
	for uid, other := range r.machines[string(op.Spec.MachineRef.Name)] {
		if uid != string(op.UID) && (name == "" || other < name) {
			name = other
		}
	}
	return name
}

// Full reports whether as many of the children of an operation's parent run as may, without the
// operation.
func (r *Running) Full(op *hostsv1.MachineOperation, limit int) bool {
	parent := op.Labels[hostsv1.LabelParentUID]
	return limit > 0 && parent != "" && !r.Has(string(op.UID)) && r.parents[parent] >= limit
}

// Children are how many of the children of a parent run.
func (r *Running) Children(parent string) int { return r.parents[parent] }

// Drop forgets an operation: it has finished, or its label was taken back before anybody had claimed it.
func (r *Running) Drop(uid string) {
	one, has := r.by[uid]
	if !has {
		return
	}
	delete(r.by, uid)
	delete(r.machines[one.machine], uid)
	if len(r.machines[one.machine]) == 0 {
		delete(r.machines, one.machine)
	}
	if r.parents[one.parent]--; r.parents[one.parent] == 0 {
		delete(r.parents, one.parent)
	}
}

// Gone notes that the object of an operation is gone. One that was claimed goes on, and runs until then;
// zero: it was not.
func (r *Running) Gone(uid string, until time.Time) {
	one, has := r.by[uid]
	switch {
	case !has:
	case until.IsZero():
		r.Drop(uid)
	default:
		one.until = until
		r.by[uid] = one
	}
}

// Expire forgets those that are gone, and whose time is over.
func (r *Running) Expire(now time.Time) {
	for uid, one := range r.by {
		if !one.until.IsZero() && !now.Before(one.until) {
			r.Drop(uid)
		}
	}
}
