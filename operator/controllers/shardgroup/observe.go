package shardgroup

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/indexes"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// observe puts together what is known of one object. reader is the cache, or the API server.
func (r *Reconciler) observe(ctx context.Context, reader client.Reader, object *infrav1.NstanceShardGroup) (shardGroup, error) {
	p := shardGroup{object: object, failed: r.failed.Get(object.UID)}
	var err error
	if p.paused, err = capi.Paused(ctx, reader, object); err != nil {
		return shardGroup{}, err
	}
	if p.left, err = leftAlone(ctx, reader, object); err != nil {
		return shardGroup{}, err
	}
	shown, err := machinesOf(ctx, reader, object)
	if err != nil {
		return shardGroup{}, err
	}
	if server, ok := r.Server(object.Spec.Shard); ok {
		p.configured, p.shard = true, server.Status()
	}
	p.room = r.CoolOff.Of(inventory.ShardGroup{Shard: object.Spec.Shard, Group: object.Spec.Group})
	p.shown = map[string]bool{}
	for _, m := range shown {
		p.shown[m.Spec.InstanceID] = m.Spec.Mode == infrav1.MachineManaged
	}
	r.readInventory(&p)
	for _, m := range shown {
		switch {
		case slices.Contains(p.gone, m.Spec.InstanceID) && m.Spec.ProviderID != "":
			p.deleted = append(p.deleted, m.Spec.ProviderID)
		case !m.DeletionTimestamp.IsZero():
			p.ending = append(p.ending, m.Spec.InstanceID)
		}
	}
	return p, nil
}

// readInventory takes in what the shard has said.
func (r *Reconciler) readInventory(p *shardGroup) {
	spec := p.object.Spec
	p.group, p.instances, p.gone, p.unclear = nil, nil, nil, nil
	p.presence = inventory.Unknown
	r.Inventory.Read(spec.Shard, func(s *inventory.Shard) {
		p.synced, p.group, p.presence = s.State(), s.Group(spec.Group), s.GroupPresence(spec.Group)
		for _, in := range s.Instances(spec.Group) {
			switch managed, known := inventory.IsManaged(in, p.shown[in.GetInstanceId()]); {
			case !known:
				p.unclear = append(p.unclear, in)
			case managed:
				p.instances = append(p.instances, in)
			}
		}
		for _, id := range spec.Retiring {
			if s.Presence(id) == inventory.Gone {
				p.gone = append(p.gone, id)
			}
		}
	})
}

// leftAlone is whether the group is to stay on its shard when the object goes: its pool is
// being deleted and says so, or there is no pool any more that could say anything. A
// person who was allowed to delete the object itself means the group.
func leftAlone(ctx context.Context, reader client.Reader, object *infrav1.NstanceShardGroup) (bool, error) {
	if object.DeletionTimestamp.IsZero() {
		return false, nil
	}
	var pool infrav1.NstanceMachinePool
	if poolOf(object) == "" {
		return object.Annotations[infrav1.AnnotationAllowShardGroupDelete] != "true", nil
	}
	err := reader.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: poolOf(object)}, &pool)
	switch {
	case apierrors.IsNotFound(err):
		return object.Annotations[infrav1.AnnotationAllowShardGroupDelete] != "true", nil
	case err != nil:
		return false, fmt.Errorf("read the pool: %w", err)
	}
	return !pool.DeletionTimestamp.IsZero() && pool.Spec.DeletionPolicy == infrav1.DeletionOrphan, nil
}

// machinesOf are the NstanceMachines of the group on the shard.
func machinesOf(ctx context.Context, reader client.Reader, object *infrav1.NstanceShardGroup) ([]infrav1.NstanceMachine, error) {
	var list infrav1.NstanceMachineList
	err := reader.List(ctx, &list, client.InNamespace(object.Namespace), client.MatchingLabels{
		infrav1.LabelGroup: object.Spec.Group, infrav1.LabelShard: object.Spec.Shard,
	}, indexes.OfGroup(object.Spec.Group))
	if err != nil {
		return nil, fmt.Errorf("list the machines of the group: %w", err)
	}
	return list.Items, nil
}

// recordReply takes in a group as the shard's answer has it, before the stream brings it.
func (r *Reconciler) recordReply(shard string, group *nstancev1.GroupStatus) {
	r.Inventory.Update(shard, func(s *inventory.Shard) []inventory.Change {
		return s.GroupEvent(&nstancev1.GroupEvent{Type: "UPSERT", Group: group}, r.Now())
	})
}

// owner returns the pool of an object, for events.
func owner(object *infrav1.NstanceShardGroup) *infrav1.NstanceMachinePool {
	return &infrav1.NstanceMachinePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: infrav1.KindMachinePool},
		ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: poolOf(object)},
	}
}

// poolOf is the name of the pool that controls an object; empty: none does.
func poolOf(object *infrav1.NstanceShardGroup) string {
	if ref := metav1.GetControllerOf(object); ref != nil && ref.Kind == infrav1.KindMachinePool {
		return ref.Name
	}
	return ""
}
