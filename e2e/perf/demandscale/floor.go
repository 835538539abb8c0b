package demandscale

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/kube"
)

// atOnce is how many writes of the bare client are under way at a time.
const atOnce = 16

// unlabelled keeps what the bare client makes apart from what is measured.
const bareNamespace = "bare"

// floor is how long a bare client takes for the objects of an arrival: it makes the Pods and binds
// them, and makes the Nodes, CapacityRequests and UpcomingNodes. The operator is away meanwhile.
func (w *world) floor(a arrival) time.Duration {
	w.t.Helper()
	w.KillOperator()
	defer w.StartOperator()
	ctx := w.t.Context()
	w.makeBareNamespace(ctx)
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range a.machines {
		g.Go(func() error { return w.bareNode(ctx, fmt.Sprintf("bare-%d", i)) })
	}
	for i := range a.pods {
		g.Go(func() error {
			return w.barePod(ctx, fmt.Sprintf("bare-%d", i), fmt.Sprintf("bare-%d", i%a.machines), a.cpu)
		})
	}
	if err := g.Wait(); err != nil {
		w.t.Fatal(err)
	}
	took := time.Since(began)
	w.clearBare(a)
	return took
}

func (w *world) makeBareNamespace(ctx context.Context) {
	w.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: bareNamespace}}
	if _, err := w.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	kube.Await(w.t, "the namespace has its account", func(ctx context.Context) error {
		_, err := w.Client.CoreV1().ServiceAccounts(bareNamespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// bareNode makes a Node and its UpcomingNode. No Pod is scheduled there by others: it is cordoned.
func (w *world) bareNode(ctx context.Context, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: true}}
	if _, err := w.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	return w.bareObject(ctx, demandcluster.UpcomingNodes, "UpcomingNode", "", name, map[string]any{"machineID": name, "shard": shard})
}

// barePod makes a Pod with its binding, and its CapacityRequest.
func (w *world) barePod(ctx context.Context, name, node, cpu string) error {
	pods, t := w.Client.CoreV1().Pods(bareNamespace), template(cpu)
	// A scheduler of that name does not exist: the binding is made here.
	t.Spec.SchedulerName = "none"
	if _, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: t.Labels}, Spec: t.Spec}, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := pods.Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return w.bareObject(ctx, demandcluster.CapacityRequests, "CapacityRequest", bareNamespace, name, map[string]any{
		"requirements": []any{map[string]any{"key": corev1.LabelInstanceTypeStable, "operator": "Exists"}},
		"resources":    map[string]any{"requests": map[string]any{"cpu": cpu}},
	})
}

func (w *world) bareObject(ctx context.Context, of schema.GroupVersionResource, kind, namespace, name string, spec map[string]any) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": of.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
	_, err := w.Custom.Resource(of).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{})
	return err
}

// clearBare deletes what the bare client has made.
func (w *world) clearBare(a arrival) {
	w.t.Helper()
	ctx, all, now := w.t.Context(), metav1.ListOptions{}, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := w.Client.CoreV1().Pods(bareNamespace).DeleteCollection(ctx, now, all); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Custom.Resource(demandcluster.CapacityRequests).Namespace(bareNamespace).DeleteCollection(ctx, now, all); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Custom.Resource(demandcluster.UpcomingNodes).DeleteCollection(ctx, now, all); err != nil {
		w.t.Fatal(err)
	}
	for i := range a.machines {
		if err := w.Client.CoreV1().Nodes().Delete(ctx, fmt.Sprintf("bare-%d", i), now); err != nil {
			w.t.Fatal(err)
		}
	}
	kube.Await(w.t, "nothing is left of what the bare client made", w.Left)
}
