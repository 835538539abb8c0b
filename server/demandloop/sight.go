package demandloop

import (
	"nstance.dev/protos/identity"
	"nstance.dev/server/binding"
	"nstance.dev/server/cache"
	"nstance.dev/server/demand"
	"nstance.dev/server/layout"
)

// sight is all that is known of a machine when it is looked at.
type sight struct {
	row     cache.Instance
	rec     layout.InstanceRecord
	station binding.Station
	group   Group // zero where fixed
	fixed   bool  // its group has a size
	host    Host  // zero unless its node runs in a node machine
}

// see reads what is known of a machine; false: it does not exist, or is none of the loop's business.
func (c *core) see(id identity.ID) (s sight, ok bool) {
	row, known := c.opts.Records.Known(id)
	rec, recorded := c.opts.Records.Record(id)
	if !known || !recorded || row.OnDemand {
		return s, false
	}
	s = sight{row: row, rec: rec, station: binding.Of(row.State, &rec)}
	group, ofDemand := c.supply.Group(row.Group)
	s.group, s.fixed = group, !ofDemand
	if rec.Machine {
		s.host = c.opts.Host(id)
	}
	if s.fixed && s.station.State != demand.Configured {
		return s, false // only what serves a cluster counts
	}
	if s.handedOver() && !c.joins(id) {
		return s, false // what it does is not known, so nothing is done about it
	}
	return s, true
}

// out reports whether the machine counts for no cluster, though it has one: it goes, or its node machine failed and
// is left as it is. A machine that is repaved counts: its node is about to be there again.
func (s *sight) out() bool {
	return s.station.Leaving || s.station.State == demand.Configured && s.host.Failed != ""
}

// handedOver reports whether the machine was made while its group had a size, and has never served a
// cluster by a binding. It may be a Node all the same, which joined by itself.
func (s *sight) handedOver() bool {
	return !s.fixed && s.rec.Purchase == nil && s.rec.Binding == nil && s.rec.Served == "" && s.rec.Failed == nil
}

// joins reports whether the agent of a machine has said that it can join clusters.
func (c *core) joins(id identity.ID) bool {
	m := c.machines[id]
	return m != nil && m.join.able == able
}

// intent reports whether the machine runs and is meant for a cluster.
func (s *sight) intent() bool { return s.station.State == demand.Idle && s.rec.Binding != nil }

// capacity is how the machine is paid for.
func (s *sight) capacity() demand.CapacityType {
	if s.rec.Purchase == nil {
		return demand.OnDemand
	}
	return demand.CapacityType(s.rec.Purchase.CapacityType)
}

// source is what the machine was bought by.
func (s *sight) source() Source {
	source := Source{Group: s.row.Group, InstanceType: s.rec.InstanceType, CapacityType: s.capacity()}
	if s.rec.Purchase != nil {
		source.Reservation = s.rec.Purchase.Reservation
	}
	return source
}

// describe says what the machine is to the engine; false: that is not known.
func (c *core) describe(s *sight) (Description, bool) { return c.supply.Describe(s.source()) }

// supplyOf is the machine as the engine is told of it first.
func (c *core) supplyOf(s *sight) (demand.Supply, bool) {
	d, ok := c.describe(s)
	if !ok {
		return demand.Supply{}, false
	}
	m := demand.Supply{
		ID: s.row.ID.String(), Offer: d.Offer, Class: d.Class, State: s.station.State, Tenant: s.rec.Served, Fixed: s.fixed,
		Capacity: d.Capacity, Pools: d.Pools,
	}
	if b := s.rec.Binding; b != nil {
		m.Cluster, m.Price, m.Since, m.Stamp = b.Cluster, b.Price, b.BoundAt.Time, binding.StampOf(b)
		m.Voluntary, m.Replaces = b.Drain != nil && b.Drain.Voluntary, binding.Replaces(b)
	}
	if s.fixed {
		m.Offer = ""
	}
	return m, true
}
