package providererror

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/status"
)

// Times of errors of machines.
const (
	// shownFor is how long an error of a machine that is ready all the same is shown.
	shownFor = 10 * time.Minute
	// lookAgain is when a machine that has an error is looked at again.
	lookAgain = time.Minute
)

// last is the last error of an instance that this process has heard of.
type last struct {
	verdict Verdict
	at      time.Time
}

// machines remembers the last error of each instance until it is over, and wakes the
// controller that writes it down. Its zero value is ready; it is safe for concurrent use.
type machines struct {
	mu    sync.Mutex
	last  map[string]last // by instance
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (m *machines) note(instance string, v Verdict, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		m.last = map[string]last{}
	}
	m.last[instance] = last{v, now}
	if m.queue != nil {
		m.queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: instance}})
	}
}

func (m *machines) get(instance string) (last, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.last[instance]
	return l, ok
}

// forget forgets an error, unless there is a newer one.
func (m *machines) forget(instance string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, ok := m.last[instance]; ok && !l.at.After(at) {
		delete(m.last, instance)
	}
}

// SetupWithManager makes a manager run the controller that writes errors into the statuses
// of machines, and takes them out again when they are over. Requests name an instance.
func (r *Reporter) SetupWithManager(mgr ctrl.Manager, o controller.Options) error {
	noted := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.machines.mu.Lock()
		defer r.machines.mu.Unlock()
		r.machines.queue = queue
		for instance := range r.machines.last {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: instance}})
		}
		return nil
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("providererrors").
		Watches(&infrav1.NstanceMachine{}, handler.EnqueueRequestsFromMapFunc(r.ofMachine)).
		WatchesRawSource(noted).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller providererrors: %w", err)
	}
	return nil
}

// ofMachine returns the instance of a machine that has an error, or for which one is waiting.
func (r *Reporter) ofMachine(_ context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(*infrav1.NstanceMachine)
	if !ok || m.Spec.InstanceID == "" {
		return nil
	}
	if _, waiting := r.machines.get(m.Spec.InstanceID); !waiting && m.Status.LastError == "" && noRoom(m) == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: m.Spec.InstanceID}}}
}

// noRoom is the condition that there is no room for the machine's instance; nil: there is none.
func noRoom(m *infrav1.NstanceMachine) *metav1.Condition {
	return meta.FindStatusCondition(m.Status.Conditions, infrav1.ConditionCapacityAvailable)
}

// Reconcile writes what there is to say of the errors of one instance.
func (r *Reporter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	instance, now := request.Name, r.Now()
	said, known := r.machines.get(instance)
	m, err := nodes.Machine(ctx, r.Client, r.Namespace, instance)
	if err != nil {
		return ctrl.Result{}, err
	}
	if m == nil {
		if known && now.Sub(said.at) >= shownFor {
			r.machines.forget(instance, said.at)
		}
		return ctrl.Result{}, nil // its machine wakes this up
	}
	if paused, err := capi.Paused(ctx, r.Client, m); err != nil || paused {
		return ctrl.Result{RequeueAfter: lookAgain}, err
	}
	next := errorsOf(m, said, now)
	if err := r.write(ctx, m, next); err != nil {
		return ctrl.Result{}, err
	}
	if next.LastError == "" && len(next.Conditions) == 0 {
		r.machines.forget(instance, said.at)
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: lookAgain}, nil
}

// errorsOf is the part of a machine's status that is about errors. Nothing is left of them
// once the instance has become ready after the last one, or has been ready for a while in
// spite of it. That there is no room holds for the instance of the present spec, until its
// machine is made. The zero said: none was heard of by this process.
func errorsOf(m *infrav1.NstanceMachine, said last, now time.Time) infrav1.NstanceMachineStatus {
	ready := meta.FindStatusCondition(m.Status.Conditions, infrav1.ConditionReady)
	over := ready != nil && ready.Status == metav1.ConditionTrue &&
		(ready.LastTransitionTime.After(said.at) || now.Sub(said.at) >= shownFor)
	if over {
		return infrav1.NstanceMachineStatus{}
	}
	next := infrav1.NstanceMachineStatus{LastError: m.Status.LastError}
	if was := noRoom(m); was != nil && !m.Status.Initialization.Provisioned {
		next.Conditions = []metav1.Condition{*was}
	}
	if said.at.IsZero() {
		return next
	}
	next.LastError = said.verdict.Message
	if said.verdict.NoRoom && !m.Status.Initialization.Provisioned {
		reason := infrav1.ReasonInsufficient
		if said.verdict.Quota {
			reason = infrav1.ReasonQuotaExceeded
		}
		no := status.False(infrav1.ConditionCapacityAvailable, reason, said.verdict.Message)
		next.Conditions = status.Next(next.Conditions, []metav1.Condition{no}, m.Generation, now)
	}
	return next
}

// write puts what there is to say into the status of a machine, if it has changed.
func (r *Reporter) write(ctx context.Context, m *infrav1.NstanceMachine, next infrav1.NstanceMachineStatus) error {
	now := infrav1.NstanceMachineStatus{LastError: m.Status.LastError}
	if was := noRoom(m); was != nil {
		now.Conditions = []metav1.Condition{*was}
	}
	if equality.Semantic.DeepEqual(now, next) {
		return nil
	}
	object := &infrav1.NstanceMachine{ObjectMeta: m.ObjectMeta, Status: next}
	return client.IgnoreNotFound(status.Apply(ctx, r.Client, object, manager))
}
