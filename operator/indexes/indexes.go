// Package indexes has a cache answer lists of one pool's objects by an index. Without one a list by labels looks at
// every object of the kind, several times in each pass over a pool.
//
// An [Index] is an option of a List, beside its labels. The cache then looks among the objects of the index alone; labels and
// namespace count as before. A reader without indexes, such as the API server, ignores it: where the List has no label that says
// the same, it answers with more objects, and the caller has to filter them.
//
// A client of [Client] uses indexes, and fails where its cache lacks the one that is named: [Register] comes before the first such List, and
// an Index goes with the kinds that its function names. The cache may be running.
package indexes

import (
	"context"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Index is an option of a List: among which objects a cache has to look.
type Index struct{ field, value string }

var _ client.ListOption = Index{}

// ApplyToList does nothing: an API server has no such index.
func (Index) ApplyToList(*client.ListOptions) {}

const (
	byGroup     = "index.group"
	byPoolLabel = "index.pool"
	byInfraRef  = "index.infrastructureRef"
)

// OfGroup is for NstanceMachines and NstanceShardGroups with the label of a group, and for NstanceMachinePools
// whose spec.group it is.
func OfGroup(group string) Index { return Index{byGroup, group} }

// OfMachinePool is for Machines with the label of a MachinePool, which is not always its name.
func OfMachinePool(label string) Index { return Index{byPoolLabel, label} }

// OfInfrastructure is for MachinePools whose infrastructure has a name.
func OfInfrastructure(name string) Index { return Index{byInfraRef, name} }

var all = []struct {
	kind  client.Object
	field string
	value func(client.Object) string
}{
	{&infrav1.NstanceMachine{}, byGroup, label(infrav1.LabelGroup)},
	{&infrav1.NstanceShardGroup{}, byGroup, label(infrav1.LabelGroup)},
	{&infrav1.NstanceMachinePool{}, byGroup, func(o client.Object) string {
		pool, ok := o.(*infrav1.NstanceMachinePool)
		if !ok {
			return ""
		}
		return pool.Spec.Group
	}},
	{&clusterv1.Machine{}, byPoolLabel, label(clusterv1.MachinePoolNameLabel)},
	{&clusterv1.MachinePool{}, byInfraRef, func(o client.Object) string {
		machinePool, ok := o.(*clusterv1.MachinePool)
		if !ok {
			return ""
		}
		return machinePool.Spec.Template.Spec.InfrastructureRef.Name
	}},
}

func label(key string) func(client.Object) string {
	return func(o client.Object) string { return o.GetLabels()[key] }
}

// Register adds the indexes to a cache, once.
func Register(ctx context.Context, cache client.FieldIndexer) error {
	for _, index := range all {
		values := func(o client.Object) []string {
			if value := index.value(o); value != "" {
				return []string{value}
			}
			return nil
		}
		if err := cache.IndexField(ctx, index.kind, index.field, values); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.kind, index.field, err)
		}
	}
	return nil
}

// Client returns a client that answers lists by the indexes of the cache that c reads from.
func Client(c client.Client) client.Client { return indexed{c} }

type indexed struct{ client.Client }

// List implements [client.Reader].
func (c indexed) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	for i, option := range options {
		if index, ok := option.(Index); ok && index.value != "" {
			options = slices.Clone(options)
			options[i] = client.MatchingFields{index.field: index.value}
			break
		}
	}
	return c.Client.List(ctx, list, options...)
}
