//go:build kube

package operator_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/operator/crds"
	"nstance.dev/operator/policies"
	"nstance.dev/operator/policies/policytest"
)

// hostCourt is a cluster in which the policies of host machines are in force, and no controller
// runs.
type hostCourt struct {
	cluster *kube.Cluster
	owner   dynamic.Interface
}

func newHostCourt(t *testing.T) *hostCourt {
	t.Helper()
	c := &hostCourt{cluster: startWith(t, crds.Hosts)}
	for _, verb := range []string{"", "power", "provision"} {
		apply(t, c.cluster, convert(t, roleOf(verb)), convert(t, bindingOf(verb)))
	}
	all, err := policies.Hosts(policytest.Params)
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range all {
		apply(t, c.cluster, convert(t, policy.Policy), convert(t, policy.Binding))
	}
	c.owner = c.as(t, policytest.Case{User: policytest.Params.User})
	return c
}

// user is who has the rights of a case: those who are not held to rights of their own have all.
func user(test policytest.Case) (name string, groups []string) {
	if test.User != "dev" {
		return test.User, append([]string{"system:masters"}, test.Groups...)
	}
	name = "dev"
	for _, may := range test.May {
		verb, _, _ := strings.Cut(may, " ")
		name += verb
	}
	return name, nil
}

// roleOf is what user dev may do, and beside it one verb on HostMachines.
func roleOf(verb string) *rbacv1.ClusterRole {
	verbs := []string{"get", "list", "create", "update", "patch", "delete"}
	if verb != "" {
		verbs = append(verbs, verb)
	}
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "dev" + verb},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"hosts.nstance.dev"}, Resources: []string{"hostmachines", "machineoperations"}, Verbs: verbs}},
	}
}

func bindingOf(verb string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: "dev" + verb},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "dev" + verb},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "dev" + verb}},
	}
}

func (c *hostCourt) as(t *testing.T, test policytest.Case) dynamic.Interface {
	t.Helper()
	name, groups := user(test)
	config, err := c.cluster.User(name, groups...)
	return clientOf(t, config, err)
}

// M7, M28, M30, M32: an API server without any controller passes and refuses of host machines what
// the table of the policies says. What a machine refers to is known to a policy a moment after it
// is stored, so answers are waited for.
func TestM7M28M30M32_HostPoliciesOnARealServer(t *testing.T) {
	ownCluster(t)
	c := newHostCourt(t)
	cases := policytest.HostCases()
	slices.SortStableFunc(cases, func(a, b policytest.Case) int { // each policy is in force before something has to pass
		return strings.Compare(map[bool]string{true: "b", false: "a"}[a.Refused == ""], map[bool]string{true: "b", false: "a"}[b.Refused == ""])
	})
	for _, test := range cases {
		t.Run(test.Name, func(t *testing.T) {
			var stored []*unstructured.Unstructured
			defer func() {
				for _, object := range stored {
					c.remove(t, object)
				}
			}()
			old := test.Old
			for _, param := range test.Params {
				stored = append(stored, store(t, resourceOf(c.owner, decoded(param), ""), decoded(param)))
			}
			var was *unstructured.Unstructured
			if old != nil {
				was = store(t, resourceOf(c.owner, decoded(old), ""), decoded(old))
				stored = append([]*unstructured.Unstructured{was}, stored...)
			}
			client := c.as(t, test)
			kube.Await(t, test.Name, func(ctx context.Context) error { return judged(test, c.ask(ctx, client, test, was)) })
		})
	}
}

// ask makes the request of a case and stores nothing.
func (c *hostCourt) ask(ctx context.Context, client dynamic.Interface, test policytest.Case, was *unstructured.Unstructured) error {
	if was == nil {
		object := decoded(test.New)
		_, err := resourceOf(client, object, "").Create(ctx, object, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	resource := resourceOf(client, was, "")
	if test.New == nil {
		return resource.Delete(ctx, was.GetName(), metav1.DeleteOptions{DryRun: dryRun})
	}
	changed := decoded(test.New)
	changed.SetResourceVersion(was.GetResourceVersion())
	options := metav1.UpdateOptions{DryRun: dryRun}
	if test.SubResource == "status" {
		_, err := resource.UpdateStatus(ctx, changed, options)
		return err
	}
	_, err := resource.Update(ctx, changed, options)
	return err
}

// remove deletes an object. What is in use goes once what uses it is gone: the machines are
// deleted first where the policy asks for it.
func (c *hostCourt) remove(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	if kind := object.GetKind(); kind != "HostMachine" {
		machines := c.owner.Resource(schema.GroupVersionResource{Group: "hosts.nstance.dev", Version: "v1alpha1", Resource: "hostmachines"})
		if err := machines.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	kube.Await(t, object.GetName()+" goes", func(ctx context.Context) error {
		err := resourceOf(c.owner, object, "").Delete(ctx, object.GetName(), metav1.DeleteOptions{})
		if err != nil && strings.Contains(err.Error(), "not found") {
			return nil
		}
		return err
	})
}

// M32: delete --all deletes the versions that no machine refers to, and those alone.
func TestM32_DeleteAllSparesWhatIsInUse(t *testing.T) {
	ownCluster(t)
	c := newHostCourt(t)
	for _, object := range objects(t, `
apiVersion: hosts.nstance.dev/v1alpha1
kind: MachineConfigurationVersion
metadata: {name: gpu-v1}
spec: {configurationName: gpu, version: 1, template: {image: {type: OCI, oci: {reference: "node:1"}}, kubernetes: {version: v1.36.3}}}
---
apiVersion: hosts.nstance.dev/v1alpha1
kind: MachineConfigurationVersion
metadata: {name: gpu-v2}
spec: {configurationName: gpu, version: 2, template: {image: {type: OCI, oci: {reference: "node:1"}}, kubernetes: {version: v1.36.3}}}
---
apiVersion: hosts.nstance.dev/v1alpha1
kind: MachineConfigurationVersion
metadata: {name: gpu-v3}
spec: {configurationName: gpu, version: 3, template: {image: {type: OCI, oci: {reference: "node:1"}}, kubernetes: {version: v1.36.3}}}
---
apiVersion: hosts.nstance.dev/v1alpha1
kind: HostMachine
metadata: {name: box}
spec: {provisioner: manual}
status: {configuration: {applied: {name: gpu, version: 2}}}
`) {
		store(t, resourceOf(c.owner, object, ""), object)
	}
	versions := c.owner.Resource(schema.GroupVersionResource{Group: "hosts.nstance.dev", Version: "v1alpha1", Resource: "machineconfigurationversions"})
	kube.Await(t, "the policy knows the machine", func(ctx context.Context) error {
		err := versions.Delete(ctx, "gpu-v2", metav1.DeleteOptions{DryRun: dryRun})
		return judged(policytest.Case{Refused: "MachineConfigurationVersion gpu-v2 is in use: HostMachine box runs it"}, err)
	})
	if out, err := c.cluster.Kubectl(t.Context(), "delete", "mcv", "--all"); err == nil || !strings.Contains(err.Error()+out, "gpu-v2 is in use") {
		t.Errorf("kubectl delete mcv --all: %v, %s", err, out)
	}
	left, err := versions.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range left.Items {
		names = append(names, v.GetName())
	}
	if !slices.Equal(names, []string{"gpu-v2"}) {
		t.Errorf("left are %v, want gpu-v2", names)
	}
}
