package nodes

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	now     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	earlier = metav1.NewTime(now.Add(-time.Minute))
	at      = metav1.NewTime(now)
	yes     = true
	no      = false
)

// pod returns a Pod with one container, in a phase.
func pod(phase corev1.PodPhase, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{Phase: phase},
	}
	if phase != corev1.PodPending {
		p.Status.StartTime = &earlier
	}
	if change != nil {
		change(p)
	}
	return p
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

func deleted(left time.Duration, annotations map[string]string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		end := metav1.NewTime(now.Add(left))
		p.DeletionTimestamp, p.Annotations = &end, annotations
	}
}

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

// asking returns a Pod that runs and asks for other resources than it has.
func asking(wants, has string) *corev1.Pod {
	return pod(corev1.PodRunning, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = cpu(wants)
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Resources: &corev1.ResourceRequirements{Requests: cpu(has)}}}
	})
}

// status returns a status of the Pods above in which all conditions have one value.
func status(phase corev1.PodPhase, started metav1.Time, container corev1.ContainerStatus) *corev1.PodStatus {
	is := corev1.ConditionTrue
	if phase != corev1.PodRunning {
		is = corev1.ConditionFalse
	}
	container.Name, container.Image, container.ImageID = "c", "i", "i"
	return &corev1.PodStatus{
		Phase:  phase,
		HostIP: "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}},
		PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
		StartTime: &started,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: at},
			{Type: corev1.ContainersReady, Status: is, LastTransitionTime: at},
			{Type: corev1.PodReady, Status: is, LastTransitionTime: at},
		},
		ContainerStatuses: []corev1.ContainerStatus{container},
	}
}

func TestNext(t *testing.T) {
	stubborn := map[string]string{Stubborn: "true"}
	tests := []struct {
		name string
		pod  *corev1.Pod
		want step
	}{
		{
			"a Pod that has come runs",
			pod(corev1.PodPending, nil),
			step{status: status(corev1.PodRunning, at, corev1.ContainerStatus{
				Ready: true, Started: &yes, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
			})},
		},
		{"one that runs goes on", pod(corev1.PodRunning, nil), step{}},
		{
			"one that is told to has succeeded",
			pod(corev1.PodRunning, annotated(Finish, "Succeeded")),
			step{status: status(corev1.PodSucceeded, earlier, corev1.ContainerStatus{
				Started: &no, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					Reason: "Completed", StartedAt: earlier, FinishedAt: at,
				}},
			})},
		},
		{
			"one may fail before it has run",
			pod(corev1.PodPending, annotated(Finish, "Failed")),
			step{status: status(corev1.PodFailed, at, corev1.ContainerStatus{
				Started: &no, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: 1, Reason: "Error", StartedAt: at, FinishedAt: at,
				}},
			})},
		},
		{
			"one that is to end by itself runs until then",
			pod(corev1.PodRunning, annotated(FinishAfter, "90s")), step{after: 30 * time.Second},
		},
		{
			"and has succeeded then",
			pod(corev1.PodRunning, annotated(FinishAfter, "1m")),
			step{status: status(corev1.PodSucceeded, earlier, corev1.ContainerStatus{
				Started: &no, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					Reason: "Completed", StartedAt: earlier, FinishedAt: at,
				}},
			})},
		},
		{"one that is resized is given what it asks for", asking("2", "1"), step{status: status(corev1.PodRunning, earlier, corev1.ContainerStatus{
			Ready: true, Started: &yes, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: earlier}},
			AllocatedResources: cpu("2"), Resources: &corev1.ResourceRequirements{Requests: cpu("2")},
		})}},
		{"and has it then", asking("2", "2"), step{}},
		{"another phase cannot be asked for", pod(corev1.PodRunning, annotated(Finish, "Pending")), step{}},
		{"what has ended stays so", pod(corev1.PodFailed, annotated(Finish, "Succeeded")), step{}},
		{"a deleted Pod goes at once", pod(corev1.PodRunning, deleted(30*time.Second, nil)), step{remove: true}},
		{
			"a stubborn one stays for its grace period",
			pod(corev1.PodRunning, deleted(30*time.Second, stubborn)), step{after: 30 * time.Second},
		},
		{"and no longer", pod(corev1.PodRunning, deleted(0, stubborn)), step{remove: true}},
		{"nor when it has ended", pod(corev1.PodSucceeded, deleted(30*time.Second, stubborn)), step{remove: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := test.pod.DeepCopy()
			got := next(test.pod, "10.0.0.1", now)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(step{})); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.pod); diff != "" {
				t.Errorf("the Pod was changed:\n%s", diff)
			}
		})
	}
}

func TestRestated(t *testing.T) {
	pressure := corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}
	unknown := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}
	tests := []struct {
		name       string
		conditions []corev1.NodeCondition
		ready      bool
		want       []corev1.NodeCondition
		differ     bool
	}{
		{
			"that others gave it up is put right",
			[]corev1.NodeCondition{unknown, pressure}, true,
			[]corev1.NodeCondition{pressure, readyCondition(true, now)}, true,
		},
		{
			"what stands there is left alone",
			[]corev1.NodeCondition{pressure, readyCondition(true, earlier.Time)}, true,
			[]corev1.NodeCondition{pressure, readyCondition(true, earlier.Time)}, false,
		},
		{
			"it is no longer ready",
			[]corev1.NodeCondition{readyCondition(true, earlier.Time)}, false,
			[]corev1.NodeCondition{readyCondition(false, now)}, true,
		},
		{"nothing was said yet", nil, true, []corev1.NodeCondition{readyCondition(true, now)}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, differ := restated(test.conditions, test.ready, now)
			if diff := cmp.Diff(test.want, got); diff != "" || differ != test.differ {
				t.Errorf("differ: %t, want %t; conditions (-want +got):\n%s", differ, test.differ, diff)
			}
		})
	}
}
