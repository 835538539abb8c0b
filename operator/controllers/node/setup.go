package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/status"
)

// Options are the surroundings of both reconcilers; all are required unless said.
type Options struct {
	// Client is for the objects of the operator and of Cluster API.
	Client    client.Client
	Namespace string
	// Cluster is the name of the Cluster whose machines these are.
	Cluster string
	// Workload is for Nodes.
	Workload  client.Client
	Inventory *inventory.Store
	// MachineEvents are published where the machines are, Events where the Nodes are.
	MachineEvents, Events events.EventRecorder
	// SetProviderID: Nodes without a provider id get one. DeleteEnded: Nodes whose
	// instances have ended are deleted.
	SetProviderID, DeleteEnded bool
	// Demand: demand mode is on, which deletes the Nodes of its machines.
	Demand bool
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// home is the value of infrav1.AnnotationCluster on Nodes of these machines.
func (o Options) home() string { return o.Namespace + "/" + o.Cluster }

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// NewCorrelator returns a reconciler.
func NewCorrelator(o Options) *Correlator { return &Correlator{o.withDefaults()} }

// Setup makes a manager run both reconcilers. The Nodes are those of workload; where they
// are the manager's own, that is the manager itself. each returns the options of one controller.
func Setup(mgr ctrl.Manager, workload cluster.Cluster, news *inventory.Hub, o Options, each func() controller.Options) error {
	correlator := NewCorrelator(o)
	err := builder.ControllerManagedBy(mgr).
		Named("nodes").
		For(&infrav1.NstanceMachine{}, builder.WithPredicates(collect.CreatesAlone())).
		Watches(&infrav1.NstanceMachine{}, collect.Events(collect.Soon, &handler.EnqueueRequestForObject{}), builder.WithPredicates(capi.ChangedIn(facts))).
		Watches(&clusterv1.Machine{}, collect.Events(collect.Soon, handler.EnqueueRequestsFromMapFunc(ofOwner)), builder.WithPredicates(capi.ChangedIn(nodeRef))).
		// A Node that was made for one Pod is kept free of others before the scheduler finds it.
		WatchesRawSource(source.Kind(workload.GetCache(), &corev1.Node{}, collect.AllButCreates(collect.Soon, handler.TypedEnqueueRequestsFromMapFunc(correlator.ofNode)), inventory.NoHeartbeats())).
		WatchesRawSource(news.Source(collect.Soon, correlator.changed)).
		WithOptions(each()).
		Complete(status.RequeueConflicts(correlator))
	if err != nil {
		return fmt.Errorf("controller nodes: %w", err)
	}
	if !o.DeleteEnded {
		return nil
	}
	deleter := NewDeleter(o)
	itself := func(_ context.Context, n *corev1.Node) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: n.Name}}}
	}
	err = builder.ControllerManagedBy(mgr).
		Named("orphan-nodes"). // as metrics have it
		// That an instance has ended is news of its shard. A Node that comes or changes afterwards is a rare thing.
		WatchesRawSource(source.Kind(workload.GetCache(), &corev1.Node{}, collect.Events(collect.Later, handler.TypedEnqueueRequestsFromMapFunc(itself)), inventory.NoHeartbeats())).
		WatchesRawSource(news.Source(collect.Soon, deleter.changed)).
		WithOptions(each()).
		Complete(status.RequeueConflicts(deleter))
	if err != nil {
		return fmt.Errorf("controller orphan-nodes: %w", err)
	}
	return nil
}

// facts are what a pass reads of the status of a machine.
func facts(o client.Object) any {
	m, ok := o.(*infrav1.NstanceMachine)
	if !ok {
		return nil
	}
	return []any{m.Status.Addresses, m.Status.NodeRef, m.Status.Allocatable, meta.FindStatusCondition(m.Status.Conditions, infrav1.ConditionNodeCorrelated)}
}

// nodeRef is what a pass reads of the status of a Machine.
func nodeRef(o client.Object) any {
	m, ok := o.(*clusterv1.Machine)
	if !ok {
		return nil
	}
	return m.Status.NodeRef
}

// ofOwner returns the machine that a Machine refers to.
func ofOwner(_ context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(*clusterv1.Machine)
	if !ok || m.Spec.InfrastructureRef.Kind != infrav1.KindMachine {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.InfrastructureRef.Name}}}
}

// ofNode returns the machines that a Node may be of.
func (r *Correlator) ofNode(ctx context.Context, n *corev1.Node) []reconcile.Request {
	machines, err := nodes.MachinesOfNode(ctx, r.Client, r.Namespace, n)
	if err != nil {
		return nil // the cache ends with the process
	}
	var all []reconcile.Request
	for i := range machines {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&machines[i])})
	}
	return all
}

// changed returns the machines whose instances have news.
func (r *Correlator) changed(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
	var all []reconcile.Request
	for _, c := range changes {
		if c.Kind != inventory.InstanceChanged {
			continue
		}
		if m, err := nodes.Machine(ctx, r.Client, r.Namespace, c.Instance); err == nil && m != nil {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)})
		}
	}
	return all
}

// changed returns the Nodes whose instances are gone, or may be since a shard was listed.
func (r *Deleter) changed(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
	instances, listed := map[string]bool{}, map[string]bool{}
	for _, c := range changes {
		switch c.Kind {
		case inventory.InstanceGone:
			instances[c.Instance] = true
		case inventory.ShardChanged:
			listed[c.Shard] = true
		}
	}
	var list corev1.NodeList
	if len(instances)+len(listed) == 0 || r.Workload.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	var all []reconcile.Request
	for i := range list.Items {
		n := &list.Items[i]
		id := n.Labels[infrav1.LabelInstanceID] // none: it may have come too late to get one
		if instances[id] || listed[n.Labels[infrav1.LabelShard]] || id == "" && len(instances) > 0 {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKey{Name: n.Name}})
		}
	}
	return all
}
