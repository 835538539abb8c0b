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

	api "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
)

// Orphans deletes Nodes whose instances have ended. Its requests name a Node. NewOrphans
// makes one; it is safe for concurrent use.
type Orphans struct {
	Options

	mu    sync.Mutex
	since map[types.UID]time.Time // when an instance was first seen to be gone
}

// NewOrphans returns a reconciler.
func NewOrphans(o Options) *Orphans {
	return &Orphans{Options: o.withDefaults(), since: map[types.UID]time.Time{}}
}

// Reconcile deletes one Node if its instance has ended.
func (r *Orphans) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := r.Workload.Get(ctx, client.ObjectKey{Name: req.Name}, node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	gone, uri := r.gone(node)
	if !gone {
		r.forget(node.UID)
		return ctrl.Result{}, nil
	}
	o := nodes.Orphan{NodeProviderID: node.Spec.ProviderID, InstanceURI: uri, Ready: ready(node), DeletedAt: r.noted(node.UID)}
	if err := r.observeOwner(ctx, node, &o); err != nil {
		return ctrl.Result{}, err
	}
	remove, again := nodes.RemoveOrphan(o, r.Now())
	if !remove {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	err := r.Workload.Delete(ctx, node, client.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion})
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("deleted Node", "node", node.Name, "providerID", node.Spec.ProviderID, "reason", "its instance has ended")
		r.forget(node.UID)
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// gone reports whether the instance that a Node was correlated with has ended, and the
// provider id that it had. The label alone is a kubelet's word, so nothing that lives may
// have the Node's provider id. The shards say nothing of instances of other tenants, so that
// they do not know one means something for Nodes of this cluster only.
func (r *Orphans) gone(node *corev1.Node) (bool, string) {
	id := node.Labels[api.LabelInstanceID]
	if node.Spec.ProviderID == "" || !r.known(node) && !r.heard(node) {
		return false, ""
	}
	gone := true
	for _, name := range r.Inventory.Names() {
		r.Inventory.Read(name, func(s *inventory.Shard) {
			for _, in := range s.Instances("") {
				gone = gone && in.GetProviderUri() != node.Spec.ProviderID && in.GetInstanceId() != id
			}
		})
	}
	return gone, node.Spec.ProviderID
}

// known reports whether a Node was correlated with an instance of this cluster that is not
// there any more.
func (r *Orphans) known(node *corev1.Node) bool {
	id, shard := node.Labels[api.LabelInstanceID], node.Labels[api.LabelShard]
	if id == "" || shard == "" || node.Annotations[api.AnnotationCluster] != r.home() {
		return false
	}
	gone := false
	r.Inventory.Read(shard, func(s *inventory.Shard) { gone = s.Presence(id) == inventory.Gone })
	return gone
}

// heard reports whether the shards told of the end of the instance with a Node's provider id:
// the Node may have come too late to be correlated with it.
func (r *Orphans) heard(node *corev1.Node) bool {
	deleted := false
	for _, name := range r.Inventory.Names() {
		r.Inventory.Read(name, func(s *inventory.Shard) { deleted = deleted || s.Deleted(node.Spec.ProviderID) })
	}
	return deleted
}

// observeOwner finds out whether Cluster API deletes the Node, and what its machine knows.
func (r *Orphans) observeOwner(ctx context.Context, node *corev1.Node, o *nodes.Orphan) error {
	id := node.Labels[api.LabelInstanceID]
	if id == "" {
		return nil
	}
	m, err := nodes.Machine(ctx, r.Client, r.Namespace, id)
	if err != nil || m == nil {
		return err
	}
	o.InstanceURI = m.Spec.ProviderID
	owner, err := ownerOf(ctx, r.Client, m)
	if err != nil || owner == nil {
		return err
	}
	cluster := &clusterv1.Cluster{}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}, cluster)
	o.CoreDeletes = cluster.Spec.ControlPlaneRef.IsDefined() && owner.Status.NodeRef.IsDefined()
	return client.IgnoreNotFound(err)
}

// noted returns when the end of a Node's instance was first seen.
func (r *Orphans) noted(uid types.UID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.since[uid]; !known {
		r.since[uid] = r.Now()
	}
	return r.since[uid]
}

func (r *Orphans) forget(uid types.UID) {
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
