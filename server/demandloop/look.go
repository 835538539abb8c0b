package demandloop

import (
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/demand"
	"nstance.dev/server/fleet"
)

// look compares a machine with what the engine takes it for, tells the engine and its operator what is
// new, and goes on with what its state asks for. It may be called at any time, and twice.
func (c *core) look(id identity.ID) {
	m := c.machines[id]
	if m != nil && m.turn.busy {
		return // it is looked at when that is done
	}
	if m != nil && m.join.buying != nil {
		joining{c}.buy(m)
		return
	}
	s, exists := c.see(id)
	switch {
	case !exists && m != nil:
		c.gone(m)
		return
	case !exists:
		return
	case m == nil:
		m = &machine{id: id, failure: demand.Lost}
		m.about.fixed = s.fixed
		c.machines[id] = m
		c.introduce(m, &s)
	default:
		c.follow(m, &s)
	}
	c.tellOutdated(m, &s)
	c.tellHold(m, &s)
	framing{c}.show(m, &s)
	if !s.station.Leaving && !s.fixed {
		c.proceed(m, &s)
	}
}

// introduce tells the engine of a machine that it does not know. One that goes, it does not have to know.
func (c *core) introduce(m *machine, s *sight) {
	m.about.leaving = s.out()
	if m.about.leaving {
		return
	}
	supply, ok := c.supplyOf(s)
	if !ok {
		c.opts.Log.Warn("machine has no class: it counts for no cluster", "machine", m.id, "group", s.row.Group, "type", s.rec.InstanceType)
		return
	}
	m.told, m.about.outdated, m.about.heldUntil, m.join.waits = s.station.State, "", time.Time{}, false
	c.feed.tell(demand.Observed{Machine: supply})
}

// tellOutdated tells the engine whether a machine is to make room for another one.
func (c *core) tellOutdated(m *machine, s *sight) {
	if s.fixed || m.about.leaving || m.told == demand.Speculative {
		return
	}
	why, next := c.supply.Outdated(&s.row, c.now)
	if why != m.about.outdated {
		m.about.outdated = why
		c.feed.tell(demand.Outdated{ID: m.id.String(), Reason: why})
	}
	if !next.IsZero() {
		c.agenda.add(m, next)
	}
}

// tellHold tells the engine until when a machine is on hold.
func (c *core) tellHold(m *machine, s *sight) {
	if s.fixed || m.about.leaving || m.told == demand.Speculative {
		return
	}
	until := time.Time{}
	if s.row.Hold.InForce(c.now) {
		until = s.row.Hold.Until
	}
	if until.Equal(m.about.heldUntil) {
		return
	}
	if over := !m.about.heldUntil.IsZero() && !c.now.Before(m.about.heldUntil); until.IsZero() && over {
		m.about.heldUntil = until // the engine knows
		return
	}
	m.about.heldUntil = until
	c.feed.tell(demand.Held{ID: m.id.String(), Until: until})
}

// follow brings the engine up to what is known of a machine that was seen before.
func (c *core) follow(m *machine, s *sight) {
	switch {
	case s.out():
		c.depart(m, s)
		return
	case m.about.leaving, m.about.fixed != s.fixed: // it is judged again, or its group has another mode
		m.about.fixed = s.fixed
		c.reintroduce(m, s)
		return
	case m.told == demand.Speculative:
		c.introduce(m, s)
		return
	case m.told == demand.Configuring && m.join.toldJoining && s.intent():
		return
	}
	switch m.told {
	case s.station.State:
		return
	case demand.Failed: // that was not written down yet
		joining{c}.fail(m, "JoinTimeout", m.about.late())
		return
	}
	if m.told == demand.Creating {
		c.opts.Metrics.booted(c.now.Sub(s.row.Created))
	}
	if s.station.State == demand.Configured && m.told == demand.Configuring {
		c.opts.Metrics.joined(c.now.Sub(s.rec.Binding.BoundAt.Time))
	}
	if !c.feed.move(m.id.String(), m.told, s.station.State, m.failure) {
		c.opts.Log.Error("machine in an unexpected state", "machine", m.id, "was", m.told.String(), "is", s.station.State.String())
		c.reintroduce(m, s)
		return
	}
	m.told = s.station.State
	m.join.waits = false
}

// reintroduce tells the engine again what a machine is, which keeps what the engine remembers of it: its place in the
// keep order, and that its operator does not give it back.
func (c *core) reintroduce(m *machine, s *sight) {
	before := m.told
	m.told, m.about.leaving, m.join.toldJoining = demand.Speculative, false, false
	c.introduce(m, s)
	if m.told == demand.Speculative && before != demand.Speculative {
		c.feed.tell(demand.Gone{ID: m.id.String()})
	}
}

// depart tells the engine that a machine goes. That one goes which the engine gave up itself is no news.
func (c *core) depart(m *machine, s *sight) {
	if m.about.leaving {
		return
	}
	c.unask(m)
	if !s.station.Leaving {
		c.opts.Log.Warn("machine counts for its cluster no longer", "machine", m.id, "cluster", m.about.cluster, "reason", "its node machine failed and is left as it is: "+s.host.Failed)
	}
	m.about.leaving, m.join.toldJoining = true, false
	switch m.told {
	case demand.Speculative, demand.Deleting:
		return
	case demand.Creating:
		// Of a create that was never answered and made nothing, a leader's end is to blame, and not the offer.
		if m.failure == demand.Lost && (s.row.Verdict == fleet.ReasonRegistrationTimeout || s.row.Removal.Reason == fleet.ReasonRegistrationTimeout) {
			m.failure = demand.NeverJoined
		}
		c.feed.tell(demand.Changed{ID: m.id.String(), State: demand.Failed, Failure: m.failure})
		m.told = demand.Failed
	}
	c.feed.tell(demand.Leaving{ID: m.id.String()})
}

// gone forgets a machine that does not exist any more.
func (c *core) gone(m *machine) {
	if m.told == demand.Creating {
		c.feed.tell(demand.Changed{ID: m.id.String(), State: demand.Failed, Failure: m.failure})
	}
	c.forget(m)
	framing{c}.withdraw(m)
	delete(c.machines, m.id)
}

// forget has the engine not know a machine any more.
func (c *core) forget(m *machine) {
	if m.told != demand.Speculative {
		c.feed.tell(demand.Gone{ID: m.id.String()})
	}
	m.told, m.about.leaving, m.join.toldJoining = demand.Speculative, false, false
}

// proceed goes on with what the state of a machine asks for.
func (c *core) proceed(m *machine, s *sight) {
	if c.now.Before(m.turn.notBefore) {
		c.agenda.add(m, m.turn.notBefore)
		return
	}
	switch s.station.State {
	case demand.Idle:
		if m.join.able == unable && !s.group.UserData && !s.rec.Machine {
			joining{c}.fail(m, "NoClusterCapability", "the agent cannot join clusters: its version is too old, or the unit that joins is not installed")
			return
		}
		if s.intent() {
			joining{c}.prepare(m, s)
		}
	case demand.Configuring:
		joining{c}.goOn(m, s)
	case demand.Draining:
		draining{c}.goOn(m, s)
	default: // it waits for others
	}
}
