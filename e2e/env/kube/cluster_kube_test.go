//go:build kube

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/kube/nodes"
)

// client returns a client for a configuration.
func client(t *testing.T, config *rest.Config, err error) kubernetes.Interface {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// boot runs the Node of a machine with a kubelet's credentials.
func boot(t *testing.T, c *kube.Cluster, name string) (off func()) {
	t.Helper()
	config, err := c.Node(name)
	_, off = nodes.Boot(t, client(t, config, err), nodes.Machine{Name: name, Heartbeat: time.Second})
	return off
}

// TestCluster_runsWork is a cluster's life: work is placed, protected, moved and missed.
func TestCluster_runsWork(t *testing.T) {
	kube.Needs(t, kube.BeAlone)
	t.Parallel()
	c := kube.Start(t, kube.Config{ControllerManager: true, Scheduler: true, NodeMonitorGrace: 10 * time.Second})
	admin := client(t, c.Admin(), nil)
	boot(t, c, "n1")
	off := boot(t, c, "n2")
	if _, err := admin.AppsV1().Deployments("default").Create(t.Context(), work(2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	available := func(ctx context.Context) error {
		d, err := admin.AppsV1().Deployments("default").Get(ctx, "work", metav1.GetOptions{})
		if err == nil && (d.Status.AvailableReplicas != 2 || d.Status.Replicas != 2) {
			return fmt.Errorf("%d Pods of %d are available", d.Status.AvailableReplicas, d.Status.Replicas)
		}
		return err
	}
	kube.Await(t, "two Pods run", available)

	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "work"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		},
	}
	budgets := admin.PolicyV1().PodDisruptionBudgets("default")
	budget, err := budgets.Create(t.Context(), budget, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := admin.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods.Items[0].Name, Namespace: "default"}}
	evict := func(ctx context.Context) error { return admin.PolicyV1().Evictions("default").Evict(ctx, eviction) }
	if err := evict(t.Context()); !apierrors.IsTooManyRequests(err) {
		t.Errorf("error %v, want that the budget refuses the eviction", err)
	}
	// A merge patch, for the controller writes the status in the meantime.
	if _, err := budgets.Patch(t.Context(), budget.Name, "application/merge-patch+json",
		[]byte(`{"spec":{"minAvailable":1}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "the budget has room", evict)
	kube.Await(t, "another Pod runs instead", available)

	off()
	kube.Await(t, "the silent Node is not ready", func(ctx context.Context) error {
		node, err := admin.CoreV1().Nodes().Get(ctx, "n2", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown {
				return nil
			}
		}
		return errors.New("it still is")
	})
}

var labels = map[string]string{"app": "work"}

// work is a Deployment of Pods that do nothing.
func work(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "work"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "work", Image: "none"}}},
			},
		},
	}
}

func TestCluster_componentsComeAndGo(t *testing.T) {
	kube.Needs(t, kube.BeAlone)
	t.Parallel()
	c := kube.Start(t, kube.Config{ControllerManager: true})
	admin := client(t, c.Admin(), nil)
	namespaces := admin.CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), namespace("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(kube.APIServer); err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Get(t.Context(), "kept", metav1.GetOptions{}); err == nil {
		t.Error("an API server answers that has been killed")
	}
	if err := c.Start(t.Context(), kube.APIServer); err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("after the API server has come back: %v", err)
	}

	if err := c.Stop(kube.ControllerManager); err != nil {
		t.Fatal(err)
	}
	if err := namespaces.Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if ns, err := namespaces.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil || ns.DeletionTimestamp == nil {
		t.Errorf("error %v, want a namespace that waits for its controller", err)
	}
	if err := c.Start(t.Context(), kube.ControllerManager); err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "the namespace is gone", func(ctx context.Context) error {
		_, err := namespaces.Get(ctx, "kept", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestCluster_auditSaysWhoAskedForWhat(t *testing.T) {
	kube.Needs(t, kube.BeAlone)
	t.Parallel()
	c := kube.Start(t, kube.Config{})
	alice, err := c.User("alice", "people")
	if _, err := client(t, alice, err).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("error %v, want that alice may not", err)
	}
	kube.Await(t, "it is in the audit log", func(context.Context) error {
		requests, err := c.Audit()
		if err != nil {
			return err
		}
		for _, r := range requests {
			if r.User == "alice" && r.Verb == "list" && r.Resource == "secrets" && r.Code == 403 {
				return nil
			}
		}
		return fmt.Errorf("not among %d requests", len(requests))
	})
}
