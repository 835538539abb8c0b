package drain

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// labelDrain is Cluster API's label by which a Pod says how it is drained.
const labelDrain = "cluster.x-k8s.io/drain"

// criticalPriority is the lowest priority of Kubernetes' own critical Pods.
const criticalPriority = 2_000_000_000

// Class is what a drain does with a Pod.
type Class string

// The classes.
const (
	// Ignored: it has ended, or will as soon as its kubelet is back.
	Ignored Class = "ignored"
	// Stays: a mirror of the kubelet's own Pod, a DaemonSet's Pod, or one that asks to be
	// left.
	Stays Class = "stays"
	// Waits: it ends by itself, or asks for the time to.
	Waits Class = "waits"
	// Evicts: it is asked to leave.
	Evicts Class = "evicts"
	// Self: it is this program, and leaves when all else is done.
	Self Class = "self"
)

// classifier is what the class of a Pod depends on besides the Pod.
type classifier struct {
	daemonSets  map[types.UID]bool
	self        types.UID
	unreachable bool
	now         time.Time
}

// class says what to do with a Pod.
func (s classifier) class(p *corev1.Pod) Class {
	owner := metav1.GetControllerOf(p)
	switch {
	case p.UID == s.self && s.self != "":
		return Self
	case p.Status.Phase == corev1.PodSucceeded, p.Status.Phase == corev1.PodFailed:
		return Ignored
	case p.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return Stays
	case owner != nil && owner.Kind == "DaemonSet" && s.daemonSets[owner.UID]:
		return Stays
	case p.Labels[labelDrain] == "skip":
		return Stays
	case p.DeletionTimestamp != nil && s.unreachable && s.now.Sub(p.DeletionTimestamp.Time) > 30*time.Second:
		return Ignored
	case p.DeletionTimestamp != nil, p.Labels[labelDrain] == "wait-completed":
		return Waits
	default:
		return Evicts
	}
}

// Moves reports whether a drain waits for a Pod to leave its Node: whether it evicts it, or waits
// for its end. DaemonSets are the UIDs of those that exist.
func Moves(p *corev1.Pod, daemonSets map[types.UID]bool) bool {
	class := classifier{daemonSets: daemonSets}.class(p)
	return class == Evicts || class == Waits
}

// sorted are the Pods of a Node by what happens to them.
type sorted struct {
	evict, wait []*corev1.Pod
	self        *corev1.Pod
}

// left are the Pods that keep the Node from being empty.
func (s sorted) left() []*corev1.Pod { return slices.Concat(s.evict, s.wait) }

// sort classifies Pods: those to be evicted in the order in which they are to go.
func (s classifier) sort(pods []corev1.Pod) sorted {
	var out sorted
	for i := range pods {
		p := &pods[i]
		switch s.class(p) {
		case Evicts:
			out.evict = append(out.evict, p)
		case Waits:
			out.wait = append(out.wait, p)
		case Self:
			out.self = p
		}
	}
	byPriority := func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(priority(a), priority(b)), cmp.Compare(name(a), name(b)))
	}
	slices.SortFunc(out.evict, byPriority)
	slices.SortFunc(out.wait, byPriority)
	return out
}

func priority(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

func critical(p *corev1.Pod) bool { return priority(p) >= criticalPriority }

// managed reports whether somebody makes a new Pod where this one goes.
func managed(p *corev1.Pod) bool { return metav1.GetControllerOf(p) != nil }

// name is how users know a Pod.
func name(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

// unreachable reports whether a Node's kubelet has not been heard of for so long that
// Kubernetes says so.
func unreachable(n *corev1.Node) bool {
	silent := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
	return silent && slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable })
}

// grace returns how long a Pod gets to end, in seconds: its own time, but so that it ends
// five seconds before the deadline.
func grace(p *corev1.Pod, deadline time.Time, silent bool, now time.Time) int64 {
	own := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if p.Spec.TerminationGracePeriodSeconds != nil {
		own = *p.Spec.TerminationGracePeriodSeconds
	}
	if silent {
		own = min(own, 1)
	}
	if deadline.IsZero() {
		return own
	}
	room := int64(deadline.Add(-5*time.Second).Sub(now) / time.Second)
	return min(own, max(room, 1))
}
