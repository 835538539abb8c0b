//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// poolManifest is a pool of the group of its name: NAME, CLUSTER and SPEC are filled in.
const poolManifest = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachinePool
metadata: {name: NAME}
spec: {group: NAME, template: base, SPEC}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: NAME}
spec:
  clusterName: CLUSTER
  replicas: 0
  template:
    spec:
      clusterName: CLUSTER
      bootstrap: {dataSecretName: ""}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: NstanceMachinePool, name: NAME}
`

// pool is [installation.poolToLeave], and at the end of the test it deletes the pool, and waits
// until nothing of it is left.
func (i *installation) pool(t *testing.T, name, spec string, replicas int) {
	t.Helper()
	t.Cleanup(func() { i.remove(t, name) })
	i.poolToLeave(t, name, spec, replicas)
}

// poolToLeave makes an empty pool, with more of its spec in YAML, scales it as people do, and
// waits until all its Machines run.
func (i *installation) poolToLeave(t *testing.T, name, spec string, replicas int) {
	t.Helper()
	i.make(t, strings.NewReplacer("NAME", name, "CLUSTER", i.cluster(), "SPEC", spec).Replace(poolManifest))
	// Of one that is deleted before, Cluster API hears no more for minutes.
	kube.Await(t, fmt.Sprintf("Cluster API has pool %s", name), func(ctx context.Context) error {
		pool, err := i.get(ctx, infrav1.KindMachinePool, name)
		if err == nil && metav1.GetControllerOf(pool) == nil {
			err = errors.New("nobody owns it")
		}
		return err
	})
	if replicas > 0 {
		i.scale(t, name, replicas)
	}
	kube.Await(t, fmt.Sprintf("pool %s has its %d Machines", name, replicas), i.settled(name, replicas))
}

// remove deletes a pool by its MachinePool.
func (i *installation) remove(t *testing.T, pool string) {
	t.Helper()
	ctx := shared.Context() // it may be the end of the test
	i.heal(t)
	if err := i.resource("MachinePool").Delete(ctx, pool, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
		return
	}
	began := time.Now()
	deadline := began.Add(kube.Patience)
	for {
		left, err := i.leftOf(ctx, pool)
		if err == nil && len(left) == 0 {
			t.Logf("measured: nothing is left of pool %s after %v", pool, time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("of pool %s is left: %v (%v)", pool, left, err)
			return
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// leftOf names what there is of a pool.
func (i *installation) leftOf(ctx context.Context, pool string) ([]string, error) {
	var left []string
	for kind, label := range map[string]string{
		"MachinePool": "", infrav1.KindMachinePool: "", infrav1.KindShardGroup: infrav1.LabelPool,
		infrav1.KindMachine: clusterv1.MachinePoolNameLabel, "Machine": clusterv1.MachinePoolNameLabel,
	} {
		all, err := i.list(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, object := range all {
			if label == "" && object.GetName() == pool || label != "" && object.GetLabels()[label] == pool {
				left = append(left, kind+" "+object.GetName())
			}
		}
	}
	return left, nil
}

// list returns the objects of a kind in the operator's namespace.
func (i *installation) list(ctx context.Context, kind string) ([]unstructured.Unstructured, error) {
	all, err := i.resource(kind).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}

// read reads an object into its type.
func (i *installation) read(ctx context.Context, kind, name string, into any) error {
	object, err := i.get(ctx, kind, name)
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}

// machines returns the Machines of a pool, in order of their names.
func (i *installation) machines(ctx context.Context, pool string) ([]unstructured.Unstructured, error) {
	all, err := i.list(ctx, "Machine")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(m unstructured.Unstructured) bool {
		return m.GetLabels()[clusterv1.MachinePoolNameLabel] != pool
	}), nil
}

// names returns the names of the Machines of a pool, which are those of their instances and
// of their Nodes.
func (i *installation) names(t *testing.T, pool string) []string {
	t.Helper()
	machines, err := i.machines(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range machines {
		names = append(names, m.GetName())
	}
	return names
}

// scale sets the size of a MachinePool as people do.
func (i *installation) scale(t *testing.T, pool string, replicas int) {
	t.Helper()
	_, err := i.Kubectl(t.Context(), "scale", "machinepool", pool, "-n", i.namespace, fmt.Sprintf("--replicas=%d", replicas))
	if err != nil {
		t.Fatal(err)
	}
}

// settled returns nil once a pool has that many Machines, all Running with a Node of their
// own, and says so.
func (i *installation) settled(pool string, size int) func(context.Context) error {
	return func(ctx context.Context) error {
		machines, err := i.machines(ctx, pool)
		if err != nil {
			return err
		}
		running := 0
		for _, m := range machines {
			if text(&m, "status", "phase") == "Running" && text(&m, "status", "nodeRef", "name") != "" {
				running++
			}
		}
		if running != size || len(machines) != size {
			return fmt.Errorf("%d Machines of %d run, want %d", running, len(machines), size)
		}
		object, err := i.get(ctx, "MachinePool", pool)
		if err != nil {
			return err
		}
		if ids, _, _ := unstructured.NestedSlice(object.Object, "spec", "providerIDList"); len(ids) != size {
			return fmt.Errorf("the MachinePool has %d provider ids, want %d", len(ids), size)
		}
		return nil
	}
}

// sizes returns the sizes of the parts of a pool, by shard.
func (i *installation) sizes(t *testing.T, pool string) map[string]int64 {
	t.Helper()
	parts, err := i.list(t.Context(), infrav1.KindShardGroup)
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, part := range parts {
		if part.GetLabels()[infrav1.LabelPool] == pool {
			size, _, _ := unstructured.NestedInt64(part.Object, "spec", "size")
			sizes[part.GetLabels()[infrav1.LabelShard]] = size
		}
	}
	return sizes
}

// providerIDs returns the provider ids of a pool.
func (i *installation) providerIDs(t *testing.T, pool string) []string {
	t.Helper()
	object, err := i.get(t.Context(), infrav1.KindMachinePool, pool)
	if err != nil {
		t.Fatal(err)
	}
	ids, _, err := unstructured.NestedStringSlice(object.Object, "spec", "providerIDList")
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// reachable returns nil once what a pool has on a shard says that the shard is reachable, or
// that it is not.
func (i *installation) reachable(pool, shard, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		part, err := i.get(ctx, infrav1.KindShardGroup, pool+"--"+shard)
		if err != nil {
			return err
		}
		if status := conditionOf(part, "ShardReachable"); status != want {
			return fmt.Errorf("ShardReachable is %q", status)
		}
		return nil
	}
}

// gone returns nil once there is no object of a kind with that name.
func (i *installation) gone(kind, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := i.list(ctx, kind)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(o unstructured.Unstructured) bool { return o.GetName() == name }) {
			return fmt.Errorf("%s %s is still there", kind, name)
		}
		return nil
	}
}

// deletedNodes returns the Nodes of machines here that somebody has deleted since, in that order.
func (s *system) deletedNodes(t *testing.T, since time.Time) []string {
	t.Helper()
	requests, err := s.Audit()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range requests {
		if r.Verb == "delete" && r.Resource == "nodes" && r.Code == 200 && r.Time.After(since) && s.ground.shard(r.Name) != "" {
			names = append(names, r.Name)
		}
	}
	return names
}

// first returns the first request of a verb for an object that was granted, or an empty one.
func (i *installation) first(t *testing.T, verb, resource, name string) kube.Request {
	t.Helper()
	requests, err := i.Audit()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.Verb == verb && r.Resource == resource && r.Subresource == "" && r.Name == name && r.Code < 300 {
			return r
		}
	}
	return kube.Request{}
}

// conditionOf returns the status of a condition, or "" if the object has none of the type.
func conditionOf(object *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range conditions {
		if condition, ok := one.(map[string]any); ok && condition["type"] == kind {
			status, _ := condition["status"].(string)
			return status
		}
	}
	return ""
}
