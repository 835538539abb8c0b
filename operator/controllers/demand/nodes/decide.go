package nodes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/drain"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// taintUninitialized is what a kubelet registers where a cloud controller has to look at the Node.
const taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// seen is what a report is sent about when it changes.
type seen struct {
	node  string // its UID
	ready bool
	why   string // it is not ready
	empty bool   // nothing that a drain would move
}

// mostReason is how long a reason is at most, in bytes, as the wire has it.
const mostReason = 256

// ready reports whether a Node takes Pods, and why it does not.
func ready(n *corev1.Node, startup []corev1.Taint) (bool, string) {
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		starts := slices.ContainsFunc(startup, func(s corev1.Taint) bool { return t.MatchTaint(&s) })
		if t.Key == taintUninitialized || starts {
			return false, bounded(fmt.Sprintf("its taint %s:%s is left", t.Key, t.Effect))
		}
	}
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionTrue:
			return true, ""
		default:
			return false, bounded(fmt.Sprintf("its condition Ready is %s: %s", c.Status, c.Reason))
		}
	}
	return false, "it has no condition Ready"
}

// bounded cuts a reason to its length.
func bounded(why string) string { return strings.ToValidUTF8(why[:min(len(why), mostReason)], "") }

// report is what a shard is told of a Node.
func report(machine string, n *corev1.Node, u *demandv1.UpcomingNode, evictable int, now time.Time) *demandpb.NodeReport {
	is, why := ready(n, u.Spec.StartupTaints)
	pods := int32(evictable) //nolint:gosec // Pods of one Node
	return &demandpb.NodeReport{
		MachineId: machine, NodeName: n.Name, NodeUid: string(n.UID), Ready: is, NotReadyReason: why,
		ObservedUnixMs: now.UnixMilli(),
		Allocatable:    amounts(n.Status.Allocatable), EvictablePods: &pods,
	}
}

// mostAmounts is how many resources a report has at most.
const mostAmounts = 64

// amounts are quantities as the wire has them: processors in thousandths, everything else in whole
// units, above zero and sorted by name.
func amounts(list corev1.ResourceList) (all []*demandpb.ResourceAmount) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		amount := q.Value()
		if name == corev1.ResourceCPU {
			amount = q.MilliValue()
		}
		if amount > 0 && len(all) < mostAmounts {
			all = append(all, &demandpb.ResourceAmount{Name: string(name), Amount: amount})
		}
	}
	return all
}

// emptied reports whether a Node was drained for an instruction of its shard, or its time for that is
// over.
func emptied(n *corev1.Node, now time.Time) bool {
	s, draining, err := drain.ParseState(n.Annotations)
	if err != nil || !draining || s.Instruction == "" || s.Instance != n.Annotations[infrav1.AnnotationDemandMachine] {
		return false
	}
	return s.Phase == infrav1.DrainDone || !s.Deadline.IsZero() && !now.Before(s.Deadline)
}

// marked returns the Node with what says whose it is; the Node itself where it says so already.
func marked(n *corev1.Node, machine, shard, home, providerID string) *corev1.Node {
	next := n.DeepCopy()
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	changed := false
	put := func(in map[string]string, key, value string) {
		if in[key] != value {
			in[key], changed = value, true
		}
	}
	put(next.Labels, infrav1.LabelInstanceID, machine)
	put(next.Labels, infrav1.LabelShard, shard)
	put(next.Annotations, infrav1.AnnotationCluster, home)
	put(next.Annotations, infrav1.AnnotationDemandMachine, machine)
	if providerID != "" && next.Spec.ProviderID == "" {
		next.Spec.ProviderID, changed = providerID, true
	}
	if !changed {
		return n
	}
	return next
}
