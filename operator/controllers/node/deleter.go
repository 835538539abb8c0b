package node

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
)

// Deleter deletes the Nodes whose instances have ended and that [nodes.DeletionOf] gives to the
// operator. Its requests name a Node. NewDeleter makes one; it is safe for concurrent use.
type Deleter struct {
	Options

	mu    sync.Mutex
	since map[types.UID]time.Time // when an instance was first seen to be gone
}

// NewDeleter returns a reconciler.
func NewDeleter(o Options) *Deleter {
	return &Deleter{Options: o.withDefaults(), since: map[types.UID]time.Time{}}
}

// Reconcile deletes one Node if its instance has ended.
func (r *Deleter) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := r.Workload.Get(ctx, client.ObjectKey{Name: req.Name}, node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	n := r.observeInstance(node)
	if !n.Ended() {
		r.forget(node.UID)
		return ctrl.Result{}, nil
	}
	n.EndedAt = r.noted(node.UID)
	if err := r.observeMachine(ctx, node, &n); err != nil {
		return ctrl.Result{}, err
	}
	d := nodes.DeletionOf(n, r.Now())
	if d.Owner != nodes.OwnerOperator || d.After > 0 {
		return ctrl.Result{RequeueAfter: d.After}, nil
	}
	err := r.Workload.Delete(ctx, node, client.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion})
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("deleted Node", "node", node.Name, "providerID", node.Spec.ProviderID, "reason", d.Reason)
		r.forget(node.UID)
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// observeInstance returns what the shards report of the instance of a Node. They report
// nothing of instances of other tenants, so that a shard does not know one means something
// for Nodes of this cluster only.
func (r *Deleter) observeInstance(node *corev1.Node) nodes.Instanceless {
	n := nodes.Instanceless{
		NodeProviderID: node.Spec.ProviderID, InstanceProviderID: node.Spec.ProviderID, Ready: ready(node), Correlated: r.correlatedInstanceGone(node),
		Demand: r.Demand && node.Annotations[infrav1.AnnotationDemandMachine] != "", HostMachine: nodes.OfHostMachine(node),
	}
	if n.NodeProviderID == "" {
		return n
	}
	for _, name := range r.Inventory.Names() {
		r.Inventory.Read(name, func(s *inventory.Shard) { n.Deleted = n.Deleted || s.Deleted(n.NodeProviderID) })
	}
	if !n.Ended() { // as with most Nodes: do not go through all instances for them
		return n
	}
	id := node.Labels[infrav1.LabelInstanceID]
	for _, name := range r.Inventory.Names() {
		r.Inventory.Read(name, func(s *inventory.Shard) {
			for _, in := range s.Instances("") {
				n.Exists = n.Exists || in.GetProviderUri() == n.NodeProviderID || in.GetInstanceId() == id
			}
		})
	}
	return n
}

// correlatedInstanceGone reports whether a Node was correlated with an instance of this
// cluster that its shard reports as gone.
func (r *Deleter) correlatedInstanceGone(node *corev1.Node) bool {
	id, shard := node.Labels[infrav1.LabelInstanceID], node.Labels[infrav1.LabelShard]
	if id == "" || shard == "" || node.Annotations[infrav1.AnnotationCluster] != r.home() {
		return false
	}
	gone := false
	r.Inventory.Read(shard, func(s *inventory.Shard) { gone = s.Presence(id) == inventory.Gone })
	return gone
}

// observeMachine reads the NstanceMachine of the instance of a Node, and whether Cluster API
// deletes the Node.
func (r *Deleter) observeMachine(ctx context.Context, node *corev1.Node, n *nodes.Instanceless) error {
	id := node.Labels[infrav1.LabelInstanceID]
	if id == "" {
		return nil
	}
	m, err := nodes.Machine(ctx, r.Client, r.Namespace, id)
	if err != nil || m == nil {
		return err
	}
	n.InstanceProviderID = m.Spec.ProviderID
	owner, err := capi.OwnerMachine(ctx, r.Client, m)
	if err != nil || owner == nil {
		return err
	}
	cluster := &clusterv1.Cluster{}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}, cluster)
	n.MachineHasNode, n.HasControlPlane = owner.Status.NodeRef.IsDefined(), cluster.Spec.ControlPlaneRef.IsDefined()
	return client.IgnoreNotFound(err)
}

// noted returns when the end of a Node's instance was first seen.
func (r *Deleter) noted(uid types.UID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.since[uid]; !known {
		r.since[uid] = r.Now()
	}
	return r.since[uid]
}

func (r *Deleter) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, uid)
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
