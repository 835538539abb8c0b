// Package repave carries out the operations that change what a machine is built from: repave, and
// applyConfiguration where it may disrupt.
//
// A repave is what the deletion of a Node asks for, so this package drains the Node, deletes that very one, and
// follows what the life of the machine does about it: done is a machine that is ready under an epoch that
// was assigned after the operation had begun. Nothing is remembered: how far an operation is follows from the
// machine and its Node, so a process that comes after a crash goes on, and no Node is deleted for one operation
// twice.
//
// Which version is built nobody chooses here: it is the one that the machine is to have.
package repave

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/inplace"
	"nstance.dev/operator/hosts/operations"
)

// Reasons of operations that failed.
const (
	// ReasonOtherVersion: the machine would be built from another version than the operation asks for.
	ReasonOtherVersion = "OtherVersion"
	// ReasonRepaveFailed: the host gave the new machine up.
	ReasonRepaveFailed = "RepaveFailed"
)

// Drainer has Nodes drained for operations. [opdrain.Drains] does.
type Drainer interface {
	Drained(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (drained bool, why string, err error)
	End(op *hostsv1.MachineOperation, now time.Time)
}

// InPlace applies what needs no repave. [inplace.Applier] does.
type InPlace interface {
	Carry(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (*operations.Outcome, error)
}

// Repaver carries the operations out. All fields are required; it is safe for concurrent use.
type Repaver struct {
	InPlace InPlace
	// Nodes deletes Nodes, and reads them from a cache.
	Nodes  client.Client
	Drains Drainer
	Now    func() time.Time
}

// Offers are the operations that it carries out: what needs no repave on every machine, and a repave on one
// that stands for an instance.
func (r *Repaver) Offers(m *hostsv1.HostMachine) []string {
	if m.Spec.Instance == nil {
		return []string{hostsv1.OperationApplyConfiguration}
	}
	return []string{hostsv1.OperationApplyConfiguration, hostsv1.OperationRepave}
}

// Carry makes one step of an operation; nil: it is not over. An error is worth another try.
func (r *Repaver) Carry(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (*operations.Outcome, error) {
	if op.Status.StartTime == nil {
		return nil, fmt.Errorf("MachineOperation %s is not claimed", op.Name)
	}
	outcome, why, err := r.carry(ctx, op, m)
	late := op.Status.Deadline != nil && !r.Now().Before(op.Status.Deadline.Time)
	if outcome == nil && err == nil && late {
		outcome = failed(hostsv1.ReasonTimeout, "it was not done by its deadline: %s", why)
	}
	if outcome != nil {
		r.Drains.End(op, r.Now())
	}
	return outcome, err
}

// carry makes one step; why says what is waited for.
func (r *Repaver) carry(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (outcome *operations.Outcome, why string, err error) {
	if begun(op, m) {
		outcome, why = follow(m)
		return outcome, why, nil
	}
	if operations.Name(op.Spec.OperationName) == hostsv1.OperationRepave {
		return r.begin(ctx, op, m)
	}
	outcome, err = r.InPlace.Carry(ctx, op, m)
	if err != nil || outcome == nil || !outcome.Failed || op.Spec.Parameters["disruptive"] != "true" {
		return outcome, "", err
	}
	switch outcome.Reason {
	case inplace.ReasonNeedsRepave:
		return r.begin(ctx, op, m)
	case inplace.ReasonNotJoined:
		if c := m.Status.Configuration; c != nil && c.Applied != nil {
			return nil, outcome.Message, nil // it was deleted for this operation, or by somebody else: a repave comes of it
		}
	}
	return outcome, "", nil
}

// begun reports whether something was assigned to the machine since the operation had begun. Times are
// whole seconds, and between the deletion of a Node and what is assigned for it there are two at least.
func begun(op *hostsv1.MachineOperation, m *hostsv1.HostMachine) bool {
	c := m.Status.Configuration
	return c != nil && c.Assigned != nil && c.Assigned.At != nil && c.Assigned.At.After(op.Status.StartTime.Time)
}

// follow says what has become of what was assigned.
func follow(m *hostsv1.HostMachine) (outcome *operations.Outcome, why string) {
	c := m.Status.Configuration
	if f := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionRepaveFailed); f != nil && f.Status == metav1.ConditionTrue {
		return failed(ReasonRepaveFailed, "%s: %s", f.Reason, f.Message), ""
	}
	ready := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionReady)
	joined := c.Applied != nil && c.Applied.VersionReference == c.Assigned.VersionReference && m.Status.NodeRef != nil && m.Status.NodeRef.UID != ""
	if !joined || ready == nil || ready.Status != metav1.ConditionTrue {
		stage := "the host has not begun"
		if s := m.Status.Repave; s != nil && s.Stage != "" {
			stage = "the host is in stage " + s.Stage
		}
		return nil, fmt.Sprintf("epoch %d of HostMachine %s is not ready: %s", c.Assigned.Epoch, m.Name, stage)
	}
	return &operations.Outcome{
		Message: fmt.Sprintf("version %d of %s", c.Assigned.Version, c.Assigned.Name),
		Results: map[string]string{"epoch": strconv.FormatInt(c.Assigned.Epoch, 10), "version": strconv.Itoa(int(c.Assigned.Version)), "nodeUID": m.Status.NodeRef.UID},
	}, ""
}

// begin drains the Node, and deletes it.
func (r *Repaver) begin(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (outcome *operations.Outcome, why string, err error) {
	c := m.Status.Configuration
	ref := m.Status.NodeRef
	pending := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionConfigurationPending)
	switch wanted := op.Spec.Parameters["version"]; {
	case ref == nil || c == nil || c.Applied == nil:
		return failed(inplace.ReasonNotJoined, "HostMachine %s has no Node that has joined", m.Name), "", nil
	case m.Spec.Paused:
		return nil, fmt.Sprintf("HostMachine %s is paused", m.Name), nil
	case c.Desired == nil || pending != nil && pending.Status == metav1.ConditionTrue:
		message := "no version is selected"
		if pending != nil {
			message = pending.Message
		}
		return nil, "nothing can be built: " + message, nil
	case wanted != "" && string(wanted) != strconv.Itoa(int(c.Desired.Version)):
		return failed(ReasonOtherVersion, "the machine would be built from version %d of %s; set spec.configurationRef.version to have another", c.Desired.Version, c.Desired.Name), "", nil
	case ref.UID == "":
		return nil, "the machine is being repaved already", nil
	case !meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionAgentConnected):
		return nil, "the agent of the host is not connected", nil
	}
	node := &corev1.Node{}
	if err := r.Nodes.Get(ctx, client.ObjectKey{Name: ref.Name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Sprintf("Node %s is gone, and nothing was assigned for that yet", ref.Name), nil
		}
		return nil, "", fmt.Errorf("read Node %s: %w", ref.Name, err)
	}
	if string(node.UID) != ref.UID {
		return nil, fmt.Sprintf("Node %s is another one, and nothing was assigned for that yet", ref.Name), nil
	}
	if op.Spec.Parameters["drain"] != "false" {
		drained, why, err := r.Drains.Drained(ctx, op, m)
		if err != nil || !drained {
			return nil, why, err
		}
	}
	uid := types.UID(ref.UID)
	if err := r.Nodes.Delete(ctx, node, client.Preconditions{UID: &uid}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return nil, "", fmt.Errorf("delete Node %s: %w", node.Name, err)
	}
	return nil, fmt.Sprintf("Node %s was deleted, and nothing was assigned for that yet", ref.Name), nil
}

func failed(reason, format string, args ...any) *operations.Outcome {
	return &operations.Outcome{Failed: true, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
