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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/kube"
	"nstance.dev/e2e/kube/nodes"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// alone is a Deployment of two Pods that ask for a machine each. NAME is the group and the
// namespace.
const alone = `
apiVersion: v1
kind: Namespace
metadata: {name: NAME}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: own, namespace: NAME}
spec:
  replicas: 2
  selector: {matchLabels: {app: own}}
  template:
    metadata: {labels: {app: own}, annotations: {on-demand.nstance.dev/group: NAME}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: work, image: none}]
`

// once is a Pod that asks for a machine and ends by itself. It has a volume in the zone of
// shard b.
const once = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: NAME-data}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: /nowhere}
  claimRef: {namespace: NAME, name: data}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [b]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: NAME}
spec: {storageClassName: "", volumeName: NAME-data, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: once, namespace: NAME, annotations: {on-demand.nstance.dev/group: NAME}}
spec:
  restartPolicy: Never
  containers: [{name: work, image: none}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

// O12: each Pod that asks for a machine of its own gets one, in the zone of its volume, runs
// there, and nobody else does. The machine ends with the Pod, also if the operator is away when that ends.
func TestO12_PodsWithMachinesOfTheirOwn(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "own", "shards: [a, b, c]", 0)
	kube.Await(t, "the shards have the group", func(context.Context) error {
		if groups := s.groups(t, "own"); len(groups) != 3 {
			return fmt.Errorf("it is on %v", groups)
		}
		return nil
	})
	apply(t, s.Cluster, objects(t, strings.ReplaceAll(alone, "NAME", "own"))...)
	t.Cleanup(func() {
		err := s.client.CoreV1().Namespaces().Delete(shared.Context(), "own", metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	kube.Await(t, "a Pod is made", func(ctx context.Context) error { // its ServiceAccount may still be missing
		return s.Apply(ctx, objects(t, strings.ReplaceAll(once, "NAME", "own"))...)
	})
	var where map[string]string
	kube.Await(t, "three Pods run on three machines", func(ctx context.Context) (err error) {
		if where, err = s.runningPods(ctx, "own"); err != nil {
			return err
		}
		on := map[string]bool{}
		for _, node := range where {
			on[node] = true
		}
		if len(where) != 3 || len(on) != 3 {
			return fmt.Errorf("there run %v", where)
		}
		return nil
	})
	s.onlyThose(t, where)
	if shard := s.shardOf(t, where["once"]); shard != "b" {
		t.Errorf("the Pod with a volume in the zone of b has a machine of %s", shard)
	}

	// One ends while the operator is away, the others are deleted.
	s.operator.Kill()
	_, err := s.client.CoreV1().Pods("own").Patch(t.Context(), "once", types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, nodes.Finish, corev1.PodSucceeded), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "it has ended", func(ctx context.Context) error {
		pod, err := s.client.CoreV1().Pods("own").Get(ctx, "once", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodSucceeded {
			err = fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return err
	})
	s.start(t)
	if err := s.client.AppsV1().Deployments("own").Delete(t.Context(), "own", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ended := time.Now()
	kube.Await(t, "their machines stay for a minute, and then go", func(ctx context.Context) error {
		all, err := s.ownMachines(ctx, "own")
		for _, machine := range all {
			if machine.GetDeletionTimestamp() == nil {
				err = errors.Join(err, fmt.Errorf("%s stays", machine.GetName()))
			}
		}
		return err
	})
	kube.Await(t, "they are gone", func(ctx context.Context) error {
		all, err := s.ownMachines(ctx, "own")
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("%d are left", len(all))
		}
		return err
	})
	for _, node := range where {
		kube.Await(t, "so is a Node", s.vanished(node))
	}
	t.Logf("measured: gone %v after the end of their Pods", time.Since(ended).Round(time.Second))
}

// ownMachines returns the machines that were made for Pods of a namespace.
func (s *system) ownMachines(ctx context.Context, namespace string) ([]unstructured.Unstructured, error) {
	all, err := s.list(ctx, infrav1.KindMachine)
	return slices.DeleteFunc(all, func(m unstructured.Unstructured) bool {
		return m.GetLabels()[infrav1.LabelOnDemandPodNamespace] != namespace
	}), err
}

// onlyThose checks that Nodes have those Pods and no others, and would take no others.
func (s *system) onlyThose(t *testing.T, where map[string]string) {
	t.Helper()
	pods, err := s.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		for name, node := range where {
			if pod.Spec.NodeName == node && pod.Name != name {
				t.Errorf("Pod %s is on the Node of Pod %s", pod.Name, name)
			}
		}
	}
	for name, node := range where {
		object, err := s.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		claim, closed := object.Labels[infrav1.OnDemandClaim], false
		for _, taint := range object.Spec.Taints {
			closed = closed || taint.Key == infrav1.TaintOnDemandClaim && taint.Value == claim && taint.Effect == corev1.TaintEffectNoSchedule
		}
		pod, err := s.client.CoreV1().Pods("own").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !closed || claim == "" || pod.Spec.NodeSelector[infrav1.OnDemandClaim] != claim {
			t.Errorf("Node %s has the claim %q and taints %v, Pod %s selects %v", node, claim, object.Spec.Taints, name, pod.Spec.NodeSelector)
		}
	}
}
