package capi

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/indexes"
)

// MachinePools returns the MachinePools that refer to a pool, for reading only. The first says what
// size the pool has: the one that owns it, else the one of its name, else the oldest.
func MachinePools(ctx context.Context, reader client.Reader, pool *infrav1.NstanceMachinePool) ([]*clusterv1.MachinePool, error) {
	likely := pool.Name
	for _, ref := range pool.OwnerReferences {
		if ref.Kind == "MachinePool" {
			likely = ref.Name
		}
	}
	var list clusterv1.MachinePoolList
	if err := reader.List(ctx, &list, client.InNamespace(pool.Namespace), indexes.OfInfrastructure(pool.Name), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list MachinePools: %w", err)
	}
	var claims []*clusterv1.MachinePool
	for i := range list.Items {
		if Refers(&list.Items[i], pool) {
			claims = append(claims, &list.Items[i])
		}
	}
	rank := func(m *clusterv1.MachinePool) int {
		if m.Name == likely {
			return 0
		}
		return 1
	}
	slices.SortFunc(claims, func(a, b *clusterv1.MachinePool) int { // a cache gives them in any order
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name),
		)
	})
	return claims, nil
}

// Refers reports whether a MachinePool has this pool as its infrastructure.
func Refers(machinePool *clusterv1.MachinePool, pool *infrav1.NstanceMachinePool) bool {
	ref := machinePool.Spec.Template.Spec.InfrastructureRef
	return ref.Kind == infrav1.KindMachinePool && ref.APIGroup == infrav1.GroupVersion.Group && ref.Name == pool.Name
}
