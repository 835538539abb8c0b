//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/kube"
)

// operator is that of an installation, whatever runs it.
type operator interface {
	// Start starts it, which has ended or was not there before, and waits for nothing.
	Start() error

	// Kill ends it, and returns when it has ended.
	Kill(t testing.TB)

	// Ended reports whether nobody runs it.
	Ended() bool

	// Lives counts how often it was started. It needs no API server where tests can stop that.
	Lives(ctx context.Context) (int, error)

	// Log returns the last lines that it has printed.
	Log(lines int) string

	// Metrics returns what it counts.
	Metrics(ctx context.Context) (string, error)
}

// program is an operator that runs beside the cluster, as its Pod would.
type program struct {
	*kube.Process // nil before the first start

	binary, log string
	args, env   []string
	metrics     string // host:port
	lives       int
}

func (p *program) Kill(testing.TB) { p.Process.Kill() }

func (p *program) Start() (err error) {
	p.Process, err = kube.Run(p.binary, p.args, p.env, p.log)
	p.lives++
	return err
}

// Lives counts a process that has ended as one life more: nobody else starts it again.
func (p *program) Lives(context.Context) (int, error) {
	if p.Ended() {
		return p.lives + 1, nil
	}
	return p.lives, nil
}

func (p *program) Metrics(ctx context.Context) (string, error) { return box.Metrics(ctx, p.metrics) }

// deployed is an operator that the cluster runs, as the Deployment of its chart says.
type deployed struct {
	cluster         *kube.Cluster
	client          kubernetes.Interface
	namespace, name string // of the Deployment
}

// pods selects those of the Deployment.
const pods = "app.kubernetes.io/name=nstance-operator"

func (d *deployed) Start() error { return d.scale(1) }

func (d *deployed) scale(replicas int) error {
	_, err := d.client.AppsV1().Deployments(d.namespace).Patch(whole.ctx, d.name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
	return err
}

// Kill has the kubelet end the Pods, which have a second to do so, and waits until it has. A
// Deployment that was deleted has left none to start others.
func (d *deployed) Kill(t testing.TB) {
	t.Helper()
	if err := d.scale(0); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	second := int64(1)
	err := d.client.CoreV1().Pods(d.namespace).DeleteCollection(whole.ctx,
		metav1.DeleteOptions{GracePeriodSeconds: &second}, metav1.ListOptions{LabelSelector: pods})
	if err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "no Pod of the operator runs", func(ctx context.Context) error {
		left, err := d.pods(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d do", len(left))
		}
		return err
	})
}

func (d *deployed) pods(ctx context.Context) ([]corev1.Pod, error) {
	all, err := d.client.CoreV1().Pods(d.namespace).List(ctx, metav1.ListOptions{LabelSelector: pods})
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}

// Ended is not true of an operator whose Deployment is gone: nobody can start it again.
func (d *deployed) Ended() bool {
	deployment, err := d.client.AppsV1().Deployments(d.namespace).Get(whole.ctx, d.name, metav1.GetOptions{})
	return err == nil && *deployment.Spec.Replicas == 0
}

func (d *deployed) Lives(ctx context.Context) (int, error) {
	return d.cluster.ContainerStarts(ctx, d.namespace)
}

func (d *deployed) Log(lines int) string {
	return d.cluster.PodLog(whole.ctx, d.namespace, pods, int64(lines))
}

func (d *deployed) Metrics(ctx context.Context) (string, error) {
	all, err := d.pods(ctx)
	if err != nil {
		return "", err
	}
	for _, pod := range all {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		text, err := d.client.CoreV1().Pods(d.namespace).ProxyGet("http", pod.Name, "8080", "metrics", nil).DoRaw(ctx)
		return string(text), err
	}
	return "", errors.New("no Pod of the operator runs")
}

// metrics returns what the operator counts, once it answers.
func (i *installation) metrics(t *testing.T) string {
	t.Helper()
	text, err := i.operator.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// flagOf returns the value of a flag of an operator's arguments, or "".
func flagOf(args []string, name string) string {
	for _, arg := range args {
		if value, is := strings.CutPrefix(arg, name+"="); is {
			return value
		}
	}
	return ""
}
