//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/kube/nodes"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// lonesome is a Deployment of two Pods, and a StatefulSet of one, that ask for a machine each.
// GROUP and NAMESPACE are filled in.
const lonesome = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: own, namespace: NAMESPACE}
spec:
  replicas: 2
  selector: {matchLabels: {app: own}}
  template:
    metadata: {labels: {app: own}, annotations: {on-demand.nstance.dev/group: GROUP}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: work, image: none}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: again, namespace: NAMESPACE}
spec:
  replicas: 1
  serviceName: again
  selector: {matchLabels: {app: again}}
  template:
    metadata: {labels: {app: again}, annotations: {on-demand.nstance.dev/group: GROUP}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: work, image: none}]
`

// once is a Pod that asks for a machine and ends by itself. It has a volume in the zone of
// shard b.
const once = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: NAMESPACE-data}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: /nowhere}
  claimRef: {namespace: NAMESPACE, name: data}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [b]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: NAMESPACE}
spec: {storageClassName: "", volumeName: NAMESPACE-data, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: once, namespace: NAMESPACE, annotations: {on-demand.nstance.dev/group: GROUP}}
spec:
  restartPolicy: Never
  containers: [{name: work, image: none}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

// lonely applies objects of Pods that ask for machines of a group, in the namespace whose Pods
// may.
func (s *system) lonely(t *testing.T, group, manifest string) {
	t.Helper()
	fill := strings.NewReplacer("GROUP", group, "NAMESPACE", s.onDemandNamespace())
	apply(t, s.Cluster, objects(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+s.onDemandNamespace()+"}}")...)
	kube.Await(t, "there are Pods", func(ctx context.Context) error { // their ServiceAccount may still be missing
		return s.Apply(ctx, objects(t, fill.Replace(manifest))...)
	})
}

// onDemand makes a group from which Pods may have machines, on all shards.
func (s *system) onDemand(t *testing.T, group string) {
	t.Helper()
	s.pool(t, group, "shards: [a, b, c]", 0)
	kube.Await(t, "the shards have the group", func(context.Context) error {
		if groups := s.groups(t, group); len(groups) != 3 {
			return fmt.Errorf("it is on %v", groups)
		}
		return nil
	})
}

// lingers is how long a machine that was a Pod's own stays when that has ended, where Pods are
// held until they have one.
const lingers = 20 * time.Second

// spread returns the Nodes of so many Pods with machines of their own, once they run there.
func (s *system) spread(t *testing.T, size int) (where map[string]string) {
	t.Helper()
	kube.Await(t, fmt.Sprintf("%d Pods run on machines of their own", size), func(ctx context.Context) (err error) {
		if where, err = s.runningPods(ctx, s.onDemandNamespace()); err != nil {
			return err
		}
		on := map[string]bool{}
		for _, node := range where {
			on[node] = true
		}
		if len(where) != size || len(on) != size {
			return fmt.Errorf("there run %v", where)
		}
		return nil
	})
	return where
}

// finish ends the containers of a Pod.
func (s *system) finish(t *testing.T, pod string) {
	t.Helper()
	_, err := s.client.CoreV1().Pods(s.onDemandNamespace()).Patch(t.Context(), pod, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, nodes.Finish, corev1.PodSucceeded), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "it has ended", func(ctx context.Context) error {
		pod, err := s.client.CoreV1().Pods(s.onDemandNamespace()).Get(ctx, pod, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodSucceeded {
			err = fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return err
	})
}

// ending returns nil once the Machines of all Pods but one are known to have lost them, or are
// gone for that.
func (s *system) ending(ctx context.Context, where map[string]string, but string) error {
	machines, err := s.list(ctx, "Machine")
	if err != nil {
		return err
	}
	of := map[string]string{}
	for pod, node := range where {
		of[node] = pod
	}
	for _, m := range machines {
		pod := of[m.GetName()]
		if pod != "" && pod != but && m.GetAnnotations()[infrav1.OnDemandEndedAt] == "" {
			return fmt.Errorf("of that of %s it is not", pod)
		}
	}
	return nil
}

// goneInTime checks by the API server's times that the Node of a Pod was deleted within a minute
// after a machine had lingered for the Pod, and not before, but for the rounding.
func (s *system) goneInTime(t *testing.T, pod, node string, since time.Time) {
	t.Helper()
	requests, err := s.Audit()
	if err != nil {
		t.Fatal(err)
	}
	var ended, gone time.Time
	for _, r := range requests {
		if r.Verb != "delete" || r.Code != 200 || r.Time.Before(since) {
			continue
		}
		switch {
		case r.Resource == "pods" && r.Namespace == s.onDemandNamespace() && r.Name == pod && ended.IsZero():
			ended = r.Time
		case r.Resource == "nodes" && r.Name == node:
			gone = r.Time
		}
	}
	if after := gone.Sub(ended); ended.IsZero() || after < lingers-5*time.Second || after > lingers+time.Minute {
		t.Errorf("Pod %s was deleted at %v and its Node at %v: %v later", pod, ended, gone, after)
	} else {
		t.Logf("measured: Node gone %v after its Pod", after.Round(time.Second))
	}
}

// onlyThose checks that Nodes have those Pods and no others, but for Pods of DaemonSets, and
// would take no others.
func (s *system) onlyThose(t *testing.T, where map[string]string) {
	t.Helper()
	pods, err := s.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if owner := metav1.GetControllerOf(&pod); owner != nil && owner.Kind == "DaemonSet" {
			continue
		}
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
		pod, err := s.client.CoreV1().Pods(s.onDemandNamespace()).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !closed || claim == "" || pod.Spec.NodeSelector[infrav1.OnDemandClaim] != claim {
			t.Errorf("Node %s has the claim %q and taints %v, Pod %s selects %v", node, claim, object.Spec.Taints, name, pod.Spec.NodeSelector)
		}
	}
}
