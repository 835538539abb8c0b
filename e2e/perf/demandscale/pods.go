package demandscale

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/perf/bench"
)

// app is the name of the Deployment whose Pods are measured.
const app = "measured"

// template is that of Pods that ask for processors.
func template(cpu string) corev1.PodTemplateSpec {
	var grace int64
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
			Name: "main", Image: "none",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}},
		}}},
	}
}

// deploy makes a Deployment of so many Pods.
func (w *world) deploy(pods int, cpu string) {
	w.t.Helper()
	replicas := int32(pods) //nolint:gosec // a few
	_, err := w.Client.AppsV1().Deployments(metav1.NamespaceDefault).Create(w.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, Template: template(cpu),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// undeploy deletes the Deployment and its Pods.
func (w *world) undeploy() {
	w.t.Helper()
	background := metav1.DeletePropagationBackground
	err := w.Client.AppsV1().Deployments(metav1.NamespaceDefault).Delete(w.t.Context(), app, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		w.t.Fatal(err)
	}
}

// await waits until something has been seen so often.
func (w *world) await(s *seen, what string, n int) {
	w.t.Helper()
	kube.Await(w.t, fmt.Sprintf("%d %s", n, what), func(context.Context) error {
		if have := s.count(what); have < n {
			return fmt.Errorf("%d", have)
		}
		return nil
	})
}

// promise is the row of a number that is not to exceed a goal in its own unit.
func promise(measure, name, unit string, ours, goal float64) bench.Row {
	return bench.Row{Measure: measure, Name: name, Unit: unit, Ours: ours, Floor: goal, Against: "the promise", Goal: bench.AtMost(1)}
}

// since is how many seconds after another something was.
func since(began, at time.Time) float64 { return at.Sub(began).Seconds() }
