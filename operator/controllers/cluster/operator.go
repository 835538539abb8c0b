package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/status"
)

// How often it is looked at without a reason; more often while the operator is not registered.
const (
	operatorRefresh     = time.Minute
	refreshUnregistered = 5 * time.Second
)

// OperatorView is what the conditions follow from.
type OperatorView struct {
	// Unregistered is why the operator has no certificate; nil: it has one.
	Unregistered     *Problem
	Nonce            string    // name of the nonce's Secret
	CertificateUntil time.Time // end of the operator's certificate
	// Kubeconfig is what is wrong with the kubeconfig of another workload cluster; empty:
	// nothing is, or the cluster manages itself.
	Kubeconfig string
	// Workload is why the API server of the Nodes does not answer; nil: it does.
	Workload error
}

// Problem is a reason and a message of a condition.
type Problem struct{ Reason, Message string }

// OperatorConditions returns what a view says at a moment.
func OperatorConditions(v OperatorView, now time.Time) []metav1.Condition {
	until := v.CertificateUntil.UTC().Format(time.RFC3339)
	registered := status.True(infrav1.ConditionOperatorRegistered, infrav1.ReasonRegistered,
		fmt.Sprintf("the certificate is good until %s; secret %s may be deleted", until, v.Nonce))
	if v.Unregistered != nil {
		registered = status.False(infrav1.ConditionOperatorRegistered, v.Unregistered.Reason, v.Unregistered.Message)
	} else if !now.Before(v.CertificateUntil) {
		registered = status.False(infrav1.ConditionOperatorRegistered, infrav1.ReasonCertificateExpired,
			fmt.Sprintf("the certificate ended at %s; put a new nonce into secret %s", until, v.Nonce))
	}
	reachable := status.True(infrav1.ConditionWorkloadReachable, infrav1.ReasonReachable, "the API server answers")
	switch {
	case v.Kubeconfig != "":
		reachable = status.False(infrav1.ConditionWorkloadReachable, infrav1.ReasonKubeconfigMissing, v.Kubeconfig)
	case v.Workload != nil:
		reachable = status.False(infrav1.ConditionWorkloadReachable, infrav1.ReasonUnreachable, v.Workload.Error())
	}
	return []metav1.Condition{registered, reachable}
}

// OperatorReconciler writes the conditions of one NstanceCluster. All fields are required.
type OperatorReconciler struct {
	Client          client.Client
	Namespace, Name string
	View            func(context.Context) OperatorView
	Events          events.EventRecorder
	Now             func() time.Time
}

var operatorManager = status.FieldManager("standing")

// SetupWithManager starts the controller with a manager.
func (r *OperatorReconciler) SetupWithManager(mgr ctrl.Manager) error {
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == r.Namespace && o.GetName() == r.Name })
	return ctrl.NewControllerManagedBy(mgr).
		Named("standing").
		For(&infrav1.NstanceCluster{}, builder.WithPredicates(ours, capi.ChangedIn(operatorConditions))).
		Complete(status.RequeueConflicts(r))
}

// operatorConditions are what of the status of a cluster is ours. The rest changes with every group, and is nothing to us.
func operatorConditions(o client.Object) any {
	c, ok := o.(*infrav1.NstanceCluster)
	if !ok {
		return nil
	}
	return []any{
		meta.FindStatusCondition(c.Status.Conditions, infrav1.ConditionOperatorRegistered),
		meta.FindStatusCondition(c.Status.Conditions, infrav1.ConditionWorkloadReachable),
	}
}

// Reconcile writes the conditions if they are not as they should be.
func (r *OperatorReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var object infrav1.NstanceCluster
	if err := r.Client.Get(ctx, request.NamespacedName, &object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if paused, err := capi.Paused(ctx, r.Client, &object); err != nil || paused {
		return reconcile.Result{RequeueAfter: operatorRefresh}, err
	}
	now, view, again := r.Now(), r.View(ctx), operatorRefresh
	if view.Unregistered != nil {
		again = refreshUnregistered
	}
	wanted := OperatorConditions(view, now)
	next := status.Next(object.Status.Conditions, wanted, object.Generation, now)
	if slices.Equal(next, status.Select(object.Status.Conditions, wanted)) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	part := &infrav1.NstanceCluster{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, UID: object.UID}}
	part.Status.Conditions = next
	if err := status.Apply(ctx, r.Client, part, operatorManager); err != nil {
		return reconcile.Result{}, err
	}
	r.publishEvents(&object, next)
	return reconcile.Result{RequeueAfter: again}, nil
}

// publishEvents makes an event of a registration that is new, or that fails for another reason.
func (r *OperatorReconciler) publishEvents(object *infrav1.NstanceCluster, next []metav1.Condition) {
	const registered = infrav1.ConditionOperatorRegistered
	is, was := meta.FindStatusCondition(next, registered), meta.FindStatusCondition(object.Status.Conditions, registered)
	if is.Status == metav1.ConditionFalse && is.Reason != "Registering" && (was == nil || was.Status != is.Status || was.Reason != is.Reason) {
		r.Events.Eventf(object, nil, corev1.EventTypeWarning, "NotRegistered", "Register", "%s: %s", is.Reason, is.Message)
	}
	if meta.IsStatusConditionTrue(next, registered) && !meta.IsStatusConditionTrue(object.Status.Conditions, registered) {
		r.Events.Eventf(object, nil, corev1.EventTypeNormal, "Registered", "Register", "%s", meta.FindStatusCondition(next, registered).Message)
	}
}
