package capi

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OwnerMachine returns the Machine that owns an object; nil: none does, or it does not exist.
func OwnerMachine(ctx context.Context, reader client.Reader, object client.Object) (*clusterv1.Machine, error) {
	refs := object.GetOwnerReferences()
	i := slices.IndexFunc(refs, func(ref metav1.OwnerReference) bool {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		return err == nil && gv.Group == clusterv1.GroupVersion.Group && ref.Kind == "Machine"
	})
	if i < 0 {
		return nil, nil
	}
	var owner clusterv1.Machine
	err := reader.Get(ctx, client.ObjectKey{Namespace: object.GetNamespace(), Name: refs[i].Name}, &owner)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("get Machine %s: %w", refs[i].Name, err)
	case err != nil:
		return nil, nil //nolint:nilerr // it does not exist
	}
	return &owner, nil
}
