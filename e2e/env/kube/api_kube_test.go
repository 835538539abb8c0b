//go:build kube

package kube_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"nstance.dev/e2e/env/kube"
)

// widgets is a resource with a rule of its own, and a policy about it.
const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com, labels: {cluster.x-k8s.io/v1beta2: v1}}
spec:
  group: example.com
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties: {size: {type: integer}}
              x-kubernetes-validations: [{rule: "self.size < 10", message: too large}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: widgets}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [widgets]}]
  validations: [{expression: "object.spec.size > 0", message: too small}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: widgets}
spec: {policyName: widgets, validationActions: [Deny]}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: right, namespace: default}
spec: {size: 5}
`

func TestAPIServer_alone(t *testing.T) {
	kube.Needs(t, kube.BeAlone)
	t.Parallel()
	c := kube.Start(t, kube.Config{})
	for range 2 { // what is there already is left as it is
		if err := c.Apply(t.Context(), objects(t, widgets)...); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := dynamic.NewForConfig(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	client := admin.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default")
	try := func(ctx context.Context, size int64) error {
		_, err := client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget",
			"metadata": map[string]any{"name": "wrong"}, "spec": map[string]any{"size": size},
		}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := try(t.Context(), 10); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("error %v, want that it is too large", err)
	}
	kube.Await(t, "the policy is in force", func(ctx context.Context) error {
		if err := try(ctx, 0); err == nil || !strings.Contains(err.Error(), "too small") {
			return errors.Join(errors.New("want that it is too small"), err)
		}
		return nil
	})
	if err := c.Stop(kube.Scheduler); !errors.Is(err, kube.ErrUnknownComponent) {
		t.Errorf("error %v, want that there is no scheduler", err)
	}
}
