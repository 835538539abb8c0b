package reclaim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Reclaim answers an instruction of a shard; nil: it cannot be answered now, and the shard asks
// again. It returns when the Nodes are cordoned, and does not wait for their drains.
func (r *Reconciler) Reclaim(ctx context.Context, shard string, in *demandpb.ReclaimInstruction) *demandpb.ReclaimAck {
	ack := &demandpb.ReclaimAck{InstructionId: in.GetInstructionId()}
	if in.GetInstructionId() == "" {
		return nil
	}
	for _, target := range in.GetTargets() {
		machine := target.GetMachineId()
		if in.GetCancel() {
			r.opts.Log.InfoContext(ctx, "reclaim cancelled by its shard", "shard", shard, "machine", machine, "instruction", in.GetInstructionId(), "reason", in.GetReason())
			r.requests.withdraw(machine, in.GetInstructionId())
			r.opts.Wake(machine)
			continue
		}
		refused, begun, err := r.begin(ctx, shard, in, machine)
		switch {
		case err != nil:
			r.opts.Log.WarnContext(ctx, "reclaim not answered; the shard asks again", "shard", shard, "machine", machine, "instruction", in.GetInstructionId(), "error", err)
			return nil
		case refused != nil:
			ack.NodesRefused = append(ack.NodesRefused, refused)
		case begun:
			ack.NodesStarted++
		}
	}
	return ack
}

// begin refuses or cordons the Node of a machine. Neither: it has none.
func (r *Reconciler) begin(ctx context.Context, shard string, in *demandpb.ReclaimInstruction, machine string) (*demandpb.Refusal, bool, error) {
	upcoming, node, err := r.find(ctx, shard, machine)
	log := r.opts.Log.With("shard", shard, "machine", machine, "instruction", in.GetInstructionId())
	switch {
	case err != nil:
		return nil, false, err
	case node == nil:
		log.InfoContext(ctx, "reclaim: machine has no Node")
		return nil, false, nil
	}
	log = log.With("node", node.Name)
	if known := r.requests.of(machine); known != nil && known.node == node.UID && known.request.Instruction == in.GetInstructionId() {
		r.requests.tell(machine, in.GetInstructionId(), None) // the shard asks because it has not heard
		r.wake.Wake(machine)
		return nil, true, nil
	}
	state, draining, err := drain.ParseState(node.Annotations)
	draining = draining && err == nil && state.Instance == machine
	request := r.request(in, machine)
	if draining && state.Instruction == in.GetInstructionId() { // an earlier process began it
		request.Deadline, request.Decided = state.Deadline, state.StartedAt
	} else if in.GetVoluntary() {
		answer, err := r.room.check(ctx, node)
		switch {
		case err != nil:
			return nil, false, err
		case answer.Refused != "":
			log.InfoContext(ctx, "reclaim refused", "reason", answer.Refused, "detail", answer.Message)
			r.opts.Count(Refused)
			return &demandpb.Refusal{MachineId: machine, Reason: answer.Refused + ": " + answer.Message}, false, nil
		}
	}
	r.requests.begin(machine, instruction{shard: shard, node: node.UID, nodeName: node.Name, request: request})
	fresh, err := r.cordon(ctx, node, request)
	if err != nil {
		r.requests.drop(machine)
		return nil, false, fmt.Errorf("cordon node %s: %w", node.Name, err)
	}
	if fresh {
		r.opts.Events.Eventf(node, nil, corev1.EventTypeNormal, "DrainStarted", "Drain", "%s", drain.Begin(node, request, r.opts.Now()).Started())
	}
	log.InfoContext(ctx, "reclaim began", "reason", request.Reason, "voluntary", in.GetVoluntary(), "deadline", request.Deadline.UTC().Format(time.RFC3339))
	r.opts.Count(Started)
	if upcoming != nil {
		if err := r.setPhase(ctx, upcoming, demandv1.UpcomingNodeDraining, ""); err != nil {
			log.WarnContext(ctx, "marking an UpcomingNode as draining failed", "error", err)
		}
	}
	r.opts.Wake(machine)
	r.wake.Wake(machine)
	return nil, true, nil
}

// request is what an instruction asks of the drain engine. What is voluntary is never forced.
func (r *Reconciler) request(in *demandpb.ReclaimInstruction, machine string) drain.Request {
	grace := time.Duration(in.GetGracePeriodSeconds()) * time.Second
	if grace <= 0 {
		grace = r.opts.Grace
	}
	now := r.opts.Now()
	q := drain.Request{
		Instance: machine, Reason: in.GetReason(), Instruction: in.GetInstructionId(), Decided: now, Deadline: now.Add(grace), Force: drain.AtDeadline,
	}
	if in.GetVoluntary() {
		q.Force = drain.Never
	}
	return q
}

// find returns the UpcomingNode and the Node of a machine, nil where it has none. Where it is not
// certain which Node it is, that is an error.
func (r *Reconciler) find(ctx context.Context, shard, machine string) (*demandv1.UpcomingNode, *corev1.Node, error) {
	upcoming, err := nodes.Upcoming(ctx, r.opts.Workload, machine)
	if err != nil {
		return nil, nil, err
	}
	in := nodes.InstanceOfUpcoming(machine, upcoming, r.reported(shard, machine))
	found, err := nodes.Find(ctx, r.opts.Workload, in)
	if err != nil || found.Node != "" {
		return upcoming, found.Object, err
	}
	// The cache may not have one that joined a moment ago.
	live, doubt, err := nodes.FindLive(ctx, r.opts.Machines, r.opts.Workload, r.opts.Live, r.opts.Namespace, in)
	switch {
	case err != nil:
		return nil, nil, err
	case live.Node != "":
		return upcoming, live.Object, nil
	case found.Why != "", doubt.Why != "":
		return nil, nil, fmt.Errorf("the Node of machine %s is uncertain: %w", machine, errors.New(cmp.Or(doubt.Why, found.Why)))
	}
	return upcoming, nil, nil
}

// reported is what a shard says of an instance; nil: nothing.
func (r *Reconciler) reported(shard, machine string) (said *nstancev1.InstanceStatus) {
	r.opts.Inventory.Read(shard, func(s *inventory.Shard) { said = s.Instance(machine) })
	return said
}

// cordonTries is how often a Node is read again that somebody changes at the same time.
const cordonTries = 5

// cordon marks a Node as the drain engine does, which goes on from there. A Node that is drained
// for another reason already gets the instruction added. It reports whether the drain is new.
func (r *Reconciler) cordon(ctx context.Context, node *corev1.Node, request drain.Request) (fresh bool, err error) {
	for range cordonTries {
		state, draining, perr := drain.ParseState(node.Annotations)
		fresh = !draining || perr != nil || state.Instance != request.Instance
		var next *corev1.Node
		switch {
		case fresh:
			next = drain.WithState(node, drain.Begin(node, request, r.opts.Now()))
		case state.Instruction == request.Instruction && node.Spec.Unschedulable:
			return false, nil
		default:
			next = node.DeepCopy()
			next.Spec.Unschedulable = true
			metav1.SetMetaDataAnnotation(&next.ObjectMeta, infrav1.AnnotationDrainRequest, request.Instruction)
		}
		err = r.opts.Workload.Patch(ctx, next, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return fresh, err
		}
		uid := node.UID
		node = &corev1.Node{}
		if err := r.opts.Live.Get(ctx, client.ObjectKey{Name: next.Name}, node); err != nil {
			return false, err
		}
		if node.UID != uid {
			return false, fmt.Errorf("node %s was replaced", node.Name)
		}
	}
	return false, err
}

// setPhase writes how far a machine is. A machine that has left has nothing to write on.
func (r *Reconciler) setPhase(ctx context.Context, upcoming *demandv1.UpcomingNode, phase demandv1.UpcomingNodePhase, why string) error {
	if upcoming.Status.Phase == phase && upcoming.Status.LastError == why {
		return nil
	}
	next := upcoming.DeepCopy()
	next.Status.LastError = why
	if next.Status.Phase != phase {
		next.Status.Phase, next.Status.LastTransitionTime = phase, &metav1.Time{Time: r.opts.Now()}
	}
	return client.IgnoreNotFound(r.opts.Workload.Status().Patch(ctx, next, client.MergeFrom(upcoming)))
}
