//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/operator/policies"
	"nstance.dev/operator/policies/policytest"
)

// court is a cluster in which the policies are in force.
type court struct {
	cluster *kube.Cluster
	owner   dynamic.Interface // who may all that the policies guard
	clients map[string]dynamic.Interface
	earlier map[string]*unstructured.Unstructured // by case: what was stored before the policies
}

// O15: an API server without the operator and its webhooks passes and refuses what the
// table of the policies says.
func TestO15_ThePoliciesOnARealServer(t *testing.T) {
	ownCluster(t)
	c := newCourt(t)
	var ending []policytest.Case
	for _, test := range policytest.Cases() {
		if test.Refused != "" { // they are waited for: all policies have to be in force for the others
			c.awaitRefusal(t, test)
		}
	}
	for _, test := range policytest.Cases() {
		if test.Ending {
			ending = append(ending, test)
			continue
		}
		t.Run(test.Name, func(t *testing.T) {
			if wrong := judged(test, c.try(t, test)); wrong != nil {
				t.Error(wrong)
			}
		})
	}
	c.endNamespace(t, ending)
}

func newCourt(t *testing.T) *court {
	t.Helper()
	c := &court{cluster: kube.Start(t, kube.Config{}), clients: map[string]dynamic.Interface{}, earlier: map[string]*unstructured.Unstructured{}}
	installDefinitions(t, c.cluster)
	theirs, err := kube.ClusterAPIDefinitions()
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c.cluster, theirs...)
	apply(t, c.cluster, objects(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+policytest.Params.Namespace+"}}")...)
	c.owner = c.as(t, policytest.Params.User)
	for _, test := range policytest.Cases() {
		if !test.Earlier {
			continue
		}
		object := complete(test.Old)
		client := resourceOf(c.owner, object, object.GetNamespace())
		kube.Await(t, object.GetKind()+" is served", func(ctx context.Context) (err error) {
			c.earlier[test.Name], err = client.Create(ctx, object, metav1.CreateOptions{})
			return err
		})
	}
	all, err := policies.All(policytest.Params)
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range all {
		apply(t, c.cluster, convert(t, policy.Policy), convert(t, policy.Binding))
	}
	return c
}

// as returns a client of a user whom RBAC allows everything: what he may not, the
// policies refuse.
func (c *court) as(t *testing.T, user string) dynamic.Interface {
	t.Helper()
	if c.clients[user] == nil {
		config, err := c.cluster.User(user, "system:masters")
		c.clients[user] = clientOf(t, config, err)
	}
	return c.clients[user]
}

// awaitRefusal waits until the policy is in force that refuses a request.
func (c *court) awaitRefusal(t *testing.T, test policytest.Case) {
	t.Helper()
	kube.Await(t, test.Name, func(context.Context) error { return judged(test, c.try(t, test)) })
}

// judged returns what is wrong with the answer to the request of a case.
func judged(test policytest.Case, answer error) error {
	switch {
	case test.Refused == "" && answer != nil:
		return fmt.Errorf("refused: %w", answer)
	case test.Refused != "" && answer == nil:
		return fmt.Errorf("passed, want refused: %s", test.Refused)
	case test.Refused != "" && !strings.Contains(answer.Error(), test.Refused):
		return fmt.Errorf("refused with %w, want a part of it to be %q", answer, test.Refused)
	}
	return nil
}

// try makes the request of a case, and leaves nothing behind.
func (c *court) try(t *testing.T, test policytest.Case) error {
	t.Helper()
	if test.Old == nil {
		object := complete(test.New)
		client := resourceOf(c.as(t, test.User), object, object.GetNamespace())
		_, err := client.Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	if old := c.earlier[test.Name]; old != nil {
		return c.ask(t, test, old)
	}
	old := c.store(t, test)
	defer c.remove(t, old)
	return c.ask(t, test, old)
}

// store creates what the request of a case meets.
func (c *court) store(t *testing.T, test policytest.Case) *unstructured.Unstructured {
	t.Helper()
	object := complete(test.Old)
	return store(t, resourceOf(c.owner, object, object.GetNamespace()), object)
}

// remove deletes an object if it is still there.
func (c *court) remove(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	client := resourceOf(c.owner, object, object.GetNamespace())
	if err := client.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// ask makes the request of a case to an object that is there.
func (c *court) ask(t *testing.T, test policytest.Case, old *unstructured.Unstructured) error {
	t.Helper()
	client := resourceOf(c.as(t, test.User), old, old.GetNamespace())
	var options []string
	if test.DryRun {
		options = dryRun
	}
	if test.New == nil {
		return client.Delete(t.Context(), old.GetName(), metav1.DeleteOptions{DryRun: options})
	}
	changed := complete(test.New)
	changed.SetResourceVersion(old.GetResourceVersion())
	_, err := client.Update(t.Context(), changed, metav1.UpdateOptions{DryRun: options})
	return err
}

// endNamespace makes the requests of cases in a namespace that is being deleted. It stays
// so: nobody here finishes it.
func (c *court) endNamespace(t *testing.T, cases []policytest.Case) {
	t.Helper()
	var stored []*unstructured.Unstructured
	for _, test := range cases {
		stored = append(stored, c.store(t, test))
	}
	namespace := objects(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+policytest.Params.Namespace+"}}")[0]
	client := resourceOf(c.owner, namespace, "")
	if err := client.Delete(t.Context(), namespace.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, test := range cases {
		kube.Await(t, test.Name, func(context.Context) error { return judged(test, c.ask(t, test, stored[i])) })
	}
}

// required is what Cluster API asks of its objects beyond what the table is about.
var required = map[string]map[string]any{
	"Cluster": {"paused": true},
	"MachinePool": {
		"clusterName": "example--default",
		"template": map[string]any{"spec": map[string]any{
			"clusterName": "example--default",
			"bootstrap":   map[string]any{"dataSecretName": "none"},
			"infrastructureRef": map[string]any{
				"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "NstanceMachinePool", "name": "workers",
			},
		}},
	},
}

// complete returns an object of the table as one of its own that can be stored.
func complete(object policytest.Object) *unstructured.Unstructured {
	whole := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
	if fields := required[whole.GetKind()]; fields != nil {
		fill(whole.Object, map[string]any{"spec": fields})
	}
	return whole
}

// fill adds the fields that an object lacks.
func fill(object, fields map[string]any) {
	for name, value := range fields {
		inner, deeper := object[name].(map[string]any)
		more, ok := value.(map[string]any)
		switch {
		case deeper && ok:
			fill(inner, more)
		case object[name] == nil:
			object[name] = runtime.DeepCopyJSONValue(value)
		}
	}
}
