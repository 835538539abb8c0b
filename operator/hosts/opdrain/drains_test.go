package opdrain

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/testworld"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func operation(uid types.UID) *hostsv1.MachineOperation {
	op := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: "op", UID: uid}}
	start, deadline := metav1.NewTime(now), metav1.NewTime(now.Add(10*time.Minute))
	op.Status.StartTime, op.Status.Deadline = &start, &deadline
	return op
}

// TestM79_ADrainForAnOperation: what is asked of the engine, by the operation, by a process that comes later, and when
// it has ended.
func TestM79_ADrainForAnOperation(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}}
	nodes := testworld.NewClientBuilder(t).WithObjects(node).Build()
	var woken []string
	d := &Drains{Nodes: nodes, Wake: func(instances ...string) { woken = append(woken, instances...) }}
	m := &hostsv1.HostMachine{}
	m.Spec.NodeName, m.Spec.Instance = "n1", &hostsv1.InstanceReference{ID: "i1"}
	op := operation("uid-1")
	target := drain.Target{Instance: "i1", Node: "u1"}
	none := func(drain.Target, time.Time) (drain.Request, bool) { return drain.Request{}, false }
	if _, asks := d.Source(none)(target, now); asks {
		t.Error("a drain that nobody has asked for")
	}
	expect := func(what string, want bool) {
		t.Helper()
		if drained, why, err := d.Drained(t.Context(), op, m); drained != want || err != nil || drained == (why != "") {
			t.Errorf("%s: drained %v (%s), %v", what, drained, why, err)
		}
	}
	expect("asked for", false)
	expect("again", false)
	if !slices.Equal(woken, []string{"i1"}) {
		t.Errorf("woken %q", woken)
	}
	r, asks := d.Source(none)(target, now)
	if !asks || r.Instance != "i1" || r.Instruction != infrav1.DrainRequestOfOperation+"uid-1" || r.Force != drain.Never || !r.Deadline.Equal(now.Add(10*time.Minute)) || r.Acknowledge {
		t.Errorf("%+v, %v", r, asks)
	}
	if _, asks := d.Source(func(drain.Target, time.Time) (drain.Request, bool) { return drain.Request{Instance: "i1"}, true })(target, now); asks {
		t.Error("it does not give way to the end of the instance")
	}
	if _, asks := d.Source(none)(drain.Target{Instance: "i1", Node: "u2"}, now); asks {
		t.Error("another Node is drained")
	}
	node.Annotations = map[string]string{infrav1.AnnotationDrainRequest: r.Instruction, infrav1.AnnotationDrainPhase: string(infrav1.DrainEvicting)}
	if err := nodes.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	expect("being drained", false)
	node.Annotations[infrav1.AnnotationDrainPhase] = string(infrav1.DrainDone)
	if err := nodes.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	expect("drained", true)

	begun := target
	begun.State = drain.State{Instance: "i1", Instruction: r.Instruction, Phase: infrav1.DrainDone, Deadline: r.Deadline}
	later := &Drains{Nodes: nodes, Wake: func(...string) {}}
	if r, asks := later.Source(none)(begun, now); !asks || r.Withdrawn || r.Instruction != begun.State.Instruction {
		t.Errorf("another process: %+v, %v", r, asks)
	}
	if r, asks := later.Source(none)(begun, r.Deadline); !asks || !r.Withdrawn {
		t.Errorf("another process, at the deadline: %+v, %v", r, asks)
	}
	if _, asks := d.Source(none)(begun, r.Deadline); !asks {
		t.Error("it is given up at the deadline, before the operation says that it has ended")
	}
	if r, asks := d.Source(none)(begun, r.Deadline.Add(afterDeadline)); !asks || !r.Withdrawn || len(d.wanted) > 0 {
		t.Errorf("of an operation that was deleted: %+v, %v", r, asks)
	}
	expect("asked for by one that is there after all", true)
	d.End(op, now)
	if r, asks := d.Source(none)(begun, now); !asks || !r.Withdrawn {
		t.Errorf("ended: %+v, %v", r, asks)
	}
	if woken[len(woken)-1] != "i1" || len(woken) != 3 {
		t.Errorf("woken %q", woken)
	}
	d.End(operation("uid-2"), r.Deadline)
	if len(d.ended) != 1 {
		t.Errorf("%d ends are remembered", len(d.ended))
	}
	m.Spec.NodeName = "n2"
	expect("a machine without a Node", true)
}
