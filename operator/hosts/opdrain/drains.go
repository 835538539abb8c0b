// Package opdrain has Nodes drained for operations on their machines: before a repave, and before a reboot
// that asks for it.
//
// The one drain engine there is empties a Node; [Drains.Source] is one of its sources. A request gives way to
// those of all others, which have the end of the instance in view, and is never forced: what may not be
// evicted is waited for until the deadline of the operation. On the Node stands which operation it is
// drained for, so that the next process takes the drain up. When the operation has ended the Node is
// uncordoned, if it is still there.
//
// It leaves to others what is done to a Node that is empty.
package opdrain

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/drain"
)

// Drains are those that operations have asked for. Nodes and Wake are required; it is safe for concurrent use.
type Drains struct {
	// Nodes reads Nodes from a cache.
	Nodes client.Reader
	// Wake has the drain engine look at instances.
	Wake func(instances ...string)

	mu     sync.Mutex
	wanted map[string]request // by instance
	ended  map[string]time.Time
}

// request asks for the drain of a Node.
type request struct {
	node string // its UID
	drain.Request
}

// reason of the drains.
const reason = "operation"

// afterDeadline is how long after its deadline an operation is believed to be under way.
const afterDeadline = time.Minute

// instruction is what the drain for an operation is known by on the Node.
func instruction(op *hostsv1.MachineOperation) string {
	return infrav1.DrainRequestOfOperation + string(op.UID)
}

// Drained has the Node of a machine drained for an operation, and reports whether it is; why says what is
// waited for. A machine without a Node has nothing to be drained.
func (d *Drains) Drained(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (drained bool, why string, err error) {
	if m.Spec.Instance == nil || op.Status.Deadline == nil || op.Status.StartTime == nil {
		return false, "", fmt.Errorf("HostMachine %s stands for no instance, or the operation is not claimed", m.Name)
	}
	node := &corev1.Node{}
	if err := d.Nodes.Get(ctx, client.ObjectKey{Name: m.NodeName()}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		return false, "", fmt.Errorf("read Node %s: %w", m.NodeName(), err)
	}
	r := request{node: string(node.UID), Request: drain.Request{
		Instance: string(m.Spec.Instance.ID), Reason: reason, Instruction: instruction(op), Force: drain.Never,
		Decided: op.Status.StartTime.Time, Deadline: op.Status.Deadline.Time,
	}}
	d.mu.Lock()
	was, asked := d.wanted[r.Instance]
	if d.wanted == nil {
		d.wanted = map[string]request{}
	}
	d.wanted[r.Instance] = r
	d.mu.Unlock()
	if !asked || was != r {
		d.Wake(r.Instance)
	}
	phase := infrav1.DrainPhase(node.Annotations[infrav1.AnnotationDrainPhase])
	switch by := node.Annotations[infrav1.AnnotationDrainRequest]; {
	case by == r.Instruction && phase == infrav1.DrainDone:
		return true, "", nil
	case by != r.Instruction && phase != "":
		return false, fmt.Sprintf("Node %s is drained for something else", node.Name), nil
	case phase == "":
		return false, fmt.Sprintf("Node %s waits to be drained", node.Name), nil
	}
	return false, fmt.Sprintf("Node %s is being drained: %s", node.Name, phase), nil
}

// End says that an operation has ended: its drain is undone where the Node is still there.
func (d *Drains) End(op *hostsv1.MachineOperation, now time.Time) {
	if ended := d.end(op, now); len(ended) > 0 {
		d.Wake(ended...)
	}
}

// end forgets what an operation has asked for, and returns the instances that it was about.
func (d *Drains) end(op *hostsv1.MachineOperation, now time.Time) (instances []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := instruction(op)
	for instance, r := range d.wanted {
		if r.Instruction == of {
			delete(d.wanted, instance)
			instances = append(instances, instance)
		}
	}
	for id, until := range d.ended {
		if !now.Before(until) {
			delete(d.ended, id)
		}
	}
	if op.Status.Deadline != nil {
		if d.ended == nil {
			d.ended = map[string]time.Time{}
		}
		d.ended[of] = op.Status.Deadline.Time
	}
	return instances
}

// Source returns a source of the drain engine, which asks for nothing as long as one of the others asks for
// the drain of an instance. A drain that an earlier process has begun goes on until this one knows of the end of its
// operation, and until its deadline at most.
func (d *Drains) Source(others ...drain.Source) drain.Source {
	return func(t drain.Target, now time.Time) (drain.Request, bool) {
		for _, other := range others {
			if r, asks := other(t, now); asks && !r.Withdrawn {
				return drain.Request{}, false
			}
		}
		return d.of(t, now)
	}
}

func (d *Drains) of(t drain.Target, now time.Time) (drain.Request, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, asks := d.wanted[t.ID()]
	if asks && !now.Before(r.Deadline.Add(afterDeadline)) { // its object is gone, so nobody says that it has ended
		delete(d.wanted, t.ID())
		asks = false
	}
	if asks && (t.Node == "" || string(t.Node) == r.node) {
		return r.Request, true
	}
	if !drain.OfOperation(t.State.Instruction) {
		return drain.Request{}, false
	}
	if _, over := d.ended[t.State.Instruction]; !over && now.Before(t.State.Deadline) {
		return t.Remembered(), true
	}
	return drain.Request{Instance: t.ID(), Instruction: t.State.Instruction, Withdrawn: true}, true
}
