package shardtest

import (
	"maps"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// bindingIdle is that of an instance of mode demand that serves no cluster.
const bindingIdle = "idle"

// machine is what a new instance says of its node machine; nil: it has none.
func (g *group) machine() *nstancev1.InstanceMachine {
	if !g.hosts {
		return nil
	}
	m := &nstancev1.InstanceMachine{Arch: g.GetArch()}
	if g.GetMode() == modeDemand {
		m.Binding = bindingIdle
	}
	return m
}

// SetHosts has nodes run in node machines on the instances of a group, those that are there included, or not.
func (s *Shard) SetHosts(tenant, key string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[groupKey{tenant, key}]
	g.hosts = on
	for _, in := range s.instances {
		if in.GetTenant() == tenant && in.GetGroup() == key {
			in.Machine = g.machine()
			s.publish(in, "binding", "")
		}
	}
}

// SetBinding gives an instance of mode demand another binding: idle, configuring, bound or draining.
func (s *Shard) SetBinding(id, binding string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.find(id); in != nil {
		in.Machine = &nstancev1.InstanceMachine{Arch: in.GetMachine().GetArch(), Binding: binding}
		s.publish(in, "binding", "")
	}
}

// SetNodeLabels has the Nodes of a group have these labels.
func (s *Shard) SetNodeLabels(tenant, key string, labels map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[groupKey{tenant, key}]
	g.Node = &nstancev1.NodeSettings{Labels: maps.Clone(labels)}
	s.publishGroup(g)
}
