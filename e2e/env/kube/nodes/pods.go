package nodes

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations by which a Pod says what its containers do.
const (
	// Finish ends the containers: its value is the phase that the Pod then has,
	// Succeeded or Failed. It may be set at any time.
	Finish = "test.nstance.dev/finish"

	// FinishAfter ends the containers with success when the Pod has run for that long, as the
	// Pods of a Job do: its value is a duration.
	FinishAfter = "test.nstance.dev/finish-after"

	// Stubborn with the value "true" has the containers run until the last moment of
	// their grace period when the Pod is deleted.
	Stubborn = "test.nstance.dev/stubborn"
)

// step is what an agent does about a Pod.
type step struct {
	status *corev1.PodStatus // to report; nil: nothing new
	remove bool              // the containers have ended: the object may go
	after  time.Duration     // when to look again; 0: when the Pod changes
}

// next returns what to do about a Pod on a machine with the given address.
func next(pod *corev1.Pod, address string, now time.Time) step {
	if end := pod.DeletionTimestamp; end != nil {
		left := end.Sub(now)
		if pod.Annotations[Stubborn] == "true" && left > 0 && !finished(pod.Status.Phase) {
			return step{after: left}
		}
		return step{remove: true}
	}
	want, left := corev1.PodRunning, untilFinish(pod, now)
	if phase := corev1.PodPhase(pod.Annotations[Finish]); finished(phase) {
		want = phase
	} else if left < 0 {
		want = corev1.PodSucceeded
	}
	if finished(pod.Status.Phase) || pod.Status.Phase == want && !resized(pod) {
		return step{after: max(left, 0)}
	}
	return step{status: statusIn(want, pod, address, now)}
}

// untilFinish returns for how long the containers of a Pod that runs still do: negative, they
// have ended by now; 0: nobody knows.
func untilFinish(pod *corev1.Pod, now time.Time) time.Duration {
	lasts, err := time.ParseDuration(pod.Annotations[FinishAfter])
	if err != nil || pod.Status.StartTime == nil || pod.Status.Phase != corev1.PodRunning {
		return 0
	}
	if left := lasts - now.Sub(pod.Status.StartTime.Time); left > 0 {
		return left
	}
	return -1
}

// resized is whether a container of a Pod asks for something else than what it was given.
func resized(pod *corev1.Pod) bool {
	for i, status := range pod.Status.ContainerStatuses {
		if i < len(pod.Spec.Containers) && !equality.Semantic.DeepEqual(status.Resources, given(pod.Spec.Containers[i])) {
			return true
		}
	}
	return false
}

// given is what a container gets: all that it asks for; nil for nothing.
func given(container corev1.Container) *corev1.ResourceRequirements {
	if len(container.Resources.Requests)+len(container.Resources.Limits) == 0 {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: container.Resources.Requests, Limits: container.Resources.Limits}
}

func finished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// statusIn returns the status of a Pod whose containers all run, or have all ended.
func statusIn(phase corev1.PodPhase, pod *corev1.Pod, address string, now time.Time) *corev1.PodStatus {
	at := metav1.NewTime(now)
	status := pod.Status.DeepCopy()
	status.Phase = phase
	status.HostIP, status.HostIPs = address, []corev1.HostIP{{IP: address}}
	status.PodIP, status.PodIPs = address, []corev1.PodIP{{IP: address}}
	if status.StartTime == nil {
		status.StartTime = &at
	}
	running := phase == corev1.PodRunning
	set(status, corev1.PodInitialized, true, at)
	set(status, corev1.ContainersReady, running, at)
	set(status, corev1.PodReady, running, at)
	status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: container.Image,
			Ready: running, Started: &running, State: containerState(phase, *status.StartTime, at),
			AllocatedResources: container.Resources.Requests, Resources: given(container),
		})
	}
	return status
}

func containerState(phase corev1.PodPhase, started, now metav1.Time) corev1.ContainerState {
	switch phase {
	case corev1.PodSucceeded:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", StartedAt: started, FinishedAt: now,
		}}
	case corev1.PodFailed:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Reason: "Error", StartedAt: started, FinishedAt: now,
		}}
	default:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	}
}

// set sets a condition of a Pod.
func set(status *corev1.PodStatus, kind corev1.PodConditionType, is bool, now metav1.Time) {
	condition := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: now}
	if is {
		condition.Status = corev1.ConditionTrue
	}
	i := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	switch {
	case i < 0:
		status.Conditions = append(status.Conditions, condition)
	case status.Conditions[i].Status != condition.Status:
		status.Conditions[i] = condition
	}
}
