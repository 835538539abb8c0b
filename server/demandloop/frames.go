package demandloop

import (
	"maps"
	"reflect"

	"nstance.dev/protos/identity"
	"nstance.dev/server/demand"
	"nstance.dev/server/fleet"
)

// The labels that every machine has beside those of its class, or that frames are read from.
const (
	labelInstance = "nstance.dev/instance-id"
	labelZone     = "topology.kubernetes.io/zone"
)

// framing tells operators of their machines.
type framing struct{ *core }

// show tells the operator of a machine's cluster how the machine is, if that is news.
func (c framing) show(m *machine, s *sight) {
	if b := s.rec.Binding; b != nil && m.about.cluster != b.Cluster {
		m.about.cluster, m.about.last = b.Cluster, NodeState{}
	}
	if m.about.cluster == "" {
		return
	}
	next := c.frame(m, s)
	next.Seq = m.about.last.Seq
	if !reflect.DeepEqual(next, m.about.last) {
		next.Seq = c.nextFrame()
		m.about.last = next
		c.clusters[m.about.cluster].tell(next)
	}
	if s.rec.Binding == nil && s.station.State == demand.Idle && !s.station.Leaving {
		m.about.cluster, m.about.node = "", "" // that it is idle was the last that the cluster had to know
	}
}

// withdraw tells a cluster that a machine is none of its any more, and never came to be.
func (c framing) withdraw(m *machine) {
	if m.about.cluster == "" {
		return
	}
	last := m.about.last
	last.Machine, last.State, last.Seq, last.LastError = m.id.String(), Deleted, c.nextFrame(), ""
	c.clusters[m.about.cluster].tell(last)
	m.about.cluster, m.about.node, m.about.last = "", "", NodeState{}
}

// frame is the machine as its operator is told of it, without a number.
func (c framing) frame(m *machine, s *sight) NodeState {
	d, _ := c.describe(s)
	labels := labelsOf(d.Class, m.id)
	n := NodeState{
		Machine: m.id.String(), State: stateOf(s), ProviderID: c.uri(s), Node: m.about.node,
		Labels: labels, Resources: d.Class.Allocatable, Taints: d.Class.Taints, StartupTaints: d.StartupTaints,
		InstanceType: s.rec.InstanceType, Zone: labels[labelZone], CapacityType: s.capacity(),
	}
	if n.State == Failed {
		n.LastError = s.rec.Failed.Reason
		if s.rec.Failed.Detail != "" {
			n.LastError += ": " + s.rec.Failed.Detail
		}
	}
	return n
}

// uri is how the Node of a machine knows it; empty while the provider has none.
func (c framing) uri(s *sight) string {
	if s.row.ProviderID == "" {
		return ""
	}
	return c.opts.URI(s.row)
}

// labelsOf are the labels of the Node of a machine.
func labelsOf(class demand.Class, id identity.ID) map[string]string {
	labels := maps.Clone(class.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelInstance] = id.String()
	return labels
}

// stateOf is where a machine is, for its cluster.
func stateOf(s *sight) MachineState {
	switch {
	case s.row.State == fleet.Deleting:
		return Deleting
	case s.rec.Failed != nil:
		return Failed
	case s.station.Leaving:
		return Draining
	}
	switch s.station.State {
	case demand.Creating:
		return Creating
	case demand.Idle:
		return Idle
	case demand.Configuring:
		return Configuring
	case demand.Configured:
		return Configured
	default:
		return Draining
	}
}
