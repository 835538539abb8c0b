package capacity

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Offer is what the next Node will have.
type Offer struct {
	// Capacity is what is left for Pods, by resource; nil: nothing is known.
	Capacity infrav1.ResourceList
	// NodeInfo is its system; nil: not known.
	NodeInfo *infrav1.NodeInfo
}

// Of returns what the next Node of a pool will have: for each resource what a person
// says, else what was learnt of Nodes of the same configuration, else what the shards
// report.
func Of(p Pool) Offer {
	capacity := infrav1.ResourceList{}
	maps.Copy(capacity, p.reported())
	if p.applies() {
		maps.Copy(capacity, p.Learned.Allocatable)
	}
	if t := p.Template; t != nil {
		if t.MaxPods > 0 {
			capacity[corev1.ResourcePods] = *resource.NewQuantity(int64(t.MaxPods), resource.DecimalSI)
		}
		maps.Copy(capacity, t.Capacity)
	}
	if len(capacity) == 0 {
		capacity = nil
	}
	return Offer{Capacity: capacity, NodeInfo: p.nodeInfo()}
}

func (p Pool) nodeInfo() *infrav1.NodeInfo {
	var said infrav1.NodeInfo
	if p.Template != nil && p.Template.NodeInfo != nil {
		said = *p.Template.NodeInfo
	}
	if said.Architecture == "" {
		said.Architecture = infrav1.Architecture(same(p.Parts, func(p Part) string { return p.Arch }, ""))
	}
	if said == (infrav1.NodeInfo{}) {
		return nil
	}
	if said.OperatingSystem == "" {
		said.OperatingSystem = infrav1.OperatingSystemLinux
	}
	return &said
}

// applies reports whether what was learnt is about the configuration in force. As long as
// that is not known in full it is taken to be.
func (p Pool) applies() bool {
	l := p.Learned
	return l != nil && (p.Partial || l.InstanceType == p.InstanceType() && l.Etag == p.fingerprint())
}

// Learn returns what is known of Nodes now: the least that a ready Node ever left for
// Pods, of each resource. A change of what Nodes are made from begins anew, a pool without
// Nodes keeps what it knows.
func Learn(p Pool) *infrav1.LearnedCapacity {
	if p.Partial || len(p.Parts) == 0 {
		return p.Learned
	}
	least := infrav1.ResourceList{}
	if p.applies() {
		maps.Copy(least, p.Learned.Allocatable)
	}
	for _, n := range p.Nodes {
		if !n.Ready || !slices.ContainsFunc(p.Parts, n.madeFrom) {
			continue
		}
		for name, q := range Useful(n.Allocatable) {
			if known, ok := least[name]; !ok || q.Cmp(known) < 0 {
				least[name] = q
			}
		}
	}
	if len(least) == 0 {
		return nil
	}
	return &infrav1.LearnedCapacity{InstanceType: p.InstanceType(), Etag: p.fingerprint(), Allocatable: least}
}

func (n Node) madeFrom(p Part) bool {
	return n.Template == p.Template && slices.Contains(p.types(), n.InstanceType)
}

// Useful returns what there is to learn of the resources that a Node leaves for Pods; nil
// for nothing. An accelerator of which a Node has none yet is one whose driver has not
// begun, so nought is nothing to learn from.
func Useful(allocatable corev1.ResourceList) infrav1.ResourceList {
	var list infrav1.ResourceList
	for name, q := range allocatable {
		if !counts(name) || q.Sign() <= 0 {
			continue
		}
		if list == nil {
			list = infrav1.ResourceList{}
		}
		list[name] = q
	}
	return list
}

// counts reports whether a resource is of use to an autoscaler.
func counts(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return true
	}
	return strings.Contains(string(name), "/")
}
