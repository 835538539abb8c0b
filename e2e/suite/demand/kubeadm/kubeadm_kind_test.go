//go:build kind

package kubeadm_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/nspawn"
	"nstance.dev/e2e/env/shards"
)

func TestMain(m *testing.M) {
	if kube.Where() != kube.Kind {
		fmt.Fprintln(os.Stderr, "this takes a cluster of kind: make e2e-kind")
		os.Exit(1) //nolint:forbidigo // the process of tests has no other way to say so
	}
	goleak.VerifyTestMain(m)
}

// repository is the root of it.
var repository = filepath.Join("..", "..", "..", "..")

// A Pod that is pending has a machine bought, on which the template runs kubeadm: its Node is ready, and the Pod runs there.
// When the Pod has gone the machine leaves the cluster, by the script that deploy/userdata installs, and joins it once
// more for the next Pod. At the end nothing is left.
func TestTheTemplateOfKubeadmMakesANode(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	w.scale(1)
	first := w.runs()
	t.Logf("measured: the Pod ran %s after it was pending, on a machine that booted for it", time.Since(began).Round(time.Second))
	w.isOurs(first)

	w.scale(0)
	kube.Await(t, "the machine has left, and is there", func(ctx context.Context) error { return w.left(ctx, first.Name) })
	for _, text := range w.logs() {
		if strings.Contains(text, "containerd.service: Main process exited") {
			t.Error("the container runtime has ended when the machine left: the next join may find none")
		}
	}
	began = time.Now()
	w.scale(1)
	again := w.runs()
	t.Logf("measured: the Pod ran %s after it was pending, on the machine that had left", time.Since(began).Round(time.Second))
	if again.Name != first.Name || again.UID == first.UID {
		t.Errorf("Node %s (%s), want another one of the machine %s (%s)", again.Name, again.UID, first.Name, first.UID)
	}
	w.isOurs(again)

	w.scale(0)
	kube.Await(t, "nothing is left over", w.nothing)
	var usage demandcluster.Usage
	if err := usage.Add(w.Cluster); err != nil {
		t.Fatal(err)
	}
	for _, refused := range usage.Refused {
		t.Errorf("the operator may not %s", refused)
	}
}

// world is a cluster of kind that gets its Nodes from a shard whose machines boot.
type world struct {
	*demandcluster.Cluster
	t       *testing.T
	servers *shards.Cluster
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ground := nspawn.New(t, kube.NodeImage(), kube.KindNetwork, netip.MustParsePrefix(shards.Addresses))
	userData, err := os.ReadFile(filepath.Join(repository, "deploy", "userdata", "shell.sh"))
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]any{
		"joins_clusters": "true",
		// It reads how the kernel was built, and takes none of this box.
		"kubeadm_ignore_preflight": "SystemVerification",
	}
	w := &world{t: t}
	w.servers = shards.New(t, map[string]shards.Groups{"a": {}}, shards.Unbound,
		shards.UserData(ground.UserData(string(userData))),
		shards.Demand(shards.Tenant, map[string]any{"vars": vars}, map[string]any{"release_hold": "45s"}))
	t.Cleanup(w.sayWhy)
	demand := map[string]any{"bootstrapTemplate": "kubeadm"}
	w.Cluster = demandcluster.Start(t, demandcluster.Options{
		Shards: w.servers, Values: map[string]any{"demand": demand},
		Prepare: func(c *demandcluster.Cluster) { // what is known now
			name, address, err := c.ControlPlane(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ground.Know(name, address)
			demand["bootstrapFiles"] = map[string]any{"endpoint": name + ":6443", "ca-hash": hash(t, c)}
		},
	})
	w.deploy()
	return w
}

// hash is what the command of the docs prints on a control plane.
func hash(t *testing.T, c *demandcluster.Cluster) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repository, "docs", "demand", "bootstrap.md"))
	if err != nil {
		t.Fatal(err)
	}
	const begins = "\nopenssl x509 "
	_, command, found := strings.Cut(string(page), begins)
	if !found {
		t.Fatal("the page has no command for ca-hash")
	}
	command, _, _ = strings.Cut(command, "\n")
	out, err := c.OnControlPlane(t.Context(), strings.TrimSpace(begins)+" "+command)
	if err != nil || !strings.HasPrefix(out, "sha256:") {
		t.Fatalf("ca-hash %q: %v", out, err)
	}
	return out
}

// app is the one Deployment.
const app = "web"

// deploy makes the Deployment, with no Pods yet, of the image that each Node has.
func (w *world) deploy() {
	w.t.Helper()
	image, err := w.OnControlPlane(w.t.Context(), "ctr --namespace k8s.io images list --quiet | grep /pause: | head -1")
	if err != nil || image == "" {
		w.t.Fatalf("image for Pods: %q, %v", image, err)
	}
	none, labels := int32(0), map[string]string{"app": app}
	pod := corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64),
		Containers: []corev1.Container{{
			Name: "pause", Image: image, ImagePullPolicy: corev1.PullNever,
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("900m"), corev1.ResourceMemory: resource.MustParse("64Mi")}},
		}},
	}
	_, err = w.Client.AppsV1().Deployments(metav1.NamespaceDefault).Create(w.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) scale(to int) {
	w.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, to)
	if _, err := w.Client.AppsV1().Deployments(metav1.NamespaceDefault).Patch(w.t.Context(), app, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// runs waits until the container of the Pod runs, and returns the Node, which is ready, the only one that was bought, and
// known to the operator as the shard's machine: it sets the provider id of a Node that has the machine's label and address.
func (w *world) runs() *corev1.Node {
	w.t.Helper()
	var node *corev1.Node
	kube.AwaitFor(w.t, 5*time.Minute, "the Pod runs", func(ctx context.Context) error {
		pods, err := w.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.DeletionTimestamp != nil || !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				return fmt.Errorf("Pod %s on %q: %+v", p.Name, p.Spec.NodeName, p.Status)
			}
			if node, err = w.Client.CoreV1().Nodes().Get(ctx, p.Spec.NodeName, metav1.GetOptions{}); err != nil {
				return err
			}
			if !strings.HasSuffix(node.Spec.ProviderID, "/"+node.Name) || len(node.Spec.Taints) > 0 {
				return fmt.Errorf("the Node has provider id %q, which the operator sets, and taints %v", node.Spec.ProviderID, node.Spec.Taints)
			}
			return w.upcoming(ctx, node.Name)
		}
		return errors.New("no Pod")
	})
	if all, err := w.nodes(w.t.Context()); err != nil || !slices.Equal(all, []string{node.Name}) {
		w.t.Errorf("Nodes %v, want %s: %v", all, node.Name, err)
	}
	return node
}

// upcoming says why the one UpcomingNode is not ready with a Node.
func (w *world) upcoming(ctx context.Context, node string) error {
	list, err := w.Custom.Resource(demandcluster.UpcomingNodes).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, un := range list.Items {
		phase, _, _ := unstructured.NestedString(un.Object, "status", "phase")
		name, _, _ := unstructured.NestedString(un.Object, "status", "nodeRef", "name")
		if phase != "Ready" || name != node {
			return fmt.Errorf("UpcomingNode %s is %s, Node %q", un.GetName(), phase, name)
		}
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("%d UpcomingNodes", len(list.Items))
	}
	return nil
}

// nodes are the names of the Nodes that were bought.
func (w *world) nodes(ctx context.Context) (names []string, err error) {
	list, err := w.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "nstance.dev/instance-id"})
	if err != nil {
		return nil, err
	}
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	return names, nil
}

// nothing says what is left of what was bought and of what spoke of it. What the cluster itself runs in Pods keeps its
// requests, and is on a Node of nobody's.
func (w *world) nothing(ctx context.Context) error {
	machines, err := w.Machines(ctx)
	if err != nil || len(machines) > 0 {
		return fmt.Errorf("machines %v: %w", machines, err)
	}
	if nodes, err := w.nodes(ctx); err != nil || len(nodes) > 0 {
		return fmt.Errorf("Nodes %v: %w", nodes, err)
	}
	for _, kind := range []schema.GroupVersionResource{demandcluster.UpcomingNodes, demandcluster.CapacityRequests} {
		list, err := w.Custom.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, object := range list.Items {
			if object.GetNamespace() != metav1.NamespaceSystem {
				return fmt.Errorf("%s %s is left", kind.Resource, object.GetName())
			}
		}
	}
	return nil
}

// left says why a machine is not one that has left the cluster, and is there.
func (w *world) left(ctx context.Context, id string) error {
	if nodes, err := w.nodes(ctx); err != nil || len(nodes) > 0 {
		return fmt.Errorf("Nodes %v: %w", nodes, err)
	}
	list, err := w.Custom.Resource(demandcluster.UpcomingNodes).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		return fmt.Errorf("%d UpcomingNodes: %w", len(list.Items), err)
	}
	instances, complete, err := w.servers.Instances(ctx, "a")
	if err != nil || !complete || len(instances) != 1 || instances[0].GetInstanceId() != id {
		return fmt.Errorf("the shard knows its machines: %t, they are %v: %w", complete, instances, err)
	}
	return nil
}

// isOurs checks what a Node says of itself: that a kubelet of kubeadm's speaks for it, with the labels that the shard gives.
func (w *world) isOurs(n *corev1.Node) {
	w.t.Helper()
	if n.Labels["nstance.dev/instance-id"] != n.Name || n.Labels[corev1.LabelTopologyZone] != "a" || n.Labels["nstance.dev/shard"] != "a" {
		w.t.Errorf("Node %s has labels %v", n.Name, n.Labels)
	}
	if want, err := w.OnControlPlane(w.t.Context(), "kubeadm version --output short"); err != nil || n.Status.NodeInfo.KubeletVersion != want {
		w.t.Errorf("kubelet %s, want %s: %v", n.Status.NodeInfo.KubeletVersion, want, err)
	}
}

// logs are what the machines that exist have said, each with its journal, by their files.
func (w *world) logs() map[string]string {
	files, _ := filepath.Glob(filepath.Join(w.servers.MachineDirs(), "log"))
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			w.t.Error(err)
		}
		all[file] = string(text)
	}
	return all
}

// sayWhy prints the end of what machines have said, if the test has failed.
func (w *world) sayWhy() {
	if !w.t.Failed() {
		return
	}
	for file, text := range w.logs() {
		lines := strings.Split(text, "\n")
		w.t.Logf("%s:\n%s", file, strings.Join(lines[max(0, len(lines)-150):], "\n"))
	}
	w.t.Logf("server:\n%s", w.servers.Log("a"))
}
