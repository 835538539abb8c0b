//go:build kube && operator

package operator_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/env/kube"
)

// many is how many Nodes O10 drains at once.
var many = flag.Int("drains", 50, "Nodes that O10 drains at once")

// busy is a Deployment of one Pod for each Node of a pool. NAME is the pool and the namespace,
// SIZE how many there are.
const busy = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: busy, namespace: NAME}
spec:
  replicas: SIZE
  selector: {matchLabels: {app: busy}}
  template:
    metadata: {labels: {app: busy}}
    spec:
      nodeSelector: {nstance.dev/group: NAME}
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: busy}}}
      containers: [{name: work, image: none}]
`

// O10: many Nodes that are to go at the same time, for their pool does, are all emptied, by
// evictions alone.
func TestO10_ManyAtOnce(t *testing.T) {
	s := startLong(t, kube.ReadAudit)
	s.pool(t, "many", "shards: [a, b, c], rebalance: Never", 0)
	s.grow(t, "many", *many)
	s.namespaced(t, "many", strings.ReplaceAll(busy, "SIZE", fmt.Sprint(*many)))
	kube.Await(t, "a Pod runs on each", func(ctx context.Context) error { return s.eachHasOne(ctx, "many", *many) })
	began := time.Now()
	s.remove(t, "many")
	requests, err := s.Audit()
	if err != nil {
		t.Fatal(err)
	}
	evicted := map[string]bool{}
	for _, r := range requests {
		if r.User != s.user() || r.Resource != "pods" || r.Namespace != "many" || !r.Time.After(began) {
			continue
		}
		if r.Verb == "delete" {
			t.Errorf("Pod %s was deleted", r.Name)
		}
		if r.Subresource == "eviction" && r.Code == 201 {
			evicted[r.Name] = true
		}
	}
	if len(evicted) < *many {
		t.Errorf("%d Pods were evicted, and there were %d", len(evicted), *many)
	}
}

// grow makes a pool larger in steps for which a busy box has the time.
func (s *system) grow(t *testing.T, pool string, size int) {
	t.Helper()
	for n := 0; n < size; {
		n = min(n+25, size)
		s.scale(t, pool, n)
		kube.Await(t, fmt.Sprintf("pool %s has %d Machines", pool, n), s.settled(pool, n))
	}
}

// eachHasOne returns nil once so many Pods of a namespace run, on as many Nodes.
func (s *system) eachHasOne(ctx context.Context, namespace string, size int) error {
	running, err := s.runningPods(ctx, namespace)
	if err != nil {
		return err
	}
	on := map[string]bool{}
	for _, node := range running {
		on[node] = true
	}
	if len(running) != size || len(on) != size {
		return fmt.Errorf("%d Pods run on %d Nodes", len(running), len(on))
	}
	return nil
}

// O10: the operator's own Pod leaves when all others have, and the instance is given free.
func TestO10_TheOperatorsOwnPodIsTheLast(t *testing.T) {
	s := startSystem(t, kube.ReadAudit)
	s.pool(t, "home", "shards: [a], rebalance: Never", 2)
	s.namespaced(t, "home", strings.ReplaceAll(busy, "SIZE", "2"))
	kube.Await(t, "a Pod runs on each", func(ctx context.Context) error { return s.eachHasOne(ctx, "home", 2) })
	node := s.names(t, "home")[0]
	self := s.livesOn(t, node)
	s.crash(t) // the next one finds out who it is
	s.start(t)
	began := time.Now()
	s.shards.DeleteInstance("a", node, false)
	kube.Await(t, "the instance is gone", s.gone("Machine", node))
	requests, err := s.Audit()
	if err != nil {
		t.Fatal(err)
	}
	var evicted []string
	for _, r := range requests {
		if r.User == s.user() && r.Subresource == "eviction" && r.Code == 201 && r.Time.After(began) {
			evicted = append(evicted, r.Name)
		}
	}
	if len(evicted) != 2 || evicted[1] != self {
		t.Errorf("evicted were %v, and last should be %s", evicted, self)
	}
}

// livesOn makes a Pod that the operator takes for its own.
func (s *system) livesOn(t *testing.T, node string) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "the operator has a Pod", func(ctx context.Context) error {
		_, err := s.client.CoreV1().Pods(s.namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				NodeName: node, Containers: []corev1.Container{{Name: "manager", Image: "none"}},
				TerminationGracePeriodSeconds: new(int64), // nobody waits for it when its machine is gone
			},
		}, metav1.CreateOptions{})
		return err
	})
	return name
}
