package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// RealNode is a label of the Nodes that a cluster had before the tests, and that run
// containers. Those of the tests do not.
const RealNode = "test.nstance.dev/real"

// reserved keeps the Pods of tests, whose images do not exist, off the Nodes that would run
// them. The operator and Cluster API put up with it, as with the Nodes of control planes.
var reserved = corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}

// clusterAPIImage is that of Cluster API, as `make e2e-kind` makes it. Who gives a cluster sees
// to it that its Nodes have it, and the operator's as well.
const clusterAPIImage = "nstance.test/capi-core:test"

// take uses the cluster of KUBECONFIG.
func (c *Cluster) take(ctx context.Context, config Config) error {
	var err error
	if c.admin, err = adminOf(os.Getenv("KUBECONFIG")); err != nil {
		return err
	}
	c.auditLog = os.Getenv(envAudit)
	c.server = c.Admin()
	return c.furnish(ctx, config)
}

// furnish readies a cluster that runs Pods: it marks its Nodes, and installs what config asks
// for. The marks are taken away when the cluster is closed.
func (c *Cluster) furnish(ctx context.Context, config Config) error {
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if err := c.reserve(ctx, client, node.Name); err != nil {
			return fmt.Errorf("reserve Node %s: %w", node.Name, err)
		}
	}
	if !config.ClusterAPI {
		return nil
	}
	c.parts[ClusterAPI] = &part{ // without what would start and stop it: the cluster does
		component: ClusterAPI,
		launch:    func() (runner, error) { return nil, fmt.Errorf("%w that is a program", ErrUnknownComponent) },
		tail: func(lines int) string {
			ctx, cancel := context.WithTimeout(context.Background(), Patience)
			defer cancel()
			return c.PodLog(ctx, clusterAPINamespace, "", int64(lines))
		},
	}
	if err := c.deployClusterAPI(ctx); err != nil {
		return fmt.Errorf("install Cluster API: %w", err)
	}
	if err := c.AwaitDeployment(ctx, clusterAPINamespace, clusterAPIDeployment); err != nil {
		return err
	}
	return c.awaitWebhooks(ctx)
}

// awaitWebhooks waits until the webhooks of Cluster API answer: its Pod is ready some time
// before the way to its Service is laid. What they answer does not matter.
func (c *Cluster) awaitWebhooks(ctx context.Context) error {
	client, err := dynamic.NewForConfig(c.Admin())
	if err != nil {
		return err
	}
	clusters := client.Resource(schema.GroupVersionResource{Group: clusterv1.GroupVersion.Group, Version: clusterv1.GroupVersion.Version, Resource: "clusters"})
	probe := &unstructured.Unstructured{Object: object{
		"apiVersion": clusterv1.GroupVersion.String(), "kind": "Cluster", "metadata": object{"name": "probe"},
	}}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	err = await(ctx, func(ctx context.Context) error {
		_, err := clusters.Namespace(metav1.NamespaceDefault).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the webhooks of Cluster API: %w", err)
	}
	return nil
}

// reserve marks a Node, and has it as it was when the cluster is closed. Others write to a Node that has just
// come, too.
func (c *Cluster) reserve(ctx context.Context, client kubernetes.Interface, name string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return c.mark(ctx, client, name) })
}

func (c *Cluster) mark(ctx context.Context, client kubernetes.Interface, name string) error {
	before, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	node := before.DeepCopy()
	if node.Labels[RealNode] != "" {
		return nil
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[RealNode] = "true"
	has := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&reserved) })
	if !has {
		node.Spec.Taints = append(node.Spec.Taints, reserved)
	}
	if _, err := client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if Where() == Given {
		c.ends = append(c.ends, func() { release(client, name, has) })
	}
	return nil
}

// release takes from a Node what reserve gave to it.
func release(client kubernetes.Interface, name string, keepTaint bool) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	err := await(ctx, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		delete(node.Labels, RealNode)
		if !keepTaint {
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&reserved) })
		}
		_, err = client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "Node %s still has the label %s: %v\n", name, RealNode, err)
	}
}

// AwaitDeployment waits until all Pods of a Deployment are ready, and none of an earlier
// version is left.
func (c *Cluster) AwaitDeployment(ctx context.Context, namespace, name string) error {
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	err = await(ctx, func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		want := *d.Spec.Replicas
		if s := d.Status; s.ObservedGeneration < d.Generation || s.ReadyReplicas != want || s.UpdatedReplicas != want || s.Replicas != want {
			return fmt.Errorf("%d of %d Pods are ready", s.ReadyReplicas, want)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for Deployment %s: %w", name, err)
	}
	return nil
}

// What a release of Cluster API calls its Deployment, its Service and the Secret of that.
const (
	clusterAPIDeployment = "capi-controller-manager"
	clusterAPIService    = "capi-webhook-service." + clusterAPINamespace + ".svc"
	clusterAPISecret     = "capi-webhook-service-cert"
)

// deployClusterAPI installs a release as it is, but for the certificate of its webhooks: it
// leaves that to cert-manager, which is not here.
func (c *Cluster) deployClusterAPI(ctx context.Context) error {
	release, err := clusterAPIRelease()
	if err != nil {
		return err
	}
	authority, err := newAuthority()
	if err != nil {
		return err
	}
	serving, err := authority.server(clusterAPIService)
	if err != nil {
		return err
	}
	secret := &unstructured.Unstructured{Object: object{
		"apiVersion": "v1", "kind": "Secret", "type": string(corev1.SecretTypeTLS),
		"metadata":   object{"name": clusterAPISecret, "namespace": clusterAPINamespace},
		"stringData": object{corev1.TLSCertKey: string(serving.cert), corev1.TLSPrivateKeyKey: string(serving.key)},
	}}
	var objects []*unstructured.Unstructured
	for _, object := range release {
		switch object.GetKind() {
		case "Certificate", "Issuer":
			continue
		case "Deployment":
			if object, err = inHouse(object); err != nil {
				return err
			}
			objects = append(objects, secret)
		}
		if err := PointWebhooks(object.Object, "", authority.pem); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		objects = append(objects, object)
	}
	return c.Apply(ctx, objects...)
}

// inHouse has the Deployment of a release run our image of its program, on a Node that runs
// containers, with what the release gives to variables that nobody has set.
func inHouse(deployment *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(deployment.Object, &d); err != nil {
		return nil, err
	}
	pod := &d.Spec.Template.Spec
	if len(pod.Containers) == 0 {
		return nil, errors.New("the release has a Deployment without containers")
	}
	container := &pod.Containers[0]
	container.Image, container.ImagePullPolicy = clusterAPIImage, corev1.PullIfNotPresent
	container.Command = nil
	for i, arg := range container.Args {
		container.Args[i] = variable.ReplaceAllString(arg, "$1")
	}
	// It is alone, and an API server that is away for a while is no reason to end.
	container.Args = append(container.Args, "--leader-elect=false")
	pod.NodeSelector = maps.Clone(pod.NodeSelector)
	if pod.NodeSelector == nil {
		pod.NodeSelector = map[string]string{}
	}
	pod.NodeSelector[RealNode] = "true"
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&d)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(fields, "status")
	return &unstructured.Unstructured{Object: fields}, nil
}

// PodLog returns the last lines that the containers of a Deployment's Pods have printed, by
// the labels of the Pods.
func (c *Cluster) PodLog(ctx context.Context, namespace, selector string, lines int64) string {
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return err.Error()
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err.Error()
	}
	var all strings.Builder
	for _, pod := range pods.Items {
		text, err := client.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&all, "%s:\n%s", pod.Name, text)
	}
	return all.String()
}
