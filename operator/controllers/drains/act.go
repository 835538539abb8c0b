package drains

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"nstance.dev/operator/drain"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// evictAgain is when a Pod comes to its turn that had to wait for the limit.
const evictAgain = 200 * time.Millisecond

// outcome is what carrying out has brought.
type outcome struct {
	results []drain.Result
	acked   bool
	limited bool // evictions were put off
}

// carryOut does what a decision asks for, and remembers what came of it. Only what was
// written on the Node counts as done: if that fails, the drain stays where it was.
func (r *Reconciler) carryOut(ctx context.Context, s *sight, d drain.Decision) (ctrl.Result, error) {
	id := s.answer.Request.Instance
	var done outcome
	for _, action := range d.Actions {
		if err := r.act(ctx, s, d.State, action, &done); err != nil {
			return ctrl.Result{}, err
		}
	}
	if d.Over && d.State.Phase != drain.None && s.answer.Fate == drain.Condemned {
		d.Again = repeatAfter // the shard may not have heard
	} else if d.Over {
		r.memory.forget(id)
		return ctrl.Result{}, nil
	}
	e := s.entry
	e.state, e.results, e.acked = d.State, done.results, done.acked
	r.memory.put(id, e)
	if done.limited {
		d.Again = min(d.Again, evictAgain)
	}
	if s.answer.Spared && d.Again == 0 {
		d.Again = sparedFor
	}
	return ctrl.Result{RequeueAfter: d.Again}, nil
}

func (r *Reconciler) act(ctx context.Context, s *sight, state drain.State, action drain.Action, done *outcome) error {
	switch a := action.(type) {
	case drain.Mark:
		return r.change(ctx, s, func(n *corev1.Node) *corev1.Node { return drain.Marked(n, state) })
	case drain.Unmark:
		return r.change(ctx, s, drain.Unmarked)
	case drain.Evict:
		if !r.Evictions.AllowN(r.Now(), 1) {
			done.limited = true
			done.results = append(done.results, drain.Result{Pod: a.UID, Outcome: drain.Conflict, Says: "waits for its turn"})
			return nil
		}
		done.results = append(done.results, drain.ResultOf(a.UID, r.evict(ctx, a)))
	case drain.Kill:
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
		err := r.Workload.Delete(ctx, pod, client.GracePeriodSeconds(a.Grace), client.Preconditions{UID: &a.UID})
		done.results = append(done.results, drain.ResultOf(a.UID, err))
	case drain.Acknowledge:
		done.acked = r.acknowledge(ctx, s, a)
	case drain.Tell:
		r.tell(s, a)
	default:
		panic(fmt.Sprintf("drains: no way to carry out %T", action))
	}
	return nil
}

// change writes the state of the drain on the Node as it was read; if it has changed since,
// it is read again and the step is repeated.
func (r *Reconciler) change(ctx context.Context, s *sight, to func(*corev1.Node) *corev1.Node) error {
	if s.node == nil {
		return nil
	}
	err := r.Workload.Patch(ctx, to(s.node), client.MergeFromWithOptions(s.node, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

func (r *Reconciler) evict(ctx context.Context, a drain.Evict) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name, UID: a.UID}}
	return r.Workload.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name},
		DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &a.Grace, Preconditions: &metav1.Preconditions{UID: uid(a.UID)}},
	})
}

func uid(u types.UID) *types.UID { return &u }

// acknowledge tells the shard that the Node is empty, and reports whether it has heard. If
// not, the drain tells it again.
func (r *Reconciler) acknowledge(ctx context.Context, s *sight, a drain.Acknowledge) bool {
	server, ok := r.Server(s.shard)
	if !ok {
		return false
	}
	err := server.AcknowledgeDrained(ctx, &nstancev1.AcknowledgeDrainedRequest{
		InstanceId: a.Instance, Forced: a.Forced, Evicted: int32(a.Evicted), Left: int32(a.Left), //nolint:gosec // Pods of one Node
	})
	if err != nil && shards.ClassOf(err) != shards.Unimplemented {
		log.FromContext(ctx).Info("the shard was not told that a node is drained", "instance", a.Instance, "error", err.Error())
		return false
	}
	return true
}

// tell publishes an event about the Node, if there is one.
func (r *Reconciler) tell(s *sight, a drain.Tell) {
	kind := corev1.EventTypeNormal
	if a.Warning {
		kind = corev1.EventTypeWarning
	}
	if s.node != nil {
		r.Events.Eventf(s.node, nil, kind, a.Reason, "Drain", "%s", a.Message)
	}
}
