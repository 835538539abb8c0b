//go:build kube

package operator_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/operator/config"
	operatorprogram "nstance.dev/operator/program"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(kube.OwnNetwork(tests{m}))
}

// asShipped are the defaults of the operator's controllers.
var asShipped = operatorprogram.Controllers(config.Settings{})

// dryRun has the API server decide and store nothing.
var dryRun = []string{metav1.DryRunAll}

// apply applies objects as the administrator.
func apply(t testing.TB, c *kube.Cluster, objects ...*unstructured.Unstructured) {
	t.Helper()
	if err := c.Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
}

// convert returns a typed object as a client sends it.
func convert(t testing.TB, object runtime.Object) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: fields}
}

// objects reads a manifest.
func objects(t testing.TB, manifest string) []*unstructured.Unstructured {
	t.Helper()
	all, err := kube.Objects([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// clientOf returns a client with the given configuration.
func clientOf(t testing.TB, config *rest.Config, err error) dynamic.Interface {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// resourceOf returns a client for the objects of one kind in a namespace. All kinds here
// have plurals that end in s.
func resourceOf(client dynamic.Interface, object *unstructured.Unstructured, namespace string) dynamic.ResourceInterface {
	kind := object.GroupVersionKind()
	return client.Resource(kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s")).Namespace(namespace)
}

// store creates an object with its status.
func store(t *testing.T, client dynamic.ResourceInterface, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	stored, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	status, has := object.Object["status"]
	if !has {
		return stored
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	// A controller may have written it already, which is no conflict with a status.
	stored, err = client.Patch(t.Context(), object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatalf("set the status of %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return stored
}
