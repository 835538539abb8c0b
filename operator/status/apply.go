package status

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// FieldManager returns the field manager of a controller's statuses.
func FieldManager(controller string) client.FieldOwner {
	return client.FieldOwner("nstance-operator-" + controller)
}

// Apply writes the status of an object, which holds what the manager owns of it. Name,
// namespace and UID say which object; the rest of it is not looked at. An object of
// another UID, which came later, is a conflict.
func Apply(ctx context.Context, c client.Client, object client.Object, manager client.FieldOwner) error {
	part, err := only(c.Scheme(), object, "status")
	if err != nil {
		return err
	}
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(part), manager, client.ForceOwnership)
}

// ApplyUnchanged writes the status of an object, as Apply does, unless the object has changed
// since the resource version that is given of it: that is a conflict.
func ApplyUnchanged(ctx context.Context, c client.Client, object client.Object, manager client.FieldOwner) error {
	part, err := only(c.Scheme(), object, "status")
	if err != nil {
		return err
	}
	part.SetResourceVersion(object.GetResourceVersion())
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(part), manager, client.ForceOwnership)
}

// ApplySpec writes fields of the spec of an object, as Apply does of the status.
func ApplySpec(ctx context.Context, c client.Client, object client.Object, spec map[string]any, manager client.FieldOwner) error {
	part, err := only(c.Scheme(), object, "")
	if err != nil {
		return err
	}
	part.Object["spec"] = spec
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(part), manager, client.ForceOwnership)
}

// only returns an object's identity and one of its fields.
func only(scheme *runtime.Scheme, object client.Object, field string) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	whole, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("apply to %s %s: %w", kind.Kind, object.GetName(), err)
	}
	part := &unstructured.Unstructured{Object: map[string]any{}}
	part.SetGroupVersionKind(kind)
	part.SetNamespace(object.GetNamespace())
	part.SetName(object.GetName())
	part.SetUID(object.GetUID())
	if value, ok := whole[field]; ok {
		part.Object[field] = value
	}
	return part, nil
}
