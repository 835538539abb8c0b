package inventory

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/inventory"
)

// Remember has the inventory expect the instances that HostMachines stand for, so that the absence of many at once
// is doubted also by a process that has seen none of them. It is called for each shard once, after the inventory has
// it and before it is connected.
func Remember(ctx context.Context, machines client.Reader, store *inventory.Store, tenant string, shards []string) error {
	var list hostsv1.HostMachineList
	if err := machines.List(ctx, &list); err != nil {
		return fmt.Errorf("list HostMachines: %w", err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		in := m.Spec.Instance
		if m.Spec.Provisioner != hostsv1.ProvisionerNstance || in == nil || string(in.Tenant) != tenant || !slices.Contains(shards, string(in.Shard)) {
			continue
		}
		store.Update(string(in.Shard), func(s *inventory.Shard) []inventory.Change {
			s.Expect(string(in.ID), string(in.Group), m.Spec.ProviderID)
			return nil
		})
	}
	return nil
}
