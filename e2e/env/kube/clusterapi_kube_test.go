//go:build kube

package kube_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"nstance.dev/e2e/env/kube"
)

const machinePool = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: workers, namespace: default}
spec:
  clusterName: one
  template:
    spec:
      clusterName: one
      bootstrap: {dataSecretName: ""}
      infrastructureRef: {apiGroup: example.com, kind: Widget, name: workers}
`

// TestClusterAPI_webhooks shows that the API server asks the webhooks of Cluster API:
// those that fill in, those that refuse and those that convert.
func TestClusterAPI_webhooks(t *testing.T) {
	kube.Needs(t, kube.BeAlone)
	t.Parallel()
	c := kube.Start(t, kube.Config{ClusterAPI: true})
	wrong := objects(t, strings.Replace(machinePool, "clusterName: one", "clusterName: two", 1))
	if err := c.Apply(t.Context(), wrong...); err == nil || !strings.Contains(err.Error(), "must be set to the same value") {
		t.Errorf("error %v, want that the names of the cluster differ", err)
	}
	// To convert its reference Cluster API looks for the kind that it names.
	if err := c.Apply(t.Context(), append(objects(t, widgets)[:1], objects(t, machinePool)...)...); err != nil {
		t.Fatal(err)
	}
	if got := replicas(t, c, "v1beta2"); got != 1 {
		t.Errorf("%d replicas, want the default", got)
	}
	if got := replicas(t, c, "v1beta1"); got != 1 {
		t.Errorf("%d replicas in the older version, want as many", got)
	}
	// What it is asked to do with the rights of its release it may do.
	requests, err := c.Audit()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.Code == 403 && r.User == kube.ClusterAPIUser {
			t.Errorf("Cluster API may not %s %s", r.Verb, r.URI)
		}
	}
}

func objects(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	all, err := kube.Objects([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// replicas returns the size of the MachinePool in a version of its resource.
func replicas(t *testing.T, c *kube.Cluster, version string) int64 {
	t.Helper()
	admin, err := dynamic.NewForConfig(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	pools := admin.Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: version, Resource: "machinepools"})
	pool, err := pools.Namespace("default").Get(t.Context(), "workers", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n, _, err := unstructured.NestedInt64(pool.Object, "spec", "replicas")
	if err != nil {
		t.Fatal(err)
	}
	return n
}
