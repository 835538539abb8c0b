package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/controllers/machine/placement"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
)

// observe reads all that a decision needs: the machine from a cache or from the API server
// itself, and the rest from caches. Nil without an error: the machine is no business of ours.
func (r *Reconciler) observe(ctx context.Context, machines client.Reader, name types.NamespacedName) (*Observation, error) {
	m := &infrav1.NstanceMachine{}
	if err := machines.Get(ctx, name, m); err != nil {
		return nil, err
	}
	if m.Labels[clusterv1.ClusterNameLabel] == "" {
		return nil, nil
	}
	o := &Observation{Machine: m, Tried: r.memory.get(m.UID), ProvisionTimeout: r.ProvisionTimeout}
	for _, look := range []func(context.Context, *Observation) error{
		r.observeCluster, r.observeOwner, r.observeShards, r.observePool, r.observeNode,
	} {
		if err := look(ctx, o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (r *Reconciler) observeCluster(ctx context.Context, o *Observation) error {
	cluster := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, key(o.Machine.Namespace, o.Machine.Labels[clusterv1.ClusterNameLabel]), cluster)
	o.Paused = capi.PausedBy(o.Machine, cluster)
	if apierrors.IsNotFound(err) {
		return nil
	}
	o.HasControlPlane = cluster.Spec.ControlPlaneRef.IsDefined()
	o.ClusterReady = cluster.Status.Initialization.InfrastructureProvisioned != nil && *cluster.Status.Initialization.InfrastructureProvisioned
	return err
}

// observeOwner reads the Machine that refers to this one.
func (r *Reconciler) observeOwner(ctx context.Context, o *Observation) (err error) {
	o.Owner, err = capi.OwnerMachine(ctx, r.Client, o.Machine)
	return err
}

func (r *Reconciler) observeShards(_ context.Context, o *Observation) error {
	m := o.Machine
	o.Shards = r.ShardsOf(m.Spec.GroupRef.Name)
	o.Presence = inventory.Unknown
	if m.Spec.InstanceID != "" {
		r.Inventory.Read(m.Spec.Shard, func(s *inventory.Shard) {
			o.Presence, o.Reported = s.Presence(m.Spec.InstanceID), s.Instance(m.Spec.InstanceID)
			o.WhyDeleted = s.WhyDeleted(m.Spec.InstanceID)
		})
	}
	return nil
}

// shardGroupOf is the group of a machine on its shard.
func shardGroupOf(m *infrav1.NstanceMachine) inventory.ShardGroup {
	return inventory.ShardGroup{Shard: m.Spec.Shard, Group: m.Spec.GroupRef.Name}
}

// managed is how many instances the group of a machine has on its shard whose end is not
// decided.
func (r *Reconciler) managed(m *infrav1.NstanceMachine) int {
	n := 0
	r.Inventory.Read(m.Spec.Shard, func(s *inventory.Shard) {
		for _, i := range s.Instances(m.Spec.GroupRef.Name) {
			if !i.GetOnDemand() && i.GetCondemned() == nil {
				n++
			}
		}
	})
	return n
}

// ShardsOf returns what the configured shards have of a group.
func (r *Reconciler) ShardsOf(group string) []placement.Shard {
	var all []placement.Shard
	for _, named := range r.Shards() {
		s := placement.Shard{Name: named.Name}
		if named.Server != nil {
			state := named.Server.Status()
			s.Reachable, s.ConfigDigest = state.Reachable(), state.ConfigDigest
		}
		r.Inventory.Read(named.Name, func(known *inventory.Shard) {
			s.Group, s.Known = known.Group(group), known.State().GroupsSynced
			for _, i := range known.Instances(group) {
				if i.GetOnDemand() {
					s.OnDemand++
				}
			}
		})
		if c := r.CoolOff.Of(inventory.ShardGroup{Shard: named.Name, Group: group}); c.Refuses(r.Now()) {
			s.NoRoom = cmp.Or(c.Why, "the provider has no room")
		}
		all = append(all, s)
	}
	return all
}

// observePool finds out what the pool of a machine that is deleted wants with its instance.
func (r *Reconciler) observePool(ctx context.Context, o *Observation) error {
	if m := o.Machine; m.Spec.Mode == infrav1.MachineManaged && !m.DeletionTimestamp.IsZero() {
		earlier, known := r.earlier(m)
		if o.Waits = r.pace.wait(shardGroupOf(m), r.managed(m), earlier, r.Now()); !known {
			o.Waits = unlisted
		}
	}
	return errors.Join(observeShardGroup(ctx, r.Client, o), observeEnd(ctx, r.Client, o))
}

// observeShardGroup finds out whether the group is to get smaller with the instance.
func observeShardGroup(ctx context.Context, reader client.Reader, o *Observation) error {
	m := o.Machine
	if m.Spec.Mode != infrav1.MachineManaged || m.DeletionTimestamp.IsZero() {
		return nil
	}
	shardGroup := &infrav1.NstanceShardGroup{}
	err := reader.Get(ctx, key(m.Namespace, capi.ShardGroup(m.Spec.GroupRef.Name, m.Spec.Shard)), shardGroup)
	if apierrors.IsNotFound(err) {
		return nil
	}
	o.Retiring = slices.Contains(shardGroup.Spec.Retiring, m.Spec.InstanceID)
	return err
}

// observeEnd finds out whether a pool that is being removed, or becomes a demand pool, leaves its instances.
func observeEnd(ctx context.Context, reader client.Reader, o *Observation) error {
	o.Orphaned = o.Machine.Annotations[infrav1.AnnotationRetiredByPool] == "true"
	i := slices.IndexFunc(o.Machine.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.Kind == infrav1.KindMachinePool })
	if i < 0 || o.Machine.DeletionTimestamp.IsZero() {
		return nil
	}
	pool := &infrav1.NstanceMachinePool{}
	err := reader.Get(ctx, key(o.Machine.Namespace, o.Machine.OwnerReferences[i].Name), pool)
	if apierrors.IsNotFound(err) {
		return nil
	}
	o.Orphaned = o.Orphaned || !pool.DeletionTimestamp.IsZero() && (pool.Spec.DeletionPolicy == infrav1.DeletionOrphan || pool.Status.IsStatic)
	return err
}

// observeNode finds the Node of an instance that is to end: the one that is recognised now, and
// else the one that was. What the machine's status says may be behind.
func (r *Reconciler) observeNode(ctx context.Context, o *Observation) error {
	m := o.Machine
	if m.DeletionTimestamp.IsZero() || m.Spec.InstanceID == "" {
		return nil
	}
	in := nodes.InstanceOf(m, o.Reported)
	found, err := nodes.Find(ctx, r.Nodes, in)
	if err != nil {
		return err
	}
	node := found.Object
	if found.Node == "" {
		doubt, err := nodes.FindDoubt(ctx, r.Client, r.Nodes, m.Namespace, in)
		if err != nil {
			return err
		}
		o.NodeDoubt = doubt.Why
		if node, err = r.noted(ctx, m.Status.NodeRef); err != nil {
			return err
		}
	}
	o.Node = asNode(node, m)
	return nil
}

// observeNodeLive looks once more for the Node of an instance that is to end, past the cache.
// Where the API server of the Nodes does not answer there may be a Node or none. That is a doubt
// and no error, for it may be gone for good with its cluster, and a doubt ends at the deadline.
func (r *Reconciler) observeNodeLive(ctx context.Context, o *Observation) {
	found, doubt, err := nodes.FindLive(ctx, r.Client, r.Nodes, r.LiveNodes, o.Machine.Namespace, nodes.InstanceOf(o.Machine, o.Reported))
	if err != nil {
		o.NodeDoubt = fmt.Sprintf("Nodes cannot be read: %v", err)
		return
	}
	o.Node, o.NodeDoubt = asNode(found.Object, o.Machine), doubt.Why
}

// asNode is what a decision has to know of the Node of a machine's instance; nil: there is none.
func asNode(node *corev1.Node, m *infrav1.NstanceMachine) *Node {
	if node == nil {
		return nil
	}
	state, draining, _ := drain.ParseState(node.Annotations) // one that cannot be read begins again
	return &Node{
		Name: node.Name, Joined: node.CreationTimestamp.Time,
		Drained: draining && state.Instance == m.Spec.InstanceID && state.Phase == infrav1.DrainDone,
	}
}

// noted returns the Node that a status refers to; nil: there is none.
func (r *Reconciler) noted(ctx context.Context, ref *infrav1.NodeReference) (*corev1.Node, error) {
	if ref == nil {
		return nil, nil
	}
	node := &corev1.Node{}
	err := r.Nodes.Get(ctx, key("", ref.Name), node)
	if err != nil || node.UID != ref.UID {
		return nil, client.IgnoreNotFound(err)
	}
	return node, nil
}
