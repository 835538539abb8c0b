package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
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

func (r *Reconciler) act(ctx context.Context, s *sight, state State, action Action, done *outcome) error {
	switch a := action.(type) {
	case Mark:
		return r.change(ctx, s, func(n *corev1.Node) *corev1.Node { return Marked(n, state) })
	case Unmark:
		return errors.Join(r.change(ctx, s, Unmarked), r.unmarkOthers(ctx, s))
	case Evict:
		if !r.Evictions.AllowN(r.Now(), 1) {
			done.limited = true
			done.results = append(done.results, Result{Pod: a.UID, Outcome: Conflict, Says: "waits for its turn"})
			return nil
		}
		r.moved(done, ResultOf(a.UID, r.evict(ctx, a)), false)
	case Kill:
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
		err := r.Workload.Delete(ctx, pod, client.GracePeriodSeconds(a.Grace), client.Preconditions{UID: &a.UID})
		r.moved(done, ResultOf(a.UID, err), true)
	case Acknowledge:
		code := r.acknowledge(ctx, s, a)
		r.Observer.Acknowledged(code)
		// A server that does not know the call needs none.
		done.acked = code == codes.OK || code == codes.Unimplemented
	case Tell:
		log.FromContext(ctx).Info("drain", "event", a.Reason, "instance", s.answer.Request.Instance, "shard", s.shard, "message", a.Message)
		r.tell(s, a)
	default:
		panic(fmt.Sprintf("drains: no way to carry out %T", action))
	}
	return nil
}

// moved notes what became of a Pod.
func (r *Reconciler) moved(done *outcome, result Result, forced bool) {
	done.results = append(done.results, result)
	if result.Outcome == Leaves {
		r.Observer.Pod(forced)
	}
}

// ended reports a drain that has come to its end in this step.
func (r *Reconciler) ended(before, after State, c Counts) {
	if after.Phase != api.DrainDone || before.Phase == api.DrainDone || before.Phase == None {
		return
	}
	now := r.Now()
	end := Ended{
		Reason: after.Reason, Forced: before.Phase == api.DrainForcing || c.Left > 0, Left: c.Left, Took: now.Sub(after.StartedAt),
	}
	if !after.Deadline.IsZero() {
		end.Slack = new(after.Deadline.Sub(now))
	}
	r.Observer.Drained(end)
}

// change writes the state of the drain on the Node as it was read; if it has changed since,
// it is read again and the step is repeated.
func (r *Reconciler) change(ctx context.Context, s *sight, to func(*corev1.Node) *corev1.Node) error {
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

// unmarkOthers takes the state off the other Nodes that were drained because they might have
// been the instance's.
func (r *Reconciler) unmarkOthers(ctx context.Context, s *sight) error {
	for _, n := range s.doubt.Nodes {
		if n.Annotations[api.AnnotationDrainInstance] != s.answer.Request.Instance || s.node != nil && n.Name == s.node.Name {
			continue
		}
		err := r.Workload.Patch(ctx, Unmarked(n), client.MergeFromWithOptions(n, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// tellDoubt says on the machine that its Node is not recognised for sure, each time that
// there is something new to it; where no machine stands for the instance, on the Nodes.
func (r *Reconciler) tellDoubt(ctx context.Context, s *sight) {
	if s.entry.doubt == s.doubt.Why {
		return
	}
	s.entry.doubt = s.doubt.Why
	if s.doubt.Why == "" {
		return
	}
	instance := s.answer.Request.Instance
	message := fmt.Sprintf("which node is that of instance %s is uncertain: %s; it counts as not drained until its deadline, "+
		"delete or correct the Node that is not its own", instance, s.doubt.Why)
	log.FromContext(ctx).Info("node uncertain, drain not acknowledged before the deadline", "instance", instance, "shard", s.shard, "reason", s.doubt.Why)
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
// heard, the drain tells it again.
func (r *Reconciler) acknowledge(ctx context.Context, s *sight, a Acknowledge) codes.Code {
	server, ok := r.Server(s.shard)
	if !ok {
		return codes.Unavailable
	}
	err := server.AcknowledgeDrained(ctx, &nstancev1.AcknowledgeDrainedRequest{
		InstanceId: a.Instance, Forced: a.Forced, Evicted: int32(a.Evicted), Left: int32(a.Left), //nolint:gosec // Pods of one Node
	})
	code := status.Code(err)
	if code != codes.OK && code != codes.Unimplemented {
		log.FromContext(ctx).Info("the shard was not told that a node is drained", "instance", a.Instance, "error", err.Error())
	}
	return code
}

// tell publishes an event about the Node, if there is one.
func (r *Reconciler) tell(s *sight, a Tell) {
	kind := corev1.EventTypeNormal
	if a.Warning {
		kind = corev1.EventTypeWarning
	}
	if s.node != nil {
		r.Events.Eventf(s.node, nil, kind, a.Reason, "Drain", "%s", a.Message)
	}
}
