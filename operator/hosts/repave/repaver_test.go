package repave

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/inplace"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/testworld"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// drains has Nodes drained when a test says so.
type drains struct {
	drained bool
	asked   int
	ended   int
}

func (d *drains) Drained(context.Context, *hostsv1.MachineOperation, *hostsv1.HostMachine) (bool, string, error) {
	d.asked++
	return d.drained, "Node n1 is being drained", nil
}

func (d *drains) End(*hostsv1.MachineOperation, time.Time) { d.ended++ }

// applies is what needs no repave, as a test says.
type applies struct{ outcome *operations.Outcome }

func (a applies) Carry(context.Context, *hostsv1.MachineOperation, *hostsv1.HostMachine) (*operations.Outcome, error) {
	return a.outcome, nil
}

// world is a machine that runs version 1, whose Node is there.
type world struct {
	*Repaver
	drains *drains
	op     *hostsv1.MachineOperation
	m      *hostsv1.HostMachine
	at     time.Time
}

func newWorld(t *testing.T, name string, parameters map[string]hostsv1.ParameterValue) *world {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}}
	w := &world{drains: &drains{}, at: now, op: &hostsv1.MachineOperation{}, m: &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}}
	w.Repaver = &Repaver{InPlace: applies{}, Nodes: testworld.NewClientBuilder(t).WithObjects(node).Build(), Drains: w.drains, Now: func() time.Time { return w.at }}
	start, deadline := metav1.NewTime(now), metav1.NewTime(now.Add(45*time.Minute))
	w.op.Spec.OperationName, w.op.Spec.Parameters, w.op.Status.StartTime, w.op.Status.Deadline = name, parameters, &start, &deadline
	w.m.Spec.NodeName = "n1"
	w.m.Spec.Instance = &hostsv1.InstanceReference{}
	w.m.Status.NodeRef = &hostsv1.NodeReference{Name: "n1", UID: "u1"}
	of, before := hostsv1.VersionReference{Name: "gpu", Version: 1}, metav1.NewTime(now.Add(-time.Hour))
	w.m.Status.Configuration = &hostsv1.ConfigurationStatus{
		Desired: &hostsv1.VersionReference{Name: "gpu", Version: 2}, Applied: &hostsv1.AppliedVersion{VersionReference: of},
		Assigned: &hostsv1.AssignedVersion{VersionReference: of, Epoch: 3, At: &before},
	}
	w.is(hostsv1.ConditionAgentConnected, metav1.ConditionTrue, "Connected", "")
	w.is(hostsv1.ConditionReady, metav1.ConditionTrue, "Ready", "")
	return w
}

func (w *world) is(kind string, s metav1.ConditionStatus, reason, message string) {
	for i, c := range w.m.Status.Conditions {
		if c.Type == kind {
			w.m.Status.Conditions[i].Status, w.m.Status.Conditions[i].Reason, w.m.Status.Conditions[i].Message = s, reason, message
			return
		}
	}
	w.m.Status.Conditions = append(w.m.Status.Conditions, metav1.Condition{Type: kind, Status: s, Reason: reason, Message: message})
}

// assigned is what the life of the machine does about a Node that is gone.
func (w *world) assigned(version int32) {
	at := metav1.NewTime(now.Add(2 * time.Second))
	w.m.Status.NodeRef.UID = ""
	w.m.Status.Configuration.Assigned = &hostsv1.AssignedVersion{VersionReference: hostsv1.VersionReference{Name: "gpu", Version: version}, Epoch: 4, At: &at}
	w.is(hostsv1.ConditionReady, metav1.ConditionFalse, "NodeNotReady", "")
}

func (w *world) joined() {
	w.m.Status.NodeRef.UID = "u2"
	w.m.Status.Configuration.Applied = &hostsv1.AppliedVersion{VersionReference: w.m.Status.Configuration.Assigned.VersionReference}
	w.is(hostsv1.ConditionReady, metav1.ConditionTrue, "Ready", "")
}

// carry is what becomes of the operation: a reason and a message, or what it waits for.
func (w *world) carry(t *testing.T) string {
	t.Helper()
	o, why, err := w.Repaver.carry(t.Context(), w.op, w.m)
	switch {
	case err != nil:
		return "error " + err.Error()
	case o == nil:
		return "waits: " + why
	case o.Failed:
		return o.Reason + ": " + o.Message
	}
	return "done: " + o.Message
}

func (w *world) expect(t *testing.T, what, want string) {
	t.Helper()
	if got := w.carry(t); !strings.HasPrefix(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (w *world) nodeThere(t *testing.T) bool {
	t.Helper()
	err := w.Nodes.Get(t.Context(), client.ObjectKey{Name: "n1"}, &corev1.Node{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// TestM53M79_Repave: the Node is drained, deleted once, and what comes of that is followed; nothing of it is remembered.
func TestM53M79_Repave(t *testing.T) {
	w := newWorld(t, hostsv1.OperationRepave, map[string]hostsv1.ParameterValue{"version": "2"})
	w.m.Spec.Paused = true
	w.expect(t, "paused", "waits: HostMachine m1 is paused")
	w.m.Spec.Paused = false
	w.is(hostsv1.ConditionAgentConnected, metav1.ConditionFalse, "Silent", "")
	w.expect(t, "the host is silent", "waits: the agent of the host is not connected")
	w.is(hostsv1.ConditionAgentConnected, metav1.ConditionTrue, "Connected", "")
	w.is(hostsv1.ConditionConfigurationPending, metav1.ConditionTrue, "VersionSkew", "it is too new")
	w.expect(t, "nothing can be built", "waits: nothing can be built: it is too new")
	w.is(hostsv1.ConditionConfigurationPending, metav1.ConditionFalse, "Resolved", "")
	w.expect(t, "with Pods", "waits: Node n1 is being drained")
	if !w.nodeThere(t) {
		t.Fatal("the Node was deleted before it was drained")
	}
	w.drains.drained = true
	w.expect(t, "drained", "waits: Node n1 was deleted")
	if w.nodeThere(t) {
		t.Fatal("the Node was not deleted")
	}
	w.expect(t, "nobody has noticed", "waits: Node n1 is gone")
	w.assigned(2)
	w.expect(t, "assigned", "waits: epoch 4 of HostMachine m1 is not ready")
	if err := w.Nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u2"}}); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "the new Node is there", "waits: epoch 4")
	w.joined()
	w.expect(t, "joined", "done: version 2 of gpu")
	if !w.nodeThere(t) {
		t.Error("the new Node was deleted")
	}
}

// TestM56_WhatDisrupts: what needs a repave gets one where the operation may disrupt; what needs none is done in place.
func TestM56_WhatDisrupts(t *testing.T) {
	needs := applies{failed(inplace.ReasonNeedsRepave, "these fields take a repave: kubernetes.version")}
	w := newWorld(t, hostsv1.OperationApplyConfiguration, nil)
	w.InPlace = needs
	w.expect(t, "not disruptive", "NeedsRepave: these fields take a repave: kubernetes.version")
	w = newWorld(t, hostsv1.OperationApplyConfiguration, map[string]hostsv1.ParameterValue{"disruptive": "true"})
	w.InPlace = applies{&operations.Outcome{Message: "labels"}}
	w.expect(t, "labels alone", "done: labels")
	if w.drains.asked > 0 || !w.nodeThere(t) {
		t.Error("a Node was drained for labels")
	}
	w.InPlace = needs
	w.expect(t, "with Pods", "waits: Node n1 is being drained")
	w.drains.drained = true
	w.expect(t, "drained", "waits: Node n1 was deleted")
	w.InPlace = applies{failed(inplace.ReasonNotJoined, "Node n1 is gone")}
	w.expect(t, "nobody has noticed", "waits: Node n1 is gone")
	w.assigned(2)
	w.joined()
	w.expect(t, "joined", "done: version 2 of gpu")
	w.m.Status.Configuration = nil
	w.expect(t, "a machine that never joined", "NotJoined: Node n1 is gone")
}

// TestM79_RepaveEnds: how a repave fails, and that its drain is undone then.
func TestM79_RepaveEnds(t *testing.T) {
	w := newWorld(t, hostsv1.OperationRepave, map[string]hostsv1.ParameterValue{"version": "1"})
	w.expect(t, "another version is desired", "OtherVersion: the machine would be built from version 2 of gpu")
	w = newWorld(t, hostsv1.OperationRepave, map[string]hostsv1.ParameterValue{"drain": "false"})
	w.expect(t, "without a drain", "waits: Node n1 was deleted")
	if w.drains.asked > 0 {
		t.Error("a drain was asked for")
	}
	w.assigned(2)
	w.is(hostsv1.ConditionRepaveFailed, metav1.ConditionTrue, "Reverted", "it did not join")
	w.expect(t, "reverted", "RepaveFailed: Reverted: it did not join")
	w = newWorld(t, hostsv1.OperationRepave, nil)
	w.at = now.Add(45 * time.Minute)
	o, err := w.Carry(t.Context(), w.op, w.m)
	if err != nil || o == nil || o.Reason != hostsv1.ReasonTimeout || !strings.Contains(o.Message, "is being drained") || w.drains.ended != 1 || !w.nodeThere(t) {
		t.Errorf("at the deadline: %+v, %v; ended %d", o, err, w.drains.ended)
	}
	w = newWorld(t, hostsv1.OperationRepave, nil)
	w.m.Status.NodeRef = nil
	w.expect(t, "a machine that never joined", "NotJoined")
}
