package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/config"
)

// S22: what a cache keeps of a Pod does not depend on the order of the features that read it: each
// adds what it reads, and takes nothing away from what another one has put there.
func TestS22_WhatIsKeptOfAPodHasNoOrder(t *testing.T) {
	s := config.Settings{OnDemand: config.OnDemandAnnotate, Demand: config.Demand{Enabled: true}}
	var keep []func(from, into *corev1.Pod)
	for _, f := range featuresOf(s) {
		if f.pods != nil {
			keep = append(keep, f.pods(s))
		}
	}
	if len(keep) < 5 {
		t.Fatalf("%d features read Pods", len(keep))
	}
	terms := []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
	yes, ten := true, resource.MustParse("10")
	containers := []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: ten}}}}
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "p", UID: "u", CreationTimestamp: metav1.Unix(1, 0), Labels: map[string]string{"app": "db", demandv1.LabelPodGroup: "g"},
				Annotations: map[string]string{
					"a": "1", demandv1.AnnotationDoNotEvict: "true", demandv1.AnnotationIgnore: "true", corev1.MirrorPodAnnotationKey: "m",
				},
				OwnerReferences: []metav1.OwnerReference{{Kind: "Other", Name: "o"}, {Kind: "ReplicaSet", Name: "r", Controller: &yes}},
			},
			Spec: corev1.PodSpec{
				NodeName: "n", NodeSelector: map[string]string{"a": "b"}, Containers: containers, InitContainers: containers,
				Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "v"}}}},
				Affinity: &corev1.Affinity{
					PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
					PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
				},
			},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning,
				Conditions: []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionTrue},
					{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
					{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible},
				},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ImageID: "i", Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: ten}}}},
			},
		}
		change(p)
		return p
	}
	unordered := cmpopts.SortSlices(func(a, b corev1.PodCondition) bool { return a.Type < b.Type })
	for name, from := range map[string]*corev1.Pod{
		"one that has everything": pod(func(*corev1.Pod) {}),
		"one without affinity":    pod(func(p *corev1.Pod) { p.Spec.Affinity = nil }),
		"one without annotations": pod(func(p *corev1.Pod) { p.Annotations = nil }),
		"one that asks for an instance": pod(func(p *corev1.Pod) {
			p.Annotations[infrav1.OnDemandGroup] = "web"
		}),
	} {
		var first *corev1.Pod
		permute(len(keep), func(order []int) {
			into := &corev1.Pod{}
			of := from.DeepCopy()
			for _, i := range order {
				keep[i](of, into)
			}
			if first == nil {
				first = into
			} else if diff := cmp.Diff(first, into, unordered); diff != "" {
				t.Fatalf("%s: in order %v: %s", name, order, diff)
			}
		})
		if len(first.Status.Conditions) < 2 {
			t.Errorf("%s: conditions %v are kept", name, first.Status.Conditions)
		}
	}
}

// permute calls f with each order of so many things.
func permute(n int, f func([]int)) {
	order := make([]int, 0, n)
	var next func(used uint)
	next = func(used uint) {
		if len(order) == n {
			f(order)
			return
		}
		for i := range n {
			if used&(1<<i) == 0 {
				order = append(order, i)
				next(used | 1<<i)
				order = order[:len(order)-1]
			}
		}
	}
	next(0)
}
