//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/kube/nodes"
)

// coreRights lets Cluster API read and write our kinds, as the chart does.
const coreRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nstance-for-cluster-api, labels: {cluster.x-k8s.io/aggregate-to-manager: "true"}}
rules:
- apiGroups: [infrastructure.cluster.x-k8s.io, controlplane.cluster.x-k8s.io]
  resources: ["*"]
  verbs: [get, list, watch, create, update, patch, delete]
`

// clusterObjects are a cluster as the operator makes it.
const clusterObjects = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceCluster
metadata: {name: one}
spec: {controlPlaneEndpoint: {host: 127.0.0.1, port: 6443}}
status: {initialization: {provisioned: true}, ready: true}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: NstanceControlPlane
metadata: {name: one}
status: {initialization: {controlPlaneInitialized: true}, externalManagedControlPlane: true, version: v1.36.3}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: one}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: NstanceControlPlane, name: one}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: NstanceCluster, name: one}
`

// poolObjects are a pool of one instance: NAME and INSTANCE are filled in.
const poolObjects = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: NAME}
spec:
  clusterName: one
  replicas: 1
  template:
    spec:
      clusterName: one
      bootstrap: {dataSecretName: ""}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: NstanceMachinePool, name: NAME}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachinePool
metadata: {name: NAME}
spec: {group: NAME, shards: [a], providerIDList: ["nstance://a/INSTANCE"]}
status: {initialization: {provisioned: true}, replicas: 1, infrastructureMachineKind: NstanceMachine}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachine
metadata: {name: INSTANCE, labels: {cluster.x-k8s.io/cluster-name: one, cluster.x-k8s.io/pool-name: NAME}}
spec: {groupRef: {name: NAME}, shard: a, mode: Managed, instanceID: INSTANCE, providerID: "nstance://a/INSTANCE"}
status: {initialization: {provisioned: true}, ready: true}
`

// Ids of instances.
const (
	first  = "knd01h455vb4pex5vsknk084sn020"
	second = "knd01h455vb4pex5vsknk084sn024"
	third  = "knd01h455vb4pex5vsknk084sn028"
)

// core is a cluster with Cluster API.
type core struct {
	*kube.Cluster
	namespace string // of the objects of Cluster API and ours
	admin     dynamic.Interface
	client    kubernetes.Interface
}

// newCore starts a cluster with Cluster API, for objects in a namespace.
func newCore(t testing.TB, namespace string, config kube.Config) *core {
	t.Helper()
	config.ClusterAPI = true
	c := &core{Cluster: kube.Start(t, config), namespace: namespace}
	c.admin = clientOf(t, c.Admin(), nil)
	var err error
	if c.client, err = kubernetes.NewForConfig(c.Admin()); err != nil {
		t.Fatal(err)
	}
	return c
}

// startCore makes a namespace of the common cluster, to which no operator belongs, and in it a
// Cluster object whose workload is this cluster, which is what an operator otherwise sees to.
// It must come first in a test.
func startCore(t *testing.T, namespace string, abilities ...kube.Ability) *core {
	t.Helper()
	startCluster(t, abilities...)
	t.Parallel()
	c := *common.cluster
	c.namespace = namespace
	c.own(t)
	apply(t, c.Cluster, objects(t, coreRights)...)
	admin := c.Admin()
	admin.Host = c.APIServer()
	kubeconfig, err := kube.Kubeconfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.client.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "one-kubeconfig", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "one"}},
		Type:       "cluster.x-k8s.io/secret",
		Data:       map[string][]byte{"value": kubeconfig},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.make(t, clusterObjects)
	return &c
}

// own makes the namespace, which goes at the end of the test.
func (c *core) own(t *testing.T) {
	t.Helper()
	apply(t, c.Cluster, objects(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+c.namespace+"}}")...)
	t.Cleanup(func() {
		err := c.client.CoreV1().Namespaces().Delete(shared.Context(), c.namespace, metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
}

// make creates the objects of a manifest, with what their status says.
func (c *core) make(t *testing.T, manifest string) {
	t.Helper()
	for _, object := range objects(t, manifest) {
		store(t, resourceOf(c.admin, object, c.namespace), object)
	}
}

// pool makes a pool of one instance, and its Node.
func (c *core) pool(t *testing.T, name, id string) {
	t.Helper()
	nodes.Boot(t, c.client, nodes.Machine{Name: "node-" + name, ProviderID: "nstance://a/" + id, Heartbeat: heartbeat})
	t.Cleanup(func() {
		err := c.client.CoreV1().Nodes().Delete(shared.Context(), "node-"+name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	c.make(t, strings.NewReplacer("NAME", name, "INSTANCE", id).Replace(poolObjects))
}

// get returns an object of a kind of Cluster API or ours.
func (c *core) get(ctx context.Context, kind, name string) (*unstructured.Unstructured, error) {
	return c.resource(kind).Get(ctx, name, metav1.GetOptions{})
}

// resource returns a client for objects of a kind of Cluster API or ours.
func (c *core) resource(kind string) dynamic.ResourceInterface {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	if strings.HasPrefix(kind, "Nstance") {
		object.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta1")
	}
	object.SetKind(kind)
	return resourceOf(c.admin, object, c.namespace)
}

// merge changes an object, or a subresource of it, by a merge patch.
func (c *core) merge(t testing.TB, kind, name, patch string, subresources ...string) *unstructured.Unstructured {
	t.Helper()
	changed, err := c.resource(kind).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// running returns nil once a MachinePool or Machine is Running.
func (c *core) running(kind, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		object, err := c.get(ctx, kind, name)
		if err != nil {
			return err
		}
		if phase := text(object, "status", "phase"); phase != "Running" {
			return fmt.Errorf("%s %s is %s", kind, name, phase)
		}
		return nil
	}
}

// text returns a field of an object, or "" if there is no such text.
func text(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}

// O8: Cluster API reads the readiness of a pool where its older contract has it, and does
// not follow a pool that says it in the newer place alone. Until it does, both are needed.
func TestO8_CoreFollowsAPoolThatIsReadyInBothPlaces(t *testing.T) {
	c := startCore(t, "core-readiness")
	c.pool(t, "both", first)
	c.merge(t, "NstanceMachinePool", "both", `{"status":{"ready":true}}`, "status")
	c.pool(t, "new", second)
	kube.Await(t, "a pool that is ready in both places runs", c.running("MachinePool", "both"))

	// A change that core has seen: what it did not do by then it does not do.
	changed := c.merge(t, "MachinePool", "new", `{"spec":{"template":{"spec":{"version":"v1.36.3"}}}}`)
	var seen *unstructured.Unstructured
	kube.Await(t, "core has looked at the other one", func(ctx context.Context) error {
		var err error
		if seen, err = c.get(ctx, "MachinePool", "new"); err != nil {
			return err
		}
		observed, _, err := unstructured.NestedInt64(seen.Object, "status", "observedGeneration")
		if err == nil && observed < changed.GetGeneration() {
			err = fmt.Errorf("it has seen generation %d of %d", observed, changed.GetGeneration())
		}
		return err
	})
	if ids, _, _ := unstructured.NestedSlice(seen.Object, "spec", "providerIDList"); len(ids) > 0 || text(seen, "status", "phase") == "Running" {
		t.Errorf("it is %s, with provider ids %v: `ready` of the older contract is needed no more", text(seen, "status", "phase"), ids)
	}
	c.merge(t, "NstanceMachinePool", "new", `{"status":{"ready":true}}`, "status")
	kube.Await(t, "it runs as soon as it says so in the older place", c.running("MachinePool", "new"))
}

// What the operator builds on: core makes a Machine of each NstanceMachine of a pool, with
// its name and its Node, and a Machine that is deleted takes both with it, after a drain.
func TestCoreMakesAndEndsMachinesOfAPool(t *testing.T) {
	c := startCore(t, "core-machines", kube.ReadAudit)
	c.pool(t, "ended", third)
	c.merge(t, "NstanceMachinePool", "ended", `{"status":{"ready":true}}`, "status")
	kube.Await(t, "there is a Machine, and it runs", c.running("Machine", third))

	machine, err := c.get(t.Context(), "Machine", third)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{
		"node": text(machine, "status", "nodeRef", "name"), "provider id": text(machine, "spec", "providerID"),
		"infrastructure": text(machine, "spec", "infrastructureRef", "name"), "owner": machine.GetOwnerReferences()[0].Kind,
	}
	want := map[string]string{"node": "node-ended", "provider id": "nstance://a/" + third, "infrastructure": third, "owner": "MachinePool"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Machine (-want +got):\n%s", diff)
	}

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "work"},
		Spec:       corev1.PodSpec{NodeName: "node-ended", Containers: []corev1.Container{{Name: "work", Image: "none"}}},
	}
	kube.Await(t, "there is a Pod", func(ctx context.Context) error { // its ServiceAccount may still be missing
		_, err := c.client.CoreV1().Pods(c.namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err := c.resource("Machine").Delete(t.Context(), third, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "Machine, NstanceMachine, Node and Pod are gone", func(ctx context.Context) error {
		_, machine := c.get(ctx, "Machine", third)
		_, ours := c.get(ctx, "NstanceMachine", third)
		_, node := c.client.CoreV1().Nodes().Get(ctx, "node-ended", metav1.GetOptions{})
		_, pod := c.client.CoreV1().Pods(c.namespace).Get(ctx, "work", metav1.GetOptions{})
		for _, err := range []error{machine, ours, node, pod} {
			if !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("one is still there"), err)
			}
		}
		return nil
	})
	c.wasEvicted(t, "work")
}

// wasEvicted checks that core evicted a Pod, and did not delete it.
func (c *core) wasEvicted(t *testing.T, pod string) {
	t.Helper()
	requests, err := c.Audit()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.Verb == "create" && r.Resource == "pods" && r.Subresource == "eviction" && r.Namespace == c.namespace && r.Name == pod && r.Code == 201 {
			return
		}
	}
	t.Errorf("nobody evicted Pod %s", pod)
}
