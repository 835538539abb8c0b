package ondemand

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// lacksRoom reports whether Pods that came before the taint leave the Pod no room on the Node that was
// made for it alone. They stay there, so that may never end.
func (d *decision) lacksRoom() bool {
	return len(d.o.Strangers) > 0 && d.o.Machine.Labels[infrav1.OnDemandClaim] != "" && unschedulable(d.o.Pod)
}

// roomDeadline is when the machine of a Pod that lacks room is given up: as long after its Node got
// ready as a Node may take to get ready.
func (d *decision) roomDeadline() time.Time {
	since := d.o.Machine.CreationTimestamp.Time
	if c := readiness(d.o.Node); c != nil && c.LastTransitionTime.After(since) {
		since = c.LastTransitionTime.Time
	}
	return since.Add(d.rules.ProvisionTimeout)
}

// giveUpWithoutRoom deletes the machine of a Pod that has no room on it.
func (d *decision) giveUpWithoutRoom(notes Annotate) {
	why := fmt.Sprintf("pods that came before it leave it no room on node %s: %s; have the user data give %s to the kubelet",
		d.o.Node.Name, names(d.o.Strangers), varTaints)
	d.say(infrav1.OnDemandProvisioning, "OnDemandProvisioning", why, notes)
	d.do(DeleteMachine{why})
}

// names are the first names of a list, and how many more there are.
func names(all []string) string {
	const most = 5
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// unschedulable reports whether the scheduler has looked at a Pod and found no Node for it.
func unschedulable(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// readiness is the condition Ready of a Node; nil: it has none.
func readiness(n *corev1.Node) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}
