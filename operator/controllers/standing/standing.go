// Package standing says on the NstanceCluster how the operator itself stands: whether it
// has its certificate, so that its nonce may go, and whether it reaches the API server that
// the Nodes are in.
//
// [Conditions] decides; it is pure. [Reconciler] looks and writes, each minute and whenever
// the NstanceCluster changes; that the operator has registered is an event too. Its rights:
// nstanceclusters get list watch, their status patch, secrets get, events create patch.
package standing

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
	"nstance.dev/operator/apply"
	"nstance.dev/operator/conditions"
	"nstance.dev/operator/pause"
	"nstance.dev/operator/replan"
)

// How often it is looked at without a reason; more often while the operator is not registered.
const (
	refresh             = time.Minute
	refreshUnregistered = 5 * time.Second
)

// View is what the conditions follow from.
type View struct {
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

// Conditions returns what a view says at a moment.
func Conditions(v View, now time.Time) []metav1.Condition {
	until := v.CertificateUntil.UTC().Format(time.RFC3339)
	registered := conditions.True(infrav1.ConditionOperatorRegistered, infrav1.ReasonRegistered,
		fmt.Sprintf("the certificate is good until %s; secret %s may be deleted", until, v.Nonce))
	if v.Unregistered != nil {
		registered = conditions.False(infrav1.ConditionOperatorRegistered, v.Unregistered.Reason, v.Unregistered.Message)
	} else if !now.Before(v.CertificateUntil) {
		registered = conditions.False(infrav1.ConditionOperatorRegistered, infrav1.ReasonCertificateExpired,
			fmt.Sprintf("the certificate ended at %s; put a new nonce into secret %s", until, v.Nonce))
	}
	reachable := conditions.True(infrav1.ConditionWorkloadReachable, infrav1.ReasonReachable, "the API server answers")
	switch {
	case v.Kubeconfig != "":
		reachable = conditions.False(infrav1.ConditionWorkloadReachable, infrav1.ReasonKubeconfigMissing, v.Kubeconfig)
	case v.Workload != nil:
		reachable = conditions.False(infrav1.ConditionWorkloadReachable, infrav1.ReasonUnreachable, v.Workload.Error())
	}
	return []metav1.Condition{registered, reachable}
}

// Reconciler writes the conditions of one NstanceCluster. All fields are required.
type Reconciler struct {
	Client          client.Client
	Namespace, Name string
	View            func(context.Context) View
	Events          events.EventRecorder
	Now             func() time.Time
}

var manager = apply.Manager("standing")

// SetupWithManager starts the controller with a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == r.Namespace && o.GetName() == r.Name })
	return ctrl.NewControllerManagedBy(mgr).
		Named("standing").
		For(&infrav1.NstanceCluster{}, builder.WithPredicates(ours)).
		Complete(replan.Reconciler(r))
}

// Reconcile writes the conditions if they are not as they should be.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var object infrav1.NstanceCluster
	if err := r.Client.Get(ctx, request.NamespacedName, &object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if paused, err := pause.Of(ctx, r.Client, &object); err != nil || paused {
		return reconcile.Result{RequeueAfter: refresh}, err
	}
	now, view, again := r.Now(), r.View(ctx), refresh
	if view.Unregistered != nil {
		again = refreshUnregistered
	}
	wanted := Conditions(view, now)
	next := conditions.Next(object.Status.Conditions, wanted, object.Generation, now)
	if slices.Equal(next, conditions.Of(object.Status.Conditions, wanted)) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	part := &infrav1.NstanceCluster{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, UID: object.UID}}
	part.Status.Conditions = next
	if err := apply.Status(ctx, r.Client, part, manager); err != nil {
		return reconcile.Result{}, err
	}
	r.tell(&object, next)
	return reconcile.Result{RequeueAfter: again}, nil
}

// tell makes an event of a registration that is new, or that fails for another reason.
func (r *Reconciler) tell(object *infrav1.NstanceCluster, next []metav1.Condition) {
	const registered = infrav1.ConditionOperatorRegistered
	is, was := meta.FindStatusCondition(next, registered), meta.FindStatusCondition(object.Status.Conditions, registered)
	if is.Status == metav1.ConditionFalse && is.Reason != "Registering" && (was == nil || was.Status != is.Status || was.Reason != is.Reason) {
		r.Events.Eventf(object, nil, corev1.EventTypeWarning, "NotRegistered", "Register", "%s: %s", is.Reason, is.Message)
	}
	if meta.IsStatusConditionTrue(next, registered) && !meta.IsStatusConditionTrue(object.Status.Conditions, registered) {
		r.Events.Eventf(object, nil, corev1.EventTypeNormal, "Registered", "Register", "%s", meta.FindStatusCondition(next, registered).Message)
	}
}
