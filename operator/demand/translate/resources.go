package translate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// Requests returns what a Pod takes of a Node, by kube-scheduler's arithmetic: what runs at
// once while it starts and while it runs, in-place resizes, requests of the Pod itself and
// the overhead of its runtime. cpu is rounded up to milli-units, everything else to whole
// units. One Pod is one of the `pods` that a Node has room for; an amount of 0 is left out.
func Requests(pod *corev1.Pod) corev1.ResourceList {
	all := effective(pod)
	for name, q := range all {
		if q.Sign() <= 0 {
			delete(all, name)
			continue
		}
		q = q.DeepCopy() // rounding may change what the Pod holds
		if name == corev1.ResourceCPU {
			q.RoundUp(resource.Milli)
		} else {
			q.RoundUp(0)
		}
		all[name] = q
	}
	all[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return all
}

// effective returns the exact sums.
func effective(pod *corev1.Pod) corev1.ResourceList {
	status := containerStatuses(pod)
	run, side, peak := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		add(run, containerRequests(pod, &pod.Spec.Containers[i], status))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			request := containerRequests(pod, c, status)
			add(run, request)
			add(side, request)
			raise(peak, side)
			continue
		}
		stage := maps.Clone(side)
		add(stage, c.Resources.Requests)
		raise(peak, stage)
	}
	raise(run, peak)
	if pod.Spec.Resources != nil {
		for name, q := range pod.Spec.Resources.Requests {
			if isPodLevel(name) {
				run[name] = q
			}
		}
	}
	add(run, pod.Spec.Overhead)
	return run
}

// isPodLevel says whether a request of the Pod itself replaces those of its containers.
func isPodLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// containerStatuses returns the statuses by name that say what a container has; few Pods have
// any.
func containerStatuses(pod *corev1.Pod) map[string]*corev1.ContainerStatus {
	var found map[string]*corev1.ContainerStatus
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Resources == nil {
				continue
			}
			if found == nil {
				found = map[string]*corev1.ContainerStatus{}
			}
			found[list[i].Name] = &list[i]
		}
	}
	return found
}

// containerRequests returns what a running container takes: what is asked for or what it has,
// whichever is more. A resize that cannot be done is not asked for.
func containerRequests(pod *corev1.Pod, c *corev1.Container, status map[string]*corev1.ContainerStatus) corev1.ResourceList {
	s, resized := status[c.Name]
	if !resized {
		return c.Resources.Requests
	}
	all := corev1.ResourceList{}
	if !infeasible(pod) {
		raise(all, c.Resources.Requests)
	}
	raise(all, s.Resources.Requests)
	raise(all, s.AllocatedResources)
	return all
}

func infeasible(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodResizePending {
			return c.Reason == corev1.PodReasonInfeasible
		}
	}
	return false
}

func add(sum, more corev1.ResourceList) {
	for name, q := range more {
		if have, found := sum[name]; found {
			q = q.DeepCopy()
			q.Add(have)
		}
		sum[name] = q
	}
}

// raise makes each amount at least that of another list.
func raise(most, other corev1.ResourceList) {
	for name, q := range other {
		if have, found := most[name]; !found || q.Cmp(have) > 0 {
			most[name] = q
		}
	}
}

// requests are those of the Pod, as many as a CapacityRequest takes: Kubernetes' own first.
func requests(pod *corev1.Pod, w *warnings) corev1.ResourceList {
	all := Requests(pod)
	if len(all) <= demandv1.MostResources {
		return all
	}
	w.addf(TooManyResources, "of %d resources %d count", len(all), demandv1.MostResources)
	names := slices.SortedFunc(maps.Keys(all), func(a, b corev1.ResourceName) int {
		return cmp.Or(cmp.Compare(strings.Count(string(a), "/"), strings.Count(string(b), "/")), cmp.Compare(a, b))
	})
	for _, name := range names[demandv1.MostResources:] {
		delete(all, name)
	}
	return all
}
