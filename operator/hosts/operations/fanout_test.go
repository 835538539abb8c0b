package operations

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

func hosts(n int) (all []*hostsv1.HostMachine) {
	for i := range n {
		name := fmt.Sprintf("box%d", i)
		all = append(all, &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}})
	}
	return all
}

// M73, M74: the life of an operation with a selector.
func TestM73M74_FanOut(t *testing.T) {
	limit, ttl := int32(2), int32(5)
	parent := operation("all", "reboot", 0, func(op *hostsv1.MachineOperation) {
		op.Spec.MachineRef, op.Spec.MachineSelector = nil, &hostsv1.MachineSelector{}
		op.Spec.MaxConcurrent, op.Spec.TTLSecondsAfterFinished = &limit, &ttl
	})
	if d := DecideFanOut(FanOut{Parent: parent}, now); d.Status.State != hostsv1.OperationFailed || d.Status.Reason != hostsv1.ReasonNoMachines {
		t.Errorf("no machines: %+v", d.Status)
	}
	if d := DecideFanOut(FanOut{Parent: parent, Invalid: fmt.Errorf("unreadable")}, now); d.Status.Reason != hostsv1.ReasonInvalidSelector {
		t.Errorf("no selector: %+v", d.Status)
	}

	machines := hosts(4)
	before := Child(parent, machines[3]) // of a pass that was cut short; the machine is not selected any more
	before.UID = "uid-before"
	d := DecideFanOut(FanOut{Parent: parent, Selected: machines[:3], Children: []*hostsv1.MachineOperation{before}}, now)
	if len(d.Create) != 3 || len(d.Remove) != 1 || d.Status.State != hostsv1.OperationPending || d.Status.Children.Total != 3 {
		t.Fatalf("begin: create %d, remove %d, %+v", len(d.Create), len(d.Remove), d.Status)
	}
	child := d.Create[0]
	if child.Name != "all-"+ChildName("", "uid-box0")[1:] || child.Spec.TTLSecondsAfterFinished != nil || child.Spec.MaxConcurrent != nil ||
		child.Spec.MachineSelector != nil || child.Spec.MachineRef.Name != "box0" || !IsChildOf(child, parent) {
		t.Errorf("child %+v", child)
	}
	parent.Status = d.Status
	if again := DecideFanOut(FanOut{Parent: parent, Selected: machines, Children: d.Create}, now); len(again.Create)+len(again.Remove) != 0 {
		t.Error("a machine that matches later is added")
	}

	children := d.Create
	for i, c := range children {
		c.UID, c.Status.State, c.Status.Reason = types.UID(fmt.Sprintf("uid-%d", i)), hostsv1.OperationPending, hostsv1.ReasonLimited
	}
	d = DecideFanOut(FanOut{Parent: parent, Children: children, Running: 1}, now)
	if len(d.Wake) != 1 {
		t.Errorf("with one of two under way %v are woken", d.Wake)
	}
	children[0].Status.State = hostsv1.OperationInProgress
	d = DecideFanOut(FanOut{Parent: parent, Children: children, Running: 2}, now)
	if d.Status.State != hostsv1.OperationInProgress || len(d.Wake) != 0 || *d.Status.Children != (hostsv1.OperationChildren{Total: 3, Pending: 2, InProgress: 1}) {
		t.Errorf("one in progress: %+v, wake %v", d.Status.Children, d.Wake)
	}
	parent.Status = d.Status
	children[0].Status.State, children[1].Status.State = hostsv1.OperationComplete, hostsv1.OperationComplete
	two := children[:2]
	if d = DecideFanOut(FanOut{Parent: parent, Children: two}, now); !d.LookAgain {
		t.Error("one that a cache does not show is taken for gone")
	}
	if d = DecideFanOut(FanOut{Parent: parent, Children: two, Certain: true}, now); d.Status.State != hostsv1.OperationFailed || d.Status.Children.Failed != 1 {
		t.Errorf("one was deleted: %+v", d.Status)
	}
	children[2].Status.State = hostsv1.OperationComplete
	if d = DecideFanOut(FanOut{Parent: parent, Children: children, Certain: true}, now); d.Status.State != hostsv1.OperationComplete {
		t.Errorf("all are complete: %+v", d.Status)
	}
	parent.Status = d.Status
	if d = DecideFanOut(FanOut{Parent: parent, Children: children}, now.Add(4*time.Second)); d.Delete || d.After != time.Second {
		t.Errorf("before its time is over: %+v", d)
	}
	if d = DecideFanOut(FanOut{Parent: parent, Children: children}, now.Add(5*time.Second)); !d.Delete {
		t.Errorf("after its time is over: %+v", d)
	}
}
