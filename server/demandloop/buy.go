package demandloop

import (
	"context"
	"errors"

	"nstance.dev/server/demand"
)

// launch has a machine made.
func (c joining) launch(m *machine, p Purchase) bool {
	return c.start(m, "provision", func(ctx context.Context) error { return c.opts.Machines.Launch(ctx, p) }, func(err error) {
		if err != nil {
			c.unmade(m, err)
		}
	})
}

// unmade forgets a machine that was not asked for. Where its record stands all the same it is seen
// again.
func (c joining) unmade(m *machine, err error) {
	if declined := (*LaunchError)(nil); errors.As(err, &declined) {
		c.feed.tell(demand.Changed{ID: m.id.String(), State: demand.Failed, Failure: declined.Failure})
		c.feed.tell(demand.Gone{ID: m.id.String()})
	} else {
		c.feed.tell(demand.Dropped{ID: m.id.String()})
	}
	delete(c.machines, m.id)
}

// buy asks for what it takes to join a cluster, for a machine that has it in its user data.
func (c joining) buy(m *machine) {
	cluster := c.cluster(m.join.buying.Binding.Cluster)
	switch {
	case m.join.ask != nil && c.now.Before(m.join.ask.deadline):
		c.agenda.add(m, m.join.ask.deadline)
		return
	case c.expired(m):
		c.unmade(m, &LaunchError{Failure: demand.FailureOther, Err: errNoAnswer})
		return
	case !cluster.live():
		return
	}
	c.put(m, cluster)
	p := m.join.buying
	d, _ := c.supply.Describe(p.Source)
	group, _ := c.supply.Group(p.Source.Group)
	labels := labelsOf(d.Class, m.id)
	cluster.tell(BootstrapRequest{
		Request: m.join.ask.request, Machine: m.id.String(), InstanceType: p.Source.InstanceType, Zone: labels[labelZone],
		CapacityType: p.Source.CapacityType, Labels: labels, Taints: d.Class.Taints, StartupTaints: d.StartupTaints,
		Vars: group.Vars, Deadline: m.join.ask.deadline,
	})
}

var errNoAnswer = errors.New("the operator does not say what it takes to join")

// bought makes a machine whose user data is known now.
func (c joining) bought(m *machine, blob Blob) {
	p := *m.join.buying
	if blob.Error != "" {
		c.opts.Log.Warn("machine not made: its cluster cannot be joined", "machine", m.id, "cluster", p.Binding.Cluster, "reason", blob.Error)
		c.feed.tell(demand.BlobFailed{ID: m.id.String()})
		c.feed.tell(demand.Gone{ID: m.id.String()})
		delete(c.machines, m.id)
		return
	}
	m.join.buying = nil
	p.UserData = blob.UserData
	if !c.launch(m, p) {
		c.feed.tell(demand.Dropped{ID: m.id.String()})
		delete(c.machines, m.id)
	}
}
