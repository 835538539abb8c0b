package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// manager owns the part of a machine's status that is about its Node.
var manager = status.FieldManager("nodes")

// Correlator writes down which Node a machine's instance is. It is safe for concurrent use.
type Correlator struct{ Options }

// Reconcile looks for the Node of one machine.
func (r *Correlator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil || o == nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, r.write(ctx, o, Correlate(*o))
}

// observe reads what a decision needs; nil without an error: there is nothing to decide.
func (r *Correlator) observe(ctx context.Context, name client.ObjectKey) (*Observation, error) {
	m := &infrav1.NstanceMachine{}
	if err := r.Client.Get(ctx, name, m); err != nil || m.Spec.InstanceID == "" {
		return nil, err
	}
	paused, err := capi.Paused(ctx, r.Client, m)
	if err != nil || paused {
		return nil, err
	}
	var said *nstancev1.InstanceStatus
	r.Inventory.Read(m.Spec.Shard, func(s *inventory.Shard) { said = s.Instance(m.Spec.InstanceID) })
	in := nodes.InstanceOf(m, said)
	o := &Observation{Machine: m, ProviderURI: in.ProviderURI, SetProviderID: r.SetProviderID, Home: r.home()}
	if o.Found, err = nodes.Find(ctx, r.Workload, in); err != nil {
		return nil, err
	}
	if o.Owner, err = capi.OwnerMachine(ctx, r.Client, m); err != nil {
		return nil, err
	}
	return o, nil
}

// write carries a decision out: the Node first, so that nobody looks for one that does not
// say what it is.
func (r *Correlator) write(ctx context.Context, o *Observation, d Decision) error {
	if d.Node != nil {
		if err := r.Workload.Patch(ctx, d.Node, client.MergeFromWithOptions(o.Found.Object, client.MergeFromWithOptimisticLock{})); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if d.Owner != nil {
		err := r.Client.Status().Patch(ctx, d.Owner, client.MergeFromWithOptions(o.Owner, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return r.writeMachine(ctx, o, d)
}

func (r *Correlator) writeMachine(ctx context.Context, o *Observation, d Decision) error {
	m := o.Machine
	now := infrav1.NstanceMachineStatus{NodeRef: m.Status.NodeRef, Allocatable: m.Status.Allocatable}
	was := meta.FindStatusCondition(m.Status.Conditions, infrav1.ConditionNodeCorrelated)
	if was != nil {
		now.Conditions = []metav1.Condition{*was}
	}
	next := infrav1.NstanceMachineStatus{
		NodeRef: d.NodeRef, Allocatable: d.Allocatable,
		Conditions: status.Next(now.Conditions, []metav1.Condition{d.Condition}, m.Generation, r.Now()),
	}
	if equality.Semantic.DeepEqual(now, next) {
		return nil
	}
	err := status.Apply(ctx, r.Client, &infrav1.NstanceMachine{ObjectMeta: m.ObjectMeta, Status: next}, manager)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.publishEvents(ctx, o, was, d)
	return nil
}

// publishEvents publishes what is new.
func (r *Correlator) publishEvents(ctx context.Context, o *Observation, was *metav1.Condition, d Decision) {
	if was != nil && was.Status == d.Condition.Status && was.Reason == d.Condition.Reason {
		return
	}
	switch {
	case d.Mismatch != "" && o.Found.Object != nil:
		r.Events.Eventf(o.Found.Object, nil, corev1.EventTypeWarning, "ProviderIDMismatch", "Correlate", "%s",
			fmt.Sprintf("instance %s: %s", o.Machine.Spec.InstanceID, d.Mismatch))
	case d.Condition.Status == metav1.ConditionTrue:
		ctrl.LoggerFrom(ctx).Info("recognised Node", "instance", o.Machine.Spec.InstanceID, "reason", d.Condition.Message)
		r.MachineEvents.Eventf(o.Machine, nil, corev1.EventTypeNormal, "NodeCorrelated", "Correlate", "%s", d.Condition.Message)
	}
}
