package kube

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// fieldManager is who tests are in the managed fields of objects.
const fieldManager = "test"

// Objects reads a manifest: YAML documents, of which the empty ones do not count.
func Objects(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Apply creates objects, or makes them what is given where they exist, in the given
// order and as the administrator. An object of a resource that a CustomResourceDefinition
// before it defines waits until that is served.
func (c *Cluster) Apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(c.Admin())
	if err != nil {
		return err
	}
	lookup, err := discovery.NewDiscoveryClientForConfig(c.Admin())
	if err != nil {
		return err
	}
	resources := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(lookup))
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	defined := false // a definition was applied
	for _, object := range objects {
		resource, err := resourceOf(resources, client, object)
		if defined && meta.IsNoMatchError(err) {
			// The API server serves a kind for a moment before its discovery document has it.
			err = await(ctx, func(context.Context) error {
				resources.Reset()
				resource, err = resourceOf(resources, client, object)
				return err
			})
		}
		if err == nil {
			_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		}
		if err == nil && isCRD(object) {
			err = await(ctx, func(ctx context.Context) error { return established(ctx, resource, object.GetName()) })
			resources.Reset()
			defined = true
		}
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// resourceOf returns the client for an object's resource and namespace.
func resourceOf(resources meta.RESTMapper, client dynamic.Interface, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := resources.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return client.Resource(mapping.Resource), nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return client.Resource(mapping.Resource).Namespace(namespace), nil
}

func isCRD(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

// established returns nil once the API server serves what a definition defines.
func established(ctx context.Context, definitions dynamic.ResourceInterface, name string) error {
	object, err := definitions.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil {
		return err
	}
	for _, one := range conditions {
		condition, ok := one.(map[string]any)
		if ok && condition["type"] == "Established" && condition["status"] == "True" {
			return nil
		}
	}
	return errors.New("not established yet")
}
