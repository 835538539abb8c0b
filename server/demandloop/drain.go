package demandloop

import (
	"context"
	"errors"
	"time"

	agentbinding "nstance.dev/protos/binding"
	"nstance.dev/server/binding"
	"nstance.dev/server/demand"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

const (
	askAgain  = 30 * time.Second // an instruction is repeated
	overtime  = 30 * time.Second // that an operator has beyond the grace
	leaveWait = 2 * time.Minute  // that a machine has to leave its cluster
)

// draining has the work moved off machines, and has them leave their cluster.
type draining struct{ *core }

// goOn goes on with the drain that the record of a machine tells of.
func (c draining) goOn(m *machine, s *sight) {
	d := s.rec.Binding.Drain
	late := d.Deadline.Add(overtime)
	switch {
	case !d.LeftAt.IsZero():
		c.leave(m, s)
	case !c.now.Before(late):
		c.over(m, s, "the drain did not end in time")
	default:
		c.agenda.add(m, late)
		c.instruct(m, s)
	}
}

// instruct asks the operator to drain a machine, and again until it answers.
func (c draining) instruct(m *machine, s *sight) {
	cluster := c.clusters[s.rec.Binding.Cluster]
	switch {
	case m.asked.Equal(never) || !cluster.live():
		return
	case !m.asked.IsZero() && c.now.Before(m.asked.Add(askAgain)):
		c.agenda.add(m, m.asked.Add(askAgain))
		return
	}
	m.asked = c.now
	c.agenda.add(m, c.now.Add(askAgain))
	d := s.rec.Binding.Drain
	cluster.tell(ReclaimInstruction{
		Instruction: d.Instruction, Machine: m.id.String(), Node: m.about.node, Grace: max(d.Deadline.Sub(c.now), time.Second),
		PreemptorPriority: d.Priority, Voluntary: d.Voluntary, Reason: d.Reason,
	})
}

// never is when an instruction is due that was answered.
var never = time.Unix(1<<40, 0)

// accepted notes that the operator has begun to drain a machine, or finds no Node. It may not have heard
// of the Node yet, and there may be work on it: it is asked once more.
func (c draining) accepted(m *machine, s *sight, started bool) {
	switch {
	case started:
		m.asked, m.unseen = never, time.Time{}
	case m.unseen.IsZero():
		m.unseen = c.now
	case c.now.Sub(m.unseen) >= askAgain:
		m.unseen = time.Time{}
		c.opts.Log.Info("machine has no Node to drain", "machine", m.id, "cluster", m.about.cluster)
		c.vacate(m, s)
	}
}

// ended takes in how the drain of a machine has ended.
func (c draining) ended(m *machine, s *sight, drained bool, why string) {
	if drained {
		c.vacate(m, s)
		return
	}
	c.over(m, s, why)
}

// over deals with a drain that did not come to its end: one that may be given up is, else the machine
// leaves with what is left on it.
func (c draining) over(m *machine, s *sight, why string) {
	if d := s.rec.Binding.Drain; d.Voluntary && !s.group.ForceDrain {
		c.keep(m, s, why, 0)
		return
	}
	c.vacate(m, s)
}

// keep gives the drain of a machine up, which serves its cluster as before (E11).
func (c draining) keep(m *machine, s *sight, why string, retry time.Duration) {
	cluster, d := c.clusters[s.rec.Binding.Cluster], s.rec.Binding.Drain
	until := time.Time{}
	if retry > 0 {
		until = c.now.Add(retry)
	}
	c.write(m, "keep", func(rec *layout.InstanceRecord) error { return binding.Keep(rec, c.opts.Now()) }, func() {
		m.asked = time.Time{}
		c.opts.Metrics.refused()
		c.opts.Log.Info("machine not given back", "machine", m.id, "cluster", m.about.cluster, "reason", why)
		if cluster.live() && cluster.hello.CancelReclaim {
			cluster.tell(ReclaimInstruction{Instruction: d.Instruction, Machine: m.id.String(), Node: m.about.node, Voluntary: true, Cancel: true, Reason: why})
		}
		c.feed.tell(demand.Refused{ID: m.id.String(), Until: until})
		m.told = demand.Configured
	})
}

// vacate has a machine leave its cluster, whose work is gone or whose time is over.
func (c draining) vacate(m *machine, s *sight) {
	started := s.rec.Binding.Drain.StartedAt.Time
	c.write(m, "leave", func(rec *layout.InstanceRecord) error { return binding.Leave(rec, c.opts.Now()) },
		func() {
			m.asked = time.Time{}
			c.opts.Metrics.drained(c.now.Sub(started))
		})
}

// leave tells the agent of a machine to leave the cluster, or ends the machine where it is not used again.
func (c draining) leave(m *machine, s *sight) {
	b := s.rec.Binding
	late := b.Drain.LeftAt.Add(leaveWait)
	switch {
	case s.group.deletes(s.capacity()):
		c.end(m, s, "it is not used again")
		return
	case s.rec.Machine:
		c.end(m, s, "nothing removes a node machine from its host")
		return
	case m.join.able == unable:
		c.end(m, s, "its agent cannot make it leave")
		return
	case !c.now.Before(late):
		c.end(m, s, "it has not left its cluster in time")
		return
	}
	c.agenda.add(m, late)
	switch {
	case m.join.able != able:
		return
	case !m.asked.IsZero() && c.now.Before(m.asked.Add(askAgain)):
		c.agenda.add(m, m.asked.Add(askAgain))
		return
	}
	m.asked = c.now
	switch err := c.opts.Machines.Leave(m.id, b.ID); {
	case err == nil:
		c.agenda.add(m, c.now.Add(askAgain))
	case errors.Is(err, ErrNoCapability):
		m.join.able = unable
		c.agenda.add(m, c.now.Add(firstPause))
	case errors.Is(err, ErrNotConnected): // it says so when it is there again
	default:
		m.asked = time.Time{}
		c.agenda.add(m, c.now.Add(firstPause))
	}
}

// reported takes in what an agent says of the leaving of its machine.
func (c draining) reported(m *machine, s *sight, r agentbinding.Report) {
	b := s.rec.Binding
	if s.station.State != demand.Draining || b.Drain.LeftAt.IsZero() || r.Binding != b.ID || r.Action != agentbinding.Leaving {
		return
	}
	switch r.State {
	case agentbinding.Done:
		c.write(m, "free", binding.Free, nothing)
	case agentbinding.Failed:
		c.end(m, s, "it did not leave its cluster: "+r.Error)
	default: // it is about to
	}
}

// end has a drained machine deleted.
func (c draining) end(m *machine, s *sight, why string) {
	reason := fleet.ReasonPreempted
	if s.rec.Binding.Drain.Voluntary {
		reason = fleet.ReasonSurplus
	}
	c.do(m, "delete", func(ctx context.Context) error { return c.opts.Machines.Condemn(ctx, m.id, reason, why) }, func() {
		c.feed.tell(demand.Changed{ID: m.id.String(), State: demand.Deleting})
		m.told = demand.Deleting
	})
}
