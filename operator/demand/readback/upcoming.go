package readback

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// FailedFor is how long the UpcomingNode of a machine that failed is kept for people to read.
const FailedFor = time.Hour

// NodeChange is what becomes of an UpcomingNode. The zero value of each field: nothing.
type NodeChange struct {
	Reason string // for people: why something is made, changed or deleted
	// Create is the object to make; its status is what it gets right after.
	Create *demandv1.UpcomingNode
	// Spec and Status replace those of the object.
	Spec   *demandv1.UpcomingNodeSpec
	Status *demandv1.UpcomingNodeStatus
	// Delete: the object goes.
	Delete bool
}

// NodeName returns the name of the UpcomingNode of a machine: the machine's id where that may
// be a name, else one that is made of its hash.
func NodeName(machine string) string {
	if len(validation.IsDNS1123Subdomain(machine)) == 0 {
		return machine
	}
	sum := sha256.Sum256([]byte(machine))
	return "un-" + hex.EncodeToString(sum[:20])
}

// Upcoming says what becomes of a machine's UpcomingNode, nil if it has none, after its shard
// has said u. The error is about a state that is not known, or an object of another shard;
// nothing changes then.
func Upcoming(have *demandv1.UpcomingNode, shard string, u *demandpb.NodeStateUpdate, now time.Time) (NodeChange, error) {
	if have != nil && (have.Spec.Shard != shard || have.Spec.MachineID != u.GetMachineId()) {
		return NodeChange{}, fmt.Errorf("machine %s of shard %s: UpcomingNode %s belongs to machine %s of shard %s",
			u.GetMachineId(), shard, have.Name, have.Spec.MachineID, have.Spec.Shard)
	}
	if u.GetState() == demandpb.MachineState_MACHINE_STATE_DELETED {
		return NodeChange{Delete: have != nil, Reason: "the machine is deleted"}, nil
	}
	phase, err := phaseOf(have, u.GetState())
	if err != nil {
		return NodeChange{}, fmt.Errorf("machine %s of shard %s: %w", u.GetMachineId(), shard, err)
	}
	if phase == demandv1.UpcomingNodeDrained {
		return NodeChange{Delete: true, Reason: "the machine is drained and left the cluster"}, nil
	}
	base := demandv1.UpcomingNode{}
	if have != nil {
		base = *have
	}
	spec, status := specOf(shard, u), statusOf(base.Status, phase, u, now)
	if have == nil {
		return NodeChange{Reason: "the shard has a machine for this cluster", Create: &demandv1.UpcomingNode{
			ObjectMeta: metav1.ObjectMeta{Name: NodeName(u.GetMachineId())}, Spec: spec, Status: status,
		}}, nil
	}
	var c NodeChange
	if !equality.Semantic.DeepEqual(have.Spec, spec) {
		c.Spec, c.Reason = &spec, "the shard says something else of the machine"
	}
	if !equality.Semantic.DeepEqual(have.Status, status) {
		c.Status, c.Reason = &status, "the machine is "+string(phase)
	}
	return c, nil
}

// phaseOf returns the phase of a machine in a state. A machine that is idle after it was in the
// cluster has left it, even if its drain ran out of time or was over before anybody wrote that it
// began; else it waits to join.
func phaseOf(have *demandv1.UpcomingNode, state demandpb.MachineState) (demandv1.UpcomingNodePhase, error) {
	switch state {
	case demandpb.MachineState_MACHINE_STATE_SPECULATIVE, demandpb.MachineState_MACHINE_STATE_CREATING:
		return demandv1.UpcomingNodeProvisioning, nil
	case demandpb.MachineState_MACHINE_STATE_IDLE:
		if have != nil && left(have.Status) {
			return demandv1.UpcomingNodeDrained, nil
		}
		return demandv1.UpcomingNodeLaunched, nil
	case demandpb.MachineState_MACHINE_STATE_CONFIGURING:
		return demandv1.UpcomingNodeRegistered, nil
	case demandpb.MachineState_MACHINE_STATE_CONFIGURED:
		return demandv1.UpcomingNodeReady, nil
	case demandpb.MachineState_MACHINE_STATE_DRAINING, demandpb.MachineState_MACHINE_STATE_DELETING:
		return demandv1.UpcomingNodeDraining, nil
	case demandpb.MachineState_MACHINE_STATE_FAILED:
		return demandv1.UpcomingNodeFailed, nil
	default:
		return "", fmt.Errorf("state %v is not known", state)
	}
}

// left says whether a machine that is idle now was in the cluster before.
func left(was demandv1.UpcomingNodeStatus) bool {
	switch was.Phase {
	case demandv1.UpcomingNodeReady, demandv1.UpcomingNodeDraining, demandv1.UpcomingNodeDrained:
		return true
	case demandv1.UpcomingNodeRegistered, demandv1.UpcomingNodeFailed:
		return was.NodeRef != nil
	default:
		return false
	}
}

func specOf(shard string, u *demandpb.NodeStateUpdate) demandv1.UpcomingNodeSpec {
	spec := demandv1.UpcomingNodeSpec{
		MachineID: u.GetMachineId(), Shard: shard, InstanceType: u.GetInstanceType(), Zone: u.GetZone(), CapacityType: u.GetCapacityType(),
		Labels: maps.Clone(u.GetLabels()), Resources: amounts(u.GetResources()),
	}
	spec.StartupTaints = taints(u.GetStartupTaints())
	spec.Taints = slices.Concat(taints(u.GetTaints()), spec.StartupTaints) // the kubelet registers both
	return spec
}

func taints(of []*demandpb.Taint) (all []corev1.Taint) {
	for _, t := range of {
		all = append(all, corev1.Taint{Key: t.GetKey(), Value: t.GetValue(), Effect: corev1.TaintEffect(effect(t.GetEffect()))})
	}
	return all
}

// statusOf keeps what an update does not say: the Node, and an id that the provider gave.
func statusOf(was demandv1.UpcomingNodeStatus, phase demandv1.UpcomingNodePhase, u *demandpb.NodeStateUpdate, now time.Time) demandv1.UpcomingNodeStatus {
	status := *was.DeepCopy()
	if status.ProvisioningStartTime == nil {
		status.ProvisioningStartTime = &metav1.Time{Time: now}
	}
	if status.Phase != phase {
		status.Phase, status.LastTransitionTime = phase, &metav1.Time{Time: now}
	}
	if u.GetProviderId() != "" {
		status.ProviderID = u.GetProviderId()
	}
	status.LastError = ""
	if phase == demandv1.UpcomingNodeFailed {
		status.LastError = u.GetLastError()
	}
	return status
}

// Absent returns the names of the UpcomingNodes of a shard whose machines it has not spoken of,
// sorted. It must have said all that it has; objects of other shards are left alone.
func Absent(have []demandv1.UpcomingNode, shard string, spoken []string) []string {
	named := make(map[string]bool, len(spoken))
	for _, id := range spoken {
		named[id] = true
	}
	var gone []string
	for i := range have {
		if o := &have[i]; o.Spec.Shard == shard && !named[o.Spec.MachineID] {
			gone = append(gone, o.Name)
		}
	}
	slices.Sort(gone)
	return gone
}

// Expires says when the UpcomingNode of a machine that failed goes. False: it has not failed.
func Expires(o *demandv1.UpcomingNode) (time.Time, bool) {
	if o.Status.Phase != demandv1.UpcomingNodeFailed {
		return time.Time{}, false
	}
	since := o.CreationTimestamp
	if o.Status.LastTransitionTime != nil {
		since = *o.Status.LastTransitionTime
	}
	return since.Add(FailedFor), true
}

// amounts are quantities: the wire has processors in thousandths, everything else in whole
// units. Nil: none.
func amounts(all []*demandpb.ResourceAmount) corev1.ResourceList {
	if len(all) == 0 {
		return nil
	}
	list := make(corev1.ResourceList, len(all))
	for _, a := range all {
		switch name := corev1.ResourceName(a.GetName()); name {
		case corev1.ResourceCPU:
			list[name] = *resource.NewMilliQuantity(a.GetAmount(), resource.DecimalSI)
		case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			list[name] = *resource.NewQuantity(a.GetAmount(), resource.BinarySI)
		default:
			list[name] = *resource.NewQuantity(a.GetAmount(), resource.DecimalSI)
		}
	}
	return list
}

// effect in the words of Kubernetes; empty: all effects.
func effect(e demandpb.TaintEffect) string {
	switch e {
	case demandpb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE:
		return string(corev1.TaintEffectNoSchedule)
	case demandpb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE:
		return string(corev1.TaintEffectPreferNoSchedule)
	case demandpb.TaintEffect_TAINT_EFFECT_NO_EXECUTE:
		return string(corev1.TaintEffectNoExecute)
	default:
		return ""
	}
}
