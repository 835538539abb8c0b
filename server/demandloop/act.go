package demandloop

import (
	"context"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/binding"
	"nstance.dev/server/demand"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// acting carries out what the engine has decided.
type acting struct{ *core }

// act begins one action. The engine takes it for done; what cannot be begun it is told as dropped.
func (c acting) act(a demand.Action) {
	c.opts.Metrics.decided(a)
	if a.Disposition != demand.Execute {
		return
	}
	if a.Kind == demand.Provision {
		c.provision(a)
		return
	}
	m := c.machines[identity.ID(a.Machine)]
	switch {
	case m == nil:
		c.feed.tell(demand.Dropped{ID: a.Machine})
	case a.Kind == demand.Fail: // it stands with the engine, and is written down as soon as that can be
		m.told = demand.Failed
		c.look(m.id)
	case m.turn.busy || m.about.leaving || m.join.buying != nil:
		c.feed.tell(demand.Dropped{ID: a.Machine})
	default:
		c.begin(m, a)
	}
}

// provision buys a machine.
func (c acting) provision(a demand.Action) {
	id, err := identity.ParseID(a.Machine)
	source, ok := c.supply.Source(a.Offer)
	if err != nil || !ok {
		c.feed.tell(demand.Dropped{ID: a.Machine})
		return
	}
	m := &machine{id: id, told: demand.Creating, failure: demand.Lost}
	p := Purchase{ID: id, Source: source}
	if a.Cluster != "" {
		p.Binding = binding.Intent(a.Cluster, a.Stamp, a.Price, c.now)
		binding.Replace(p.Binding, a.Replaces)
	}
	c.machines[id] = m
	if group, _ := c.supply.Group(source.Group); group.UserData && p.Binding != nil {
		m.join.buying = &p
		joining(c).buy(m)
		return
	}
	if !joining(c).launch(m, p) {
		delete(c.machines, id)
		c.feed.tell(demand.Dropped{ID: a.Machine})
	}
}

// begin hands an action on a machine that exists to a worker.
func (c acting) begin(m *machine, a demand.Action) {
	was := m.told
	then := nothing
	var run func(context.Context) error
	change := func(change func(*layout.InstanceRecord) error) {
		run = func(ctx context.Context) error { return c.change(ctx, m.id, change) }
	}
	switch a.Kind {
	case demand.Bootstrap:
		if m.told == demand.Idle {
			m.told, m.join.toldJoining = demand.Configuring, true
		}
		change(func(rec *layout.InstanceRecord) error {
			return binding.Intend(rec, a.Cluster, a.Stamp, a.Price, c.opts.Now())
		})
	case demand.Cancel:
		c.unask(m)
		if m.told == demand.Configuring { // it waited for its configuration
			m.told, m.join.toldJoining, m.join.waits = demand.Idle, false, false
		}
		change(binding.Free)
		then = func() { framing(c).withdraw(m) }
	case demand.Reclaim, demand.Preempt:
		m.told = demand.Draining
		drain := c.drainOf(m, a)
		change(func(rec *layout.InstanceRecord) error { return binding.StartDrain(rec, drain, c.opts.Now()) })
	case demand.Delete:
		m.told = demand.Deleting
		run = func(ctx context.Context) error {
			return c.opts.Machines.Condemn(ctx, m.id, endOf(a.Reason), string(a.Reason))
		}
	default:
		panic(fmt.Sprintf("action %s of an unknown kind", a))
	}
	drop := func() {
		m.told, m.join.toldJoining = was, false
		c.feed.tell(demand.Dropped{ID: a.Machine})
	}
	ok := c.start(m, a.Kind.String(), run, func(err error) {
		if err != nil {
			drop()
			return
		}
		m.asked, m.unseen = time.Time{}, time.Time{}
		then()
	})
	if !ok {
		drop()
	}
}

// drainOf is what the record of a machine says of its drain.
func (c acting) drainOf(m *machine, a demand.Action) layout.Drain {
	d := layout.Drain{
		Instruction: fmt.Sprintf("rcl-%s-%d", m.id, c.now.Unix()), StartedAt: layout.At(c.now), Deadline: layout.At(c.now.Add(a.Grace)),
		Voluntary: a.Voluntary, Reason: string(a.Reason),
	}
	if !a.Voluntary {
		for _, cluster := range c.clusters {
			if row, ok := cluster.rows[a.Need]; ok {
				d.Priority = row.Priority
			}
		}
	}
	return d
}

// endOf is why a machine is deleted, in the words of the shard.
func endOf(why demand.Reason) fleet.Reason {
	switch why {
	case demand.ReasonFailed, demand.ReasonJoinTimeout:
		return fleet.ReasonFailed
	case demand.ReasonPreempted:
		return fleet.ReasonPreempted
	case demand.ReasonDrift:
		return fleet.ReasonConfigDrift
	case demand.ReasonExpiry:
		return fleet.ReasonExpired
	default:
		return fleet.ReasonReleased
	}
}
