//go:build kube

package stories_test

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pod returns the template of Pods of an app that ask for processors and little else.
func pod(app, cpu string, changes ...func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	grace := int64(1)
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}}}},
		},
	}
	for _, change := range changes {
		change(&template)
	}
	return template
}

// deploy makes a Deployment.
func (s *teller) deploy(replicas int32, template corev1.PodTemplateSpec) {
	s.t.Helper()
	app := template.Labels["app"]
	_, err := s.Client.AppsV1().Deployments(s.namespace).Create(s.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, Template: template,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// change changes a Deployment.
func (s *teller) change(app string, change func(*appsv1.DeploymentSpec)) {
	s.t.Helper()
	deployments := s.Client.AppsV1().Deployments(s.namespace)
	deployment, err := deployments.Get(s.t.Context(), app, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	change(&deployment.Spec)
	deployment.ResourceVersion = "" // whatever its controller has written of its status meanwhile
	if _, err := deployments.Update(s.t.Context(), deployment, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *teller) scale(app string, replicas int32) {
	s.t.Helper()
	s.change(app, func(spec *appsv1.DeploymentSpec) { spec.Replicas = &replicas })
}

// bare makes a Pod that nothing makes again.
func (s *teller) bare(name string, template corev1.PodTemplateSpec) {
	s.t.Helper()
	meta := template.ObjectMeta
	meta.Name = name
	if _, err := s.Client.CoreV1().Pods(s.namespace).Create(s.t.Context(), &corev1.Pod{ObjectMeta: meta, Spec: template.Spec}, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// job makes a Job that is done when so many Pods have ended well.
func (s *teller) job(name string, completions int32, template corev1.PodTemplateSpec) {
	s.t.Helper()
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := s.Client.BatchV1().Jobs(s.namespace).Create(s.t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{Completions: &completions, Parallelism: &completions, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// budget bounds how many Pods of an app may be away.
func (s *teller) budget(app string, away int) {
	s.t.Helper()
	unavailable := intstr.FromInt(away)
	_, err := s.Client.PolicyV1().PodDisruptionBudgets(s.namespace).Create(s.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &unavailable, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// pods returns the Pods of an app that are not on their way out.
func (s *teller) pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	list, err := s.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	var all []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// runs says what is missing until so many Pods of an app run, and all that are there do.
func (s *teller) runs(ctx context.Context, app string, want int) error {
	all, err := s.pods(ctx, app)
	if err != nil {
		return err
	}
	running := 0
	for _, p := range all {
		if p.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	if running != want || len(all) != want {
		return fmt.Errorf("%d Pods, %d run, want %d", len(all), running, want)
	}
	return nil
}

// nodesOf returns the Nodes on which Pods of an app run, each with how many.
func (s *teller) nodesOf(app string) map[string]int {
	s.t.Helper()
	all, err := s.pods(s.t.Context(), app)
	if err != nil {
		s.t.Fatal(err)
	}
	on := map[string]int{}
	for _, p := range all {
		on[p.Spec.NodeName]++
	}
	return on
}

// node returns a Node.
func (s *teller) node(name string) *corev1.Node {
	s.t.Helper()
	node, err := s.Client.CoreV1().Nodes().Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return node
}

// clear deletes all that was made in the namespace of the story. It may be called by a cleanup.
func (s *teller) clear() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Minute)
	defer cancel()
	everything, background := metav1.ListOptions{}, metav1.DeletePropagationBackground
	gone := metav1.DeleteOptions{PropagationPolicy: &background}
	for what, err := range map[string]error{
		"budgets":     s.Client.PolicyV1().PodDisruptionBudgets(s.namespace).DeleteCollection(ctx, gone, everything),
		"Deployments": s.Client.AppsV1().Deployments(s.namespace).DeleteCollection(ctx, gone, everything),
		"DaemonSets":  s.Client.AppsV1().DaemonSets(s.namespace).DeleteCollection(ctx, gone, everything),
		"Jobs":        s.Client.BatchV1().Jobs(s.namespace).DeleteCollection(ctx, gone, everything),
		"Pods":        s.Client.CoreV1().Pods(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, everything),
	} {
		if err != nil {
			s.t.Errorf("delete the %s of %s: %v", what, s.namespace, err)
		}
	}
}
