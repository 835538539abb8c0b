package machine

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/controllers/machine/placement"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/shards"
)

// observe reads all that a decision needs; nil without an error: the machine is no
// business of ours.
func (r *Reconciler) observe(ctx context.Context, name types.NamespacedName) (*Observation, error) {
	m := &api.NstanceMachine{}
	if err := r.Client.Get(ctx, name, m); err != nil {
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
	_, paused := o.Machine.Annotations[clusterv1.PausedAnnotation]
	o.Paused = paused || capi.Moved(o.Machine)
	cluster := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, key(o.Machine.Namespace, o.Machine.Labels[clusterv1.ClusterNameLabel]), cluster)
	if apierrors.IsNotFound(err) {
		return nil
	}
	o.Paused = o.Paused || cluster.Spec.Paused != nil && *cluster.Spec.Paused
	o.CoreDrains = cluster.Spec.ControlPlaneRef.IsDefined()
	o.ClusterReady = cluster.Status.Initialization.InfrastructureProvisioned != nil && *cluster.Status.Initialization.InfrastructureProvisioned
	return err
}

// observeOwner reads the Machine that refers to this one.
func (r *Reconciler) observeOwner(ctx context.Context, o *Observation) error {
	i := slices.IndexFunc(o.Machine.OwnerReferences, func(ref metav1.OwnerReference) bool {
		gv, err := schemaGroup(ref.APIVersion)
		return err == nil && gv == clusterv1.GroupVersion.Group && ref.Kind == "Machine"
	})
	if i < 0 {
		return nil
	}
	owner := &clusterv1.Machine{}
	err := r.Client.Get(ctx, key(o.Machine.Namespace, o.Machine.OwnerReferences[i].Name), owner)
	if apierrors.IsNotFound(err) {
		return nil
	}
	o.Owner = owner
	return err
}

func (r *Reconciler) observeShards(_ context.Context, o *Observation) error {
	m := o.Machine
	o.Shards = r.ShardsOf(m.Spec.GroupRef.Name)
	o.Presence = inventory.Unknown
	if m.Spec.InstanceID != "" {
		r.Inventory.Read(m.Spec.Shard, func(s *inventory.Shard) {
			o.Presence, o.Said = s.Presence(m.Spec.InstanceID), s.Instance(m.Spec.InstanceID)
			o.WhyDeleted = s.WhyDeleted(m.Spec.InstanceID)
		})
	}
	return nil
}

// placeOf is the group of a machine on its shard.
func placeOf(m *api.NstanceMachine) inventory.Place {
	return inventory.Place{Shard: m.Spec.Shard, Group: m.Spec.GroupRef.Name}
}

// managed is how many instances the group of a machine has on its shard whose end is not
// decided.
func (r *Reconciler) managed(m *api.NstanceMachine) int {
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
			s.Reachable, s.ConfigDigest = answers(state), state.ConfigDigest
		}
		r.Inventory.Read(named.Name, func(known *inventory.Shard) {
			s.Group, s.Known = known.Group(group), known.State().GroupsSynced
			for _, i := range known.Instances(group) {
				if i.GetOnDemand() {
					s.OnDemand++
				}
			}
		})
		if c := r.CoolOff.Of(inventory.Place{Shard: named.Name, Group: group}); c.Refuses(r.Now()) {
			s.NoRoom = cmp.Or(c.Why, "the provider has no room")
		}
		all = append(all, s)
	}
	return all
}

// answers reports whether calls to a shard have a chance.
func answers(s shards.Status) bool {
	return s.State != shards.Unreachable && s.State != shards.Connecting
}

// observePool finds out what the pool of a machine that is deleted wants with its instance.
func (r *Reconciler) observePool(ctx context.Context, o *Observation) error {
	if m := o.Machine; m.Spec.Mode == api.MachineManaged && !m.DeletionTimestamp.IsZero() {
		earlier, known := r.earlier(m)
		if o.Waits = r.pace.wait(placeOf(m), r.managed(m), earlier, r.Now()); !known {
			o.Waits = unlisted
		}
	}
	return errors.Join(observePart(ctx, r.Client, o), observeEnd(ctx, r.Client, o))
}

// observePart finds out whether the group is to get smaller with the instance.
func observePart(ctx context.Context, reader client.Reader, o *Observation) error {
	m := o.Machine
	if m.Spec.Mode != api.MachineManaged || m.DeletionTimestamp.IsZero() {
		return nil
	}
	part := &api.NstanceShardGroup{}
	err := reader.Get(ctx, key(m.Namespace, capi.ShardGroup(m.Spec.GroupRef.Name, m.Spec.Shard)), part)
	if apierrors.IsNotFound(err) {
		return nil
	}
	o.Retiring = slices.Contains(part.Spec.Retiring, m.Spec.InstanceID)
	return err
}

// observeEnd finds out whether a pool that is being removed leaves its instances.
func observeEnd(ctx context.Context, reader client.Reader, o *Observation) error {
	i := slices.IndexFunc(o.Machine.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.Kind == api.KindMachinePool })
	if i < 0 || o.Machine.DeletionTimestamp.IsZero() {
		return nil
	}
	pool := &api.NstanceMachinePool{}
	err := reader.Get(ctx, key(o.Machine.Namespace, o.Machine.OwnerReferences[i].Name), pool)
	if apierrors.IsNotFound(err) {
		return nil
	}
	o.Orphaned = !pool.DeletionTimestamp.IsZero() && (pool.Spec.DeletionPolicy == api.DeletionOrphan || pool.Status.IsStatic)
	return err
}

func (r *Reconciler) observeNode(ctx context.Context, o *Observation) error {
	if o.Machine.DeletionTimestamp.IsZero() || o.Machine.Spec.InstanceID == "" {
		return nil
	}
	doubt, err := nodes.FindDoubt(ctx, r.Client, r.Nodes, o.Machine.Namespace, nodes.InstanceOf(o.Machine, o.Said))
	if err != nil {
		return err
	}
	o.NodeDoubt = doubt.Why
	ref := o.Machine.Status.NodeRef
	if ref == nil {
		return nil
	}
	node := &corev1.Node{}
	err = r.Nodes.Get(ctx, key("", ref.Name), node)
	if apierrors.IsNotFound(err) || err == nil && node.UID != ref.UID {
		return nil
	}
	state, draining, _ := drain.ParseState(node.Annotations) // one that cannot be read begins anew
	o.Node = &Node{
		Name: node.Name, Joined: node.CreationTimestamp.Time,
		Drained: draining && state.Instance == o.Machine.Spec.InstanceID && state.Phase == api.DrainDone,
	}
	return err
}
