package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPointWebhooks(t *testing.T) {
	objects, err := Objects([]byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks:
- name: a
  clientConfig: {service: {name: s, namespace: n, path: /a}}
- name: b
  clientConfig: {url: "https://elsewhere/b"}
---
# nothing
---
kind: CustomResourceDefinition
spec:
  conversion:
    webhook:
      clientConfig: {service: {name: s, namespace: n, path: /convert}, caBundle: Cg==}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	for _, object := range objects {
		if err := PointWebhooks(object.Object, "https://127.0.0.1:1", []byte("pem")); err != nil {
			t.Fatal(err)
		}
		got = append(got, object.Object)
	}
	want := []map[string]any{
		{
			"apiVersion": "admissionregistration.k8s.io/v1",
			"kind":       "ValidatingWebhookConfiguration",
			"metadata":   map[string]any{"name": "w"},
			"webhooks": []any{
				map[string]any{"name": "a", "clientConfig": map[string]any{"url": "https://127.0.0.1:1/a", "caBundle": "cGVt"}},
				map[string]any{"name": "b", "clientConfig": map[string]any{"url": "https://elsewhere/b"}},
			},
		},
		{
			"kind": "CustomResourceDefinition",
			"spec": map[string]any{"conversion": map[string]any{"webhook": map[string]any{
				"clientConfig": map[string]any{"url": "https://127.0.0.1:1/convert", "caBundle": "cGVt"},
			}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestFeatureGates_areThoseOfTheRelease(t *testing.T) {
	release, err := Objects([]byte(`
apiVersion: v1
kind: Namespace
metadata: {name: n}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  template:
    spec:
      containers:
      - name: manager
        args: ["--leader-elect", "--feature-gates=MachinePool=${EXP_MACHINE_POOL:=true},ClusterTopology=${CLUSTER_TOPOLOGY:=false}"]
`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := featureGates(release)
	if err != nil {
		t.Fatal(err)
	}
	if want := "--feature-gates=MachinePool=true,ClusterTopology=false"; got != want {
		t.Errorf("flag %q, want %q", got, want)
	}
	if _, err := featureGates(release[:1]); err == nil {
		t.Error("no error for a release without a Deployment")
	}
}
