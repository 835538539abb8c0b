package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// evictAgain is when a Pod comes to its turn that had to wait for the limit.
const evictAgain = 200 * time.Millisecond

// outcome is what carrying out has brought.
type outcome struct {
	results []Result
	acked   bool
	limited bool // evictions were put off
}

func (r *Reconciler) act(ctx context.Context, s *target, state State, action Action, done *outcome) error {
	switch a := action.(type) {
	case WriteState:
		return r.patchNode(ctx, s, func(n *corev1.Node) *corev1.Node { return WithState(n, state) })
	case ClearState:
		return errors.Join(r.patchNode(ctx, s, WithoutState), r.clearOthers(ctx, s))
	case Evict:
		if !r.Evictions.AllowN(r.Now(), 1) {
			done.limited = true
			done.results = append(done.results, Result{Pod: a.UID, Outcome: Conflict, Message: "waits for its turn"})
			return nil
		}
		r.countMoved(done, ResultOf(a.UID, r.evict(ctx, a)), false)
	case DeletePod:
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
		err := r.Workload.Delete(ctx, pod, client.GracePeriodSeconds(a.Grace), client.Preconditions{UID: &a.UID})
		r.countMoved(done, ResultOf(a.UID, err), true)
	case Acknowledge:
		code := r.acknowledge(ctx, s, a, pause(state.Acks))
		r.Observer.Acknowledged(code)
		// A server that does not know the call needs none.
		done.acked = code == codes.OK || code == codes.Unimplemented
	case PublishEvent:
		log.FromContext(ctx).Info("drain event", "event", a.Reason, "instance", s.evaluation.Request.Instance, "shard", s.shard, "message", a.Message)
		r.publish(s, a)
	default:
		panic(fmt.Sprintf("drains: no way to carry out %T", action))
	}
	return nil
}

// countMoved records the result of an eviction or deletion.
func (r *Reconciler) countMoved(done *outcome, result Result, forced bool) {
	done.results = append(done.results, result)
	if result.Outcome == Leaves {
		r.Observer.Pod(forced)
	}
}

// ended reports a drain that has come to its end in this step.
func (r *Reconciler) ended(before, after State, c Counts) {
	if after.Phase != infrav1.DrainDone || before.Phase == infrav1.DrainDone || before.Phase == None {
		return
	}
	now := r.Now()
	end := Ended{
		Reason: after.Reason, Forced: before.Phase == infrav1.DrainForcing || c.Left > 0, Left: c.Left, Took: now.Sub(after.StartedAt),
	}
	if !after.Deadline.IsZero() {
		end.Slack = new(after.Deadline.Sub(now))
	}
	r.Observer.Drained(end)
}

// patchNode writes the state of the drain on the Node as it was read; if it has changed since,
// it is read again and the step is repeated.
func (r *Reconciler) patchNode(ctx context.Context, s *target, to func(*corev1.Node) *corev1.Node) error {
	if s.node == nil {
		return nil
	}
	next := to(s.node)
	if err := r.Workload.Patch(ctx, next, client.MergeFromWithOptions(s.node, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.node = next
	return nil
}

// clearOthers takes the state off the other Nodes that were drained because they might have
// been the instance's.
func (r *Reconciler) clearOthers(ctx context.Context, s *target) error {
	for _, n := range s.doubt.Nodes {
		if n.Annotations[infrav1.AnnotationDrainInstance] != s.evaluation.Request.Instance || s.node != nil && n.Name == s.node.Name {
			continue
		}
		err := r.Workload.Patch(ctx, WithoutState(n), client.MergeFromWithOptions(n, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// publishDoubt publishes an event about a Node that is not recognised for sure, each time that
// the reason changes: on the machine, or on the Nodes where no machine stands for the instance.
func (r *Reconciler) publishDoubt(ctx context.Context, s *target) {
	if s.entry.doubt == s.doubt.Why {
		return
	}
	s.entry.doubt = s.doubt.Why
	r.remember(s.evaluation.Request.Instance, s.entry)
	if s.doubt.Why == "" {
		return
	}
	instance := s.evaluation.Request.Instance
	message := fmt.Sprintf("the Node of instance %s is uncertain: %s; its drain is not acknowledged before the deadline; "+
		"delete or correct the Node that is not the instance's", instance, s.doubt.Why)
	log.FromContext(ctx).Info("Node of the instance uncertain: drain not acknowledged before the deadline", "instance", instance, "shard", s.shard, "reason", s.doubt.Why)
	if s.Machine != nil {
		r.MachineEvents.Eventf(s.Machine, nil, corev1.EventTypeWarning, "NodeUncertain", "Drain", "%s", message)
		return
	}
	for _, n := range s.doubt.Nodes {
		r.Events.Eventf(n, nil, corev1.EventTypeWarning, "NodeUncertain", "Drain", "%s", message)
	}
}

func (r *Reconciler) evict(ctx context.Context, a Evict) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name, UID: a.UID}}
	return r.Workload.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name},
		DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &a.Grace, Preconditions: &metav1.Preconditions{UID: uid(a.UID)}},
	})
}

func uid(u types.UID) *types.UID { return &u }

// acknowledge tells the shard that the Node is empty, and returns its answer. If it has not
// heard, the drain tells it again after the pause.
func (r *Reconciler) acknowledge(ctx context.Context, s *target, a Acknowledge, pause time.Duration) codes.Code {
	server, ok := r.Server(s.shard)
	if !ok {
		return codes.Unavailable
	}
	err := server.AcknowledgeDrained(ctx, &nstancev1.AcknowledgeDrainedRequest{
		InstanceId: a.Instance, Forced: a.Forced, Evicted: int32(a.Evicted), Left: int32(a.Left), //nolint:gosec // Pods of one Node
	})
	code := status.Code(err)
	if code != codes.OK && code != codes.Unimplemented {
		slog.New(logr.ToSlogHandler(log.FromContext(ctx))).WarnContext(ctx, "drain not acknowledged; instance stays until its deadline",
			"instance", a.Instance, "shard", s.shard, "retry_in", pause.String(), "error", err.Error())
	}
	return code
}

// publish sends an event about the Node, if there is one.
func (r *Reconciler) publish(s *target, a PublishEvent) {
	kind := corev1.EventTypeNormal
	if a.Warning {
		kind = corev1.EventTypeWarning
	}
	if s.node != nil {
		r.Events.Eventf(s.node, nil, kind, a.Reason, "Drain", "%s", a.Message)
	}
}
