package shardtest

import (
	"google.golang.org/protobuf/proto"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Modes of a group.
const (
	modeFixed  = "fixed"
	modeDemand = "demand"
)

// mergeMode makes a group one of the mode that is sent, with the block that goes with it. A group that
// becomes one of fixed size without a size keeps as many instances as there are.
func (s *Shard) mergeMode(g *nstancev1.GroupStatus, c *nstancev1.GroupConfig) {
	switch {
	case c.GetMode() == modeFixed && g.GetMode() == modeDemand:
		if c.Size == nil {
			g.Size = int32(len(s.live(g)))
			g.Dynamic.Size = proto.Int32(g.GetSize())
		}
		g.Mode, g.Demand, g.InstanceRequirements = modeFixed, nil, nil
		g.Dynamic.Mode, g.Dynamic.Demand, g.Dynamic.InstanceRequirements = nil, nil, nil
	case c.GetMode() == modeDemand:
		g.Mode, g.Size = modeDemand, 0
		g.Dynamic.Mode, g.Dynamic.Size = c.Mode, nil
	}
	if c.GetDemand() != nil {
		g.Demand, g.Dynamic.Demand = proto.CloneOf(c.GetDemand()), proto.CloneOf(c.GetDemand())
	}
	if c.GetInstanceRequirements() != nil {
		g.InstanceRequirements = proto.CloneOf(c.GetInstanceRequirements())
		g.Dynamic.InstanceRequirements = proto.CloneOf(c.GetInstanceRequirements())
	}
}

// live are the instances of a group that count for its size.
func (s *Shard) live(g *nstancev1.GroupStatus) []*instance {
	var live []*instance
	for _, in := range s.instances {
		if in.GetTenant() == g.GetTenant() && in.GetGroup() == g.GetKey() && !in.GetOnDemand() && in.GetCondemned() == nil {
			live = append(live, in)
		}
	}
	return live
}

// hourly is what a machine costs an hour, in millionths of a dollar.
const hourly = 100_000

// usage is what the machines of a group of mode demand take. None of them is idle, and nothing is missing.
func (s *Shard) usage(g *nstancev1.GroupStatus) *nstancev1.DemandUsage {
	if g.GetMode() != modeDemand {
		return nil
	}
	n := int32(0)
	for _, in := range s.instances {
		if in.GetTenant() == g.GetTenant() && in.GetGroup() == g.GetKey() && !in.GetOnDemand() {
			n++
		}
	}
	d := g.GetDemand()
	return &nstancev1.DemandUsage{
		Machines: n, Vcpu: 2 * int64(n), MemoryGib: 4 * int64(n), HourlyMicroUsd: hourly * int64(n), Full: d != nil && d.Max != nil && n >= d.GetMax(),
	}
}

// Buy buys so many instances of a group of mode demand, as far as its bounds allow, and has them run.
func (s *Shard) Buy(tenant, key string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[groupKey{tenant, key}]
	if g == nil || g.GetMode() != modeDemand {
		s.cluster.t.Errorf("group %s is not of mode demand", key)
		return
	}
	for range n {
		if u := s.usage(g.GroupStatus); u.GetFull() {
			break
		}
		id, err := identity.NewID(g.GetKind())
		if err != nil {
			s.cluster.t.Error(err)
			return
		}
		s.create(g, id.String(), false)
	}
	s.settle()
	s.publishGroup(g)
}
