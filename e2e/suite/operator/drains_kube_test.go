//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// guarded is work on the Nodes of a pool: a Deployment of one Pod that a budget holds fast,
// a DaemonSet, and a Pod of nobody. NAME is the pool and the namespace.
const guarded = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: held, namespace: NAME}
spec: {minAvailable: 1, selector: {matchLabels: {app: held}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: held, namespace: NAME}
spec:
  replicas: 1
  selector: {matchLabels: {app: held}}
  template:
    metadata: {labels: {app: held}}
    spec:
      nodeSelector: {nstance.dev/group: NAME}
      terminationGracePeriodSeconds: 1
      containers: [{name: work, image: none}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: everywhere, namespace: NAME}
spec:
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata: {labels: {app: everywhere}}
    spec:
      nodeSelector: {nstance.dev/group: NAME}
      containers: [{name: work, image: none}]
`

// work makes guarded work on a pool of two, and returns the Node with the Pod that is held,
// and that Pod.
func (s *system) work(t *testing.T, pool string) (node, pod string) {
	t.Helper()
	s.pool(t, pool, "shards: [a, b], rebalance: Never", 2)
	s.namespaced(t, pool, guarded)
	kube.Await(t, "the work runs", func(ctx context.Context) error {
		running, err := s.runningPods(ctx, pool)
		if err != nil {
			return err
		}
		for name, on := range running {
			if strings.HasPrefix(name, "held-") {
				node, pod = on, name
			}
		}
		if node == "" || len(running) != 3 {
			return fmt.Errorf("there run %v", running)
		}
		return nil
	})
	return node, pod
}

// namespaced makes the objects of a manifest, in which NAME is the namespace, which goes at the
// end of the test.
func (s *system) namespaced(t *testing.T, namespace, manifest string) {
	t.Helper()
	apply(t, s.Cluster, objects(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")...)
	t.Cleanup(func() {
		err := s.client.CoreV1().Namespaces().Delete(shared.Context(), namespace, metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	kube.Await(t, "there are objects in a namespace", func(ctx context.Context) error { // a ServiceAccount may still be missing
		return s.Apply(ctx, objects(t, strings.ReplaceAll(manifest, "NAME", namespace))...)
	})
}

// runningPods returns the Pods of a namespace that run, with their Nodes.
func (i *installation) runningPods(ctx context.Context, namespace string) (map[string]string, error) {
	pods, err := i.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	running := map[string]string{}
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp.IsZero() {
			running[pod.Name] = pod.Spec.NodeName
		}
	}
	return running, nil
}

// shardOf returns the shard of a Node.
func (s *system) shardOf(t *testing.T, node string) string {
	t.Helper()
	object, err := s.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.Labels[corev1.LabelTopologyZone]
}

// drained returns nil once a Node is cordoned for a drain that evicts Pods, with what the
// operator remembers of it.
func (s *system) drained(ctx context.Context, node string, memory *map[string]string) error {
	object, err := s.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	*memory = map[string]string{}
	for _, key := range []string{
		infrav1.AnnotationDrainInstance, infrav1.AnnotationDrainReason, infrav1.AnnotationDrainStartedAt, infrav1.AnnotationDrainDeadline,
		infrav1.AnnotationCordonedBy,
	} {
		(*memory)[key] = object.Annotations[key]
	}
	tainted := slices.ContainsFunc(object.Spec.Taints, func(t corev1.Taint) bool { return t.Key == infrav1.TaintDraining })
	if phase := object.Annotations[infrav1.AnnotationDrainPhase]; !object.Spec.Unschedulable || !tainted || phase != string(infrav1.DrainEvicting) {
		return fmt.Errorf("unschedulable: %t, tainted: %t, phase %q", object.Spec.Unschedulable, tainted, phase)
	}
	return nil
}

// asked returns the answers that the operator got since when it wanted a Pod to go: a verb
// and a status for each. An API server that could not decide in time, as on a busy box, has
// not answered: the operator asks again.
func (s *system) asked(namespace, pod string, since time.Time) ([]string, error) {
	requests, err := s.Audit()
	if err != nil {
		return nil, err
	}
	var answers []string
	for _, r := range requests {
		if r.Resource != "pods" || r.Namespace != namespace || r.Name != pod || r.User != s.user() || !r.Time.After(since) {
			continue
		}
		decided := r.Code != http.StatusGatewayTimeout && r.Code != http.StatusServiceUnavailable
		if decided && (r.Subresource == "eviction" || r.Verb == "delete") {
			answers = append(answers, fmt.Sprintf("%s %d", r.Verb, r.Code))
		}
	}
	return slices.Compact(answers), nil
}

// refused returns nil once the operator was told since that a Pod must stay.
func (s *system) refused(namespace, pod string, since time.Time) func(context.Context) error {
	return func(context.Context) error {
		answers, err := s.asked(namespace, pod, since)
		if err == nil && !slices.Contains(answers, "create 429") {
			err = fmt.Errorf("the operator heard %v", answers)
		}
		return err
	}
}

// O10: an instance that is to go is emptied first. A budget that says "not yet" is waited
// for, by the next leader as well, who goes on where the last one was. That a person cordoned
// the Node before is respected: none of them takes the cordon for the operator's.
func TestO10_ABudgetIsWaitedForByTheNextLeaderToo(t *testing.T) {
	s := startSystem(t, kube.ReadAudit)
	node, pod := s.work(t, "patient")
	began := time.Now()
	if _, err := s.Kubectl(t.Context(), "cordon", node); err != nil {
		t.Fatal(err)
	}
	s.shards.DeleteInstance(s.shardOf(t, node), node, false)
	var before, after map[string]string
	kube.Await(t, "the Node is being drained", func(ctx context.Context) error { return s.drained(ctx, node, &before) })
	kube.Await(t, "the Pod must stay", s.refused("patient", pod, began))

	s.restart(t)
	again := time.Now()
	kube.Await(t, "the next leader asks too", s.refused("patient", pod, again))
	if err := s.drained(t.Context(), node, &after); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, after); diff != "" || before[infrav1.AnnotationCordonedBy] != "" {
		t.Errorf("what is remembered (-before +after), %v:\n%s", before, diff)
	}
	s.release(t, "patient")
	kube.Await(t, "the instance is gone", s.gone("Machine", node))
	kube.Await(t, "it is replaced", s.settled("patient", 2))
	answers, err := s.asked("patient", pod, began)
	if want := []string{"create 429", "create 201"}; err != nil || !slices.Equal(answers, want) {
		t.Errorf("the operator heard %v (%v), want %v", answers, err, want)
	}
}

// release lets the Pod go that the budget of guarded work holds.
func (s *system) release(t *testing.T, namespace string) {
	t.Helper()
	_, err := s.client.PolicyV1().PodDisruptionBudgets(namespace).Patch(t.Context(), "held", types.MergePatchType,
		[]byte(`{"spec":{"minAvailable":0}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// event returns nil once there is an event about an object of the operator's namespace or of
// none, with that in its note.
func (i *installation) event(object, reason, part string) func(context.Context) error {
	return func(ctx context.Context) error {
		var notes []string
		for _, namespace := range []string{i.namespace, metav1.NamespaceDefault} {
			all, err := i.client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, e := range all.Items {
				if e.Regarding.Name == object {
					notes = append(notes, e.Reason+": "+e.Note)
				}
				if e.Regarding.Name == object && e.Reason == reason && strings.Contains(e.Note, part) {
					return nil
				}
			}
		}
		return fmt.Errorf("there are %q", notes)
	}
}

// O11: an instance that its server ended leaves neither Machine nor NstanceMachine nor Node,
// also if the operator was away when it happened.
func TestO11_AnEndedInstanceLeavesNothing(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "ended", "shards: [c]", 2)
	names := s.names(t, "ended")

	s.shards.DeleteInstance("c", names[0], true)
	kube.Await(t, "all of it is gone", s.vanished(names[0]))
	kube.Await(t, "it is replaced", s.settled("ended", 2))

	s.crash(t)
	s.shards.DeleteInstance("c", names[1], true)
	kube.Await(t, "the server has none of it", func(ctx context.Context) error {
		all, _, err := s.shards.Instances(ctx, "c")
		if err != nil {
			return err
		}
		for _, in := range all {
			if in.GetInstanceId() == names[1] && in.GetStatus() != "terminated" {
				return fmt.Errorf("it is %s", in.GetStatus())
			}
		}
		return nil
	})
	s.start(t)
	kube.Await(t, "all of it is gone", s.vanished(names[1]))
	kube.Await(t, "it is replaced", s.settled("ended", 2))
}

// vanished returns nil once there is nothing of an instance.
func (i *installation) vanished(id string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, node := i.client.CoreV1().Nodes().Get(ctx, id, metav1.GetOptions{})
		switch {
		case node == nil:
			node = errors.New("its Node is there")
		case apierrors.IsNotFound(node):
			node = nil
		}
		return errors.Join(node, i.gone("Machine", id)(ctx), i.gone(infrav1.KindMachine, id)(ctx))
	}
}
