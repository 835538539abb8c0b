package machine

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// ours are the conditions that this controller keeps.
var ours = []string{
	infrav1.ConditionReady, infrav1.ConditionPaused, infrav1.ConditionInstanceProvisioned, infrav1.ConditionServerDeleted, infrav1.ConditionDeleting,
}

// own returns the part of a status that this controller keeps.
func own(state infrav1.NstanceMachineStatus) infrav1.NstanceMachineStatus {
	s := *state.DeepCopy()
	s.NodeRef, s.Allocatable, s.Drain, s.LastError = nil, nil, nil, ""
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c metav1.Condition) bool { return !slices.Contains(ours, c.Type) })
	return s
}

// differs reports whether a decision says something new.
func differs(now, decided infrav1.NstanceMachineStatus) bool {
	before := own(now)
	slices.SortFunc(before.Conditions, func(a, b metav1.Condition) int {
		if a.Type < b.Type {
			return -1
		}
		return 1
	})
	return !equality.Semantic.DeepEqual(before, decided)
}

// follow makes the status say what is known of the instance. What is not known any more
// stays as it was last.
func (d *decision) follow() {
	s, m, said := &d.Status, d.o.Machine, d.o.Reported
	s.Shard, s.FailureDomain, s.ProviderID = m.Spec.Shard, m.Spec.Shard, m.Spec.ProviderID
	if m.Spec.Mode == infrav1.MachineManaged {
		s.InstanceID = m.Spec.InstanceID
	}
	if said == nil || d.o.Presence != inventory.Present {
		d.stale()
		return
	}
	s.InstanceID = m.Spec.InstanceID
	if said.GetStatus() == inventory.StatusUnknown {
		d.stale()
		return
	}
	s.InstanceState = infrav1.InstanceState(said.GetStatus())
	if said.GetInstanceType() != "" {
		s.InstanceType = said.GetInstanceType()
	}
	if len(said.GetAddresses())+len(said.GetHostname()) > 0 {
		s.Addresses = addresses(said)
	}
	if shard := d.o.shard(m.Spec.Shard); shard != nil && shard.Group != nil {
		s.Interruptible = shard.Group.GetInterruptible()
		if shard.Group.GetInstanceType() == said.GetInstanceType() {
			s.Capacity = capacity(shard.Group.GetCapacity())
		}
	}
	if m.Spec.ProviderID != "" {
		s.Initialization.Provisioned = true
		d.set(status.True(infrav1.ConditionInstanceProvisioned, infrav1.ReasonProvisioned, ""))
	} else {
		d.set(status.False(infrav1.ConditionInstanceProvisioned, infrav1.ReasonProvisioning, "the provider has not said which machine it is"))
	}
	ready := readiness(said, s.Initialization.Provisioned)
	if s.Ready = ready.Status == metav1.ConditionTrue; s.Ready && !m.Status.Ready {
		d.do(PublishEvent{Reason: "InstanceRunning", Message: fmt.Sprintf("instance %s runs on shard %s", m.Spec.InstanceID, m.Spec.Shard)})
	}
	d.set(ready)
	d.stale()
}

// stale says that a shard is out of sight, and else leaves what was known.
func (d *decision) stale() {
	s := d.o.shard(d.o.Machine.Spec.Shard)
	ready := meta.FindStatusCondition(d.Status.Conditions, infrav1.ConditionReady)
	if !d.created() || ready == nil || s != nil && s.Reachable {
		return
	}
	ready.Reason, ready.Message = infrav1.ReasonShardUnreachable, "shard "+d.o.Machine.Spec.Shard+" does not answer; this is what it last said"
}

// readiness says whether an instance can be used.
func readiness(said *nstancev1.InstanceStatus, provisioned bool) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return status.False(infrav1.ConditionReady, reason, message)
	}
	switch state := said.GetStatus(); {
	case state == inventory.StatusTerminating, state == inventory.StatusTerminated:
		return no(infrav1.ReasonDeleting, "the server ends it: "+said.GetCondemned().GetReason())
	case said.GetCondemned() != nil, state == inventory.StatusDraining:
		return no(infrav1.ReasonDraining, "the server is going to end it: "+said.GetCondemned().GetReason())
	case state == inventory.StatusUnhealthy:
		return no(infrav1.ReasonUnhealthy, "its agent is silent, or says that it is unhealthy")
	case state == inventory.StatusPoweredOff:
		return no(infrav1.ReasonPoweredOff, "it is switched off on purpose, and on hold until "+said.GetHold().GetUntil().AsTime().UTC().Format(time.RFC3339))
	case !provisioned:
		return no(infrav1.ReasonProvisioning, "the provider makes the machine")
	case state != inventory.StatusRunning, said.GetRegisteredAt() == nil:
		return no(infrav1.ReasonWaitingForAgent, "the machine is there; its agent has not registered")
	default:
		return status.True(infrav1.ConditionReady, infrav1.ReasonRunning, "")
	}
}

func addresses(said *nstancev1.InstanceStatus) []clusterv1.MachineAddress {
	var all []clusterv1.MachineAddress
	for _, ip := range said.GetAddresses() {
		all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: ip})
	}
	if name := said.GetHostname(); name != "" {
		all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: name})
	}
	return all
}

// capacity reads what a server says of its machines, and leaves out what is no quantity.
func capacity(said map[string]string) infrav1.ResourceList {
	list := infrav1.ResourceList{}
	for name, text := range said {
		if q, err := resource.ParseQuantity(text); err == nil {
			list[corev1.ResourceName(name)] = q
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}
