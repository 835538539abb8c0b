package pavesim

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// operated is what is remembered of operations.
type operated struct {
	began   map[types.UID]string   // who has begun an operation
	busy    map[string]types.UID   // what is carried out on a machine, by executors
	reboots map[string]int         // of hosts, for an operation
	totals  map[types.UID]int32    // of the machines that a selector has selected
	names   map[types.UID][]string // of machines that have an operation of a parent
}

func newOperated() operated {
	return operated{
		began: map[types.UID]string{}, busy: map[string]types.UID{}, reboots: map[string]int{}, totals: map[types.UID]int32{}, names: map[types.UID][]string{},
	}
}

// follow are the states that may come after one.
var follow = map[hostsv1.OperationState][]hostsv1.OperationState{
	"":        {hostsv1.OperationPending, hostsv1.OperationFailed},
	"Pending": {hostsv1.OperationInProgress, hostsv1.OperationFailed}, "InProgress": {hostsv1.OperationComplete, hostsv1.OperationFailed},
}

func over(op *hostsv1.MachineOperation) bool {
	return op.Status.State == hostsv1.OperationComplete || op.Status.State == hostsv1.OperationFailed
}

// taken is whether an executor may have an operation.
func taken(op *hostsv1.MachineOperation) bool {
	return op.Spec.MachineRef != nil && !over(op) && (op.Labels[hostsv1.LabelExecutor] != "" || op.Status.State == hostsv1.OperationInProgress)
}

// operation checks each change of an operation: final states stay (M71), one of a machine at a time has its turn (M77), a
// selector selects once (M73), and no more of its machines are under way than may be (M74).
func (o *oracle) operation(by string, before, after *hostsv1.MachineOperation) {
	if after == nil {
		return
	}
	if before != nil && before.UID == after.UID && before.Status.State != after.Status.State {
		o.w.notef("%s: %s is %s, %s", by, after.Name, after.Status.State, after.Status.Reason)
		if !slices.Contains(follow[before.Status.State], after.Status.State) {
			o.w.violate("M71", "%s goes from %q to %q", after.Name, before.Status.State, after.Status.State)
		}
	}
	if c := after.Status.Children; c != nil {
		if was, counted := o.totals[after.UID]; counted && was != c.Total {
			o.w.violate("M73", "%s is for %d machines, and was for %d", after.Name, c.Total, was)
		}
		o.totals[after.UID] = c.Total
	}
	parent := metav1.GetControllerOf(after)
	if before == nil && parent != nil {
		name := string(after.Spec.MachineRef.Name)
		if total, begun := o.totals[parent.UID]; begun {
			o.w.violate("M73", "%s is made for %s, and the %d machines were selected before", after.Name, name, total)
		}
		if slices.Contains(o.names[parent.UID], name) {
			o.w.violate("M73", "%s is made for %s, which has one", after.Name, name)
		}
		o.names[parent.UID] = append(o.names[parent.UID], name)
	}
	if taken(after) && (before == nil || !taken(before)) && o.w.number("processes") == 1 { // what two leaders do at once nobody promises
		o.alone(after, parent)
	}
}

// alone checks what else is under way when an executor may have an operation.
func (o *oracle) alone(op *hostsv1.MachineOperation, parent *metav1.OwnerReference) {
	siblings := 1
	for _, other := range objects.All[*hostsv1.MachineOperation](o.w.api.Store) {
		if other.UID == op.UID || !taken(other) {
			continue
		}
		if other.Spec.MachineRef.Name == op.Spec.MachineRef.Name {
			o.w.violate("M77", "%s has its turn on %s, and %s has not ended", op.Name, op.Spec.MachineRef.Name, other.Name)
		}
		if of := metav1.GetControllerOf(other); of != nil && parent != nil && of.UID == parent.UID {
			siblings++
		}
	}
	if parent == nil {
		return
	}
	if all, there := objects.Find[*hostsv1.MachineOperation](o.w.api.Store, parent.Name); there && all.Spec.MaxConcurrent != nil && *all.Spec.MaxConcurrent > 0 && siblings > int(*all.Spec.MaxConcurrent) {
		o.w.violate("M74", "%d operations of %s are under way, and %d may be", siblings, all.Name, *all.Spec.MaxConcurrent)
	}
}

// executes notes that a process begins an operation: nobody else has (M75), and nothing else goes on at the machine (M77).
func (o *oracle) executes(x *executor, op *hostsv1.MachineOperation) {
	o.w.result.Fired["executed"]++
	if who, begun := o.began[op.UID]; begun {
		o.w.violate("M75", "%s carries %s out, which %s has begun", x.name, op.Name, who)
	}
	o.began[op.UID] = x.name
	machine := string(op.Spec.MachineRef.Name)
	if other, busy := o.busy[machine]; busy && o.w.number("processes") == 1 {
		o.w.violate("M77", "%s carries %s out on %s, and %s goes on there", x.name, op.Name, machine, other)
	}
	o.busy[machine] = op.UID
}

// executed notes that nothing more is done for an operation.
func (o *oracle) executed(_ *executor, op *hostsv1.MachineOperation) {
	if machine := string(op.Spec.MachineRef.Name); o.busy[machine] == op.UID {
		delete(o.busy, machine)
	}
}

// goesDown checks that a host which is about to reboot for an operation is on hold (M84).
func (o *oracle) goesDown(h *host) {
	if o.w.shard.Held(h.id) == "" {
		o.w.violate("M84", "%s reboots for an operation, and its instance is not on hold", h.name)
	}
}

// rebooted notes that a host reboots for an operation, which it does once (M75, M79).
func (o *oracle) rebooted(h *host, operation string) {
	o.w.result.Fired["rebooted"]++
	o.w.notef("%s: reboots for operation %s", h.name, operation)
	if o.reboots[operation]++; o.reboots[operation] > 1 {
		o.w.violate("M75", "%s has rebooted %d times for operation %s", h.name, o.reboots[operation], operation)
	}
}
