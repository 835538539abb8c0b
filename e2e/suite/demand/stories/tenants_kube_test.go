//go:build kube && demand

package stories_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/kube/nodes"
	"nstance.dev/e2e/env/shards"
)

// Two clusters share a shard that has room for two machines. What is more important in one takes
// a machine from what is less so in the other.
func TestTwoTenants(t *testing.T) {
	servers := shards.New(t, map[string]shards.Groups{"a": {}}, shards.Unbound,
		shards.Demand(shards.Tenant, nil, nil), shards.Demand(shards.OtherTenant, nil, nil),
		shards.DemandServer(map[string]any{
			"quota_pools":      map[string]any{"box": map[string]any{"limit": 2}},
			"priority_domains": [][]string{{shards.Tenant, shards.OtherTenant}},
		}))
	low := &world{demandcluster.Start(t, demandcluster.Options{Shards: servers}), servers, &demandcluster.Usage{}}
	high := &world{demandcluster.Start(t, demandcluster.Options{Shards: servers, Tenant: shards.OtherTenant}), servers, &demandcluster.Usage{}}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}
	if _, err := high.Client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Run("low", func(t *testing.T) {
		low.one(t, story{"low", func(below *teller) {
			below.deploy(2, pod("batch", "3"))
			below.expect("batch", 2)
			t.Run("high", func(t *testing.T) { high.one(t, story{"high", func(above *teller) { above.preempt(below) }}) })
			below.expect("batch", 2) // it has the machine again
		}})
	})
	low.rights(t, nil)
	high.rights(t, nil)
}

// preempt takes one of two machines from what is less important.
func (s *teller) preempt(below *teller) {
	s.deploy(1, pod("urgent", "3", func(p *corev1.PodTemplateSpec) { p.Spec.PriorityClassName = "urgent" }))
	s.expect("urgent", 1)
	kube.Await(s.t, "one of the others is pending", func(ctx context.Context) error {
		all, err := below.pods(ctx, "batch")
		pending := 0
		for _, p := range all {
			if p.Spec.NodeName == "" {
				pending++
			}
		}
		return errors.Join(err, want("pending", pending, 1))
	})
}

func want(what string, have, want int) error {
	if have != want {
		return fmt.Errorf("%d are %s, want %d", have, what, want)
	}
	return nil
}

// A cluster that has Nodes of its own gets demand mode: nothing is bought for what runs there.
// What is bought afterwards stays when demand mode is turned off.
func TestOnAndOff(t *testing.T) {
	servers := shards.New(t, map[string]shards.Groups{"a": {}}, shards.Unbound, shards.Demand(shards.Tenant, nil, nil))
	c := demandcluster.Start(t, demandcluster.Options{Shards: servers, Prepare: func(c *demandcluster.Cluster) {
		nodes.Boot(t, c.Client, nodes.Machine{Name: "foreign", ProviderID: "elsewhere://foreign", Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}})
		before := &teller{&world{c, servers, nil}, t, metav1.NamespaceDefault}
		kube.Await(t, "the namespace has its account", func(ctx context.Context) error {
			_, err := c.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
		before.deploy(3, pod("old", "1"))
		before.expect("old", 3)
	}})
	w := &world{c, servers, &demandcluster.Usage{}}
	old := &teller{w, t, metav1.NamespaceDefault}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		if machines, err := w.Machines(t.Context()); err != nil || len(machines) > 0 {
			t.Fatalf("for Pods that run elsewhere: machines %v, %v", machines, err)
		}
	}
	t.Run("new", func(t *testing.T) {
		w.one(t, story{"new", func(s *teller) {
			offAndOn(s)
			old.expect("old", 3)
			old.clear() // their requests are not to be left over
		}})
	})
}

// offAndOn buys something, turns demand mode off, and on again.
func offAndOn(s *teller) {
	s.deploy(2, pod("new", "1500m"))
	s.expect("new", 2)
	s.settle("new")
	before, err := s.Machines(s.t.Context())
	if err != nil || len(before) == 0 {
		s.t.Fatalf("machines %v, %v", before, err)
	}
	s.StopOperator()
	s.StartOperator("--demand=false")
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		if now, err := s.Machines(s.t.Context()); err != nil || fmt.Sprint(now) != fmt.Sprint(before) {
			s.t.Fatalf("machines were %v, and are %v: %v", before, now, err)
		}
		for name := range s.nodesOf("new") {
			if s.node(name).Spec.Unschedulable {
				s.t.Fatalf("Node %s is cordoned", name)
			}
		}
	}
	s.expect("new", 2)
	s.StopOperator()
	s.StartOperator()
}
