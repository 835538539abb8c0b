package translate

import (
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
)

func list(pairs ...string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		all[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return all
}

func container(name string, pairs ...string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list(pairs...)}}
}

func sidecar(name string, pairs ...string) corev1.Container {
	c := container(name, pairs...)
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func TestRequests(t *testing.T) {
	both := func(name, cpu string) corev1.Container { return container(name, "cpu", cpu, "memory", cpu+"Gi") }
	for name, tt := range map[string]struct {
		spec   corev1.PodSpec
		status corev1.PodStatus
		want   corev1.ResourceList
	}{
		"an init container is the peak": {
			corev1.PodSpec{Containers: []corev1.Container{both("a", "1"), both("b", "2")}, InitContainers: []corev1.Container{both("i", "5")}},
			corev1.PodStatus{}, list("cpu", "5", "memory", "5Gi"),
		},
		"an init container after a sidecar runs beside it": {
			corev1.PodSpec{
				Containers:     []corev1.Container{container("a", "cpu", "1")},
				InitContainers: []corev1.Container{sidecar("s", "cpu", "500m"), container("i", "cpu", "2")},
			},
			corev1.PodStatus{}, list("cpu", "2500m"),
		},
		"an init container before a sidecar runs alone": {
			corev1.PodSpec{
				Containers:     []corev1.Container{container("a", "cpu", "1")},
				InitContainers: []corev1.Container{container("i", "cpu", "2"), sidecar("s", "cpu", "500m")},
			},
			corev1.PodStatus{}, list("cpu", "2"),
		},
		"an init container between two sidecars": {
			corev1.PodSpec{
				Containers:     []corev1.Container{container("a", "cpu", "1")},
				InitContainers: []corev1.Container{sidecar("s", "cpu", "1"), container("i", "cpu", "3"), sidecar("u", "cpu", "1")},
			},
			corev1.PodStatus{}, list("cpu", "4"),
		},
		"overhead comes on top": {
			corev1.PodSpec{
				Containers: []corev1.Container{container("a", "cpu", "1"), container("b", "cpu", "2")}, InitContainers: []corev1.Container{container("i", "cpu", "5")},
				Overhead: list("cpu", "250m"),
			},
			corev1.PodStatus{}, list("cpu", "5250m"),
		},
		"no requests": {corev1.PodSpec{Containers: []corev1.Container{container("a"), container("b", "cpu", "0")}}, corev1.PodStatus{}, list()},
		"a request of the Pod itself": {
			corev1.PodSpec{
				Containers: []corev1.Container{container("a", "cpu", "1", "memory", "1Gi"), container("b", "cpu", "1")},
				Resources:  &corev1.ResourceRequirements{Requests: list("cpu", "3", "example.com/x", "1")},
			},
			corev1.PodStatus{}, list("cpu", "3", "memory", "1Gi"),
		},
		"an extended resource": {
			corev1.PodSpec{Containers: []corev1.Container{container("a", "nvidia.com/gpu", "2")}, InitContainers: []corev1.Container{container("i", "nvidia.com/gpu", "1")}},
			corev1.PodStatus{}, list("nvidia.com/gpu", "2"),
		},
		"sums are exact before they are rounded up": {
			corev1.PodSpec{Containers: []corev1.Container{container("a", "cpu", "500u", "memory", "1500m"), container("b", "cpu", "500u", "memory", "1")}},
			corev1.PodStatus{}, list("cpu", "1m", "memory", "3"),
		},
		"a resize that is going on": {
			corev1.PodSpec{Containers: []corev1.Container{container("a", "cpu", "1", "memory", "2Gi")}},
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "a", Resources: &corev1.ResourceRequirements{Requests: list("cpu", "2", "memory", "1Gi")},
			}}},
			list("cpu", "2", "memory", "2Gi"),
		},
		"a resize that cannot be done": {
			corev1.PodSpec{Containers: []corev1.Container{container("a", "cpu", "100")}},
			corev1.PodStatus{
				Conditions: []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}},
				ContainerStatuses: []corev1.ContainerStatus{{
					Name: "a", Resources: &corev1.ResourceRequirements{Requests: list("cpu", "2")},
				}},
			},
			list("cpu", "2"),
		},
	} {
		tt.want[corev1.ResourcePods] = resource.MustParse("1")
		pod := &corev1.Pod{Spec: tt.spec, Status: tt.status}
		before := pod.DeepCopy()
		if got := Requests(pod); !equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		if before.String() != pod.String() {
			t.Errorf("%s: the Pod was changed", name)
		}
	}
}

func equal(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		if other, found := b[name]; !found || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// Any Pod takes what kube-scheduler's own library says.
func FuzzRequestsAreThoseOfKubeScheduler(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		pod := randomPod(rand.New(rand.NewPCG(seed, 0)))
		want := helpers.PodRequests(pod, helpers.PodResourcesOptions{UseStatusResources: true})
		for name, q := range want {
			scale := resource.Scale(0)
			if name == corev1.ResourceCPU {
				scale = resource.Milli
			}
			q = q.DeepCopy()
			q.RoundUp(scale)
			want[name] = q
			if q.IsZero() {
				delete(want, name)
			}
		}
		want[corev1.ResourcePods] = resource.MustParse("1")
		if got := Requests(pod); !equal(got, want) {
			t.Fatalf("%v, kube-scheduler says %v: %+v", got, want, pod)
		}
	})
}

var (
	resourceNames  = []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu"}
	resourceValues = []string{"0", "1", "2", "100m", "1500u", "1Gi", "3333333333", "12e6", "1.5"}
)

func randomList(r *rand.Rand) corev1.ResourceList {
	all := corev1.ResourceList{}
	for range r.IntN(4) {
		all[resourceNames[r.IntN(len(resourceNames))]] = resource.MustParse(resourceValues[r.IntN(len(resourceValues))])
	}
	return all
}

func randomPod(r *rand.Rand) *corev1.Pod {
	pod := &corev1.Pod{}
	always := corev1.ContainerRestartPolicyAlways
	status := func(name string) (all []corev1.ContainerStatus) {
		if r.IntN(3) > 0 {
			return nil
		}
		s := corev1.ContainerStatus{Name: name, AllocatedResources: randomList(r)}
		if r.IntN(2) == 0 {
			s.Resources = &corev1.ResourceRequirements{Requests: randomList(r)}
		}
		return []corev1.ContainerStatus{s}
	}
	for i := range 1 + r.IntN(3) {
		name := string(rune('a' + i))
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: randomList(r)}})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status(name)...)
	}
	for i := range r.IntN(5) {
		name := string(rune('p' + i))
		c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: randomList(r)}}
		if r.IntN(2) == 0 {
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status(name)...)
	}
	if r.IntN(3) == 0 {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: randomList(r)}
	}
	if r.IntN(3) == 0 {
		pod.Spec.Overhead = randomList(r)
	}
	if r.IntN(4) == 0 {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: []string{corev1.PodReasonInfeasible, corev1.PodReasonDeferred}[r.IntN(2)]}}
	}
	return pod
}
