package demand

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// intake takes in what the engine is told.
type intake struct{ *world }

// apply takes one event in. What is not possible is refused, and what was known before holds.
func (w intake) apply(e Event) error {
	switch e := e.(type) {
	case Rollup:
		w.rollup(e)
	case Session:
		c := w.cluster(e.Cluster)
		c.flags.live = e.Live
	case GroupChanged:
		w.setGroup(e.Group)
	case OffersChanged:
		return w.setOffers(e.Offers)
	case PoolChanged:
		p := w.cat.pool(e.Name)
		p.limit = e.Limit
		w.supply++
	case PolicyChanged:
		return w.setPolicy(e.Policy)
	case Observed:
		w.cat.savers.observe(e.Machine)
		return w.observe(e.Machine)
	case Suspended:
		w.suspend(e)
	default:
		return w.applyMachine(e)
	}
	return nil
}

// applyMachine takes in what is said of one machine.
func (w intake) applyMachine(e Event) error {
	switch e := e.(type) {
	case Changed:
		return w.withMachine(e.ID, func(slot int32) error { return w.change(slot, e.State, e.Failure) })
	case Leaving:
		return w.withMachine(e.ID, func(slot int32) error { w.depart(slot); return nil })
	case Outdated:
		return w.withMachine(e.ID, func(slot int32) error { return w.outdate(slot, e.Reason) })
	case Held:
		return w.withMachine(e.ID, func(slot int32) error { w.fleet.at(slot).more.held = instantOf(e.Until); return nil })
	case Gone:
		return w.withMachine(e.ID, func(slot int32) error { w.lose(slot); return nil })
	case Report:
		return w.withMachine(e.ID, func(slot int32) error { w.report(slot, e); return nil })
	case Refused:
		return w.withMachine(e.ID, func(slot int32) error { return w.refuse(slot, instantOf(e.Until)) })
	case Dropped:
		return w.withMachine(e.ID, func(slot int32) error { w.drop(slot); return nil })
	case BlobFailed:
		return w.withMachine(e.ID, w.blobFailed)
	case Waits:
		return w.withMachine(e.ID, func(slot int32) error { return waiting(w).note(slot, e.For) })
	default:
		return fmt.Errorf("event %T is not known", e)
	}
}

func (w intake) withMachine(id string, do func(int32) error) error {
	slot, ok := w.fleet.byID[id]
	if !ok {
		return fmt.Errorf("machine %s is not known", id)
	}
	if err := do(slot); err != nil {
		return fmt.Errorf("machine %s: %w", id, err)
	}
	return nil
}

func (w intake) suspend(e Suspended) {
	switch {
	case e.Paused:
		w.scopes[e.Scope] = Suppressed
	case e.RehearsalOnly:
		w.scopes[e.Scope] = DryRun
	default:
		delete(w.scopes, e.Scope)
	}
}

// setPolicy replaces the policy. Needs that were short may be served by it, so that they are looked at again.
func (w intake) setPolicy(p Policy) error {
	if err := p.validate(); err != nil {
		return err
	}
	p.Victims = cmp.Or(p.Victims, DefaultWeights)
	w.settings.Policy = p
	w.supply++
	return nil
}

func (w intake) setGroup(spec Group) {
	g := w.cat.group(spec.Name)
	g.Group, g.removed = spec, false
	g.limits, _ = w.known(spec.Limits.Resources) // what no offer has bounds nothing
	w.cat.savers.list(g)
	w.supply++
	for _, c := range w.clusters {
		before := len(c.minimums)
		c.minimums = slices.DeleteFunc(c.minimums, func(m minimum) bool { return m.group == g })
		c.flags.dirty = c.flags.dirty || len(c.minimums) < before
	}
	if spec.Min > 0 && spec.Tenant != "" {
		c := w.cluster(spec.Tenant)
		c.minimums = append(c.minimums, minimum{group: g, missing: spec.Min})
		slices.SortFunc(c.minimums, func(a, b minimum) int { return strings.Compare(a.group.Name, b.group.Name) })
		c.flags.dirty = true
	}
}

// observe takes in a machine that a record describes.
func (w intake) observe(s Supply) error {
	switch {
	case s.State == Speculative || int(s.State) >= len(stateNames):
		return fmt.Errorf("machine %s: %s is no state of a machine", s.ID, s.State)
	case s.Price < 0:
		return fmt.Errorf("machine %s: price %d must not be negative", s.ID, s.Price)
	}
	before := w.forget(s.ID)
	slot := w.fleet.add(s.ID)
	m := w.fleet.at(slot)
	m.state, m.fixed, m.price, m.more.risk = s.State, s.Fixed, s.Price, int32(min(s.Class.InterruptionPPM, 1_000_000))
	m.class = w.cat.intern(s.Class)
	m.more.group = w.cat.group(s.Class.Group)
	m.more.places = w.topo.placed(s.Domains)
	if s.Offer != "" {
		m.offer = w.cat.offerOf(s)
		m.offer.charge(1)
	}
	m.voluntary = s.State == Draining && s.Voluntary
	if s.Tenant != "" {
		m.tenant = w.cluster(s.Tenant).index
	}
	w.nameDomains()
	w.locate(m)
	m.times.idle = w.now
	if s.Cluster != "" && s.State != Deleting && s.State != Failed {
		w.bound(s, slot, &before)
	}
	switch s.State {
	case Configuring:
		m.times.join = w.now + millis(m.more.group.joinDeadline())
	case Failed:
		m.times.failed = w.now
	}
	w.count(m, 1)
	if s.State != Configured {
		w.fleet.watch(slot)
	}
	w.supply++
	return nil
}

// bound takes in that a machine belongs to a cluster, as its record says; before is what was known of it.
func (w intake) bound(s Supply, slot int32, before *machine) {
	m, c, since := w.fleet.at(slot), w.cluster(s.Cluster), instantOf(s.Since)
	w.own(c, slot, nil)
	m.stamp, m.times.bound, m.times.configured = s.Stamp, since, since
	if before.id != "" && before.cluster == c.index { // its record was read again
		m.seq = before.seq
		m.times.refused = before.times.refused // E11
		m.times.surplus, m.times.empty = before.times.surplus, before.times.empty
	}
	if s.State == Draining {
		w.leave(c, slot)
	}
	if s.State == Configuring || s.State == Configured || s.State == Draining {
		m.tenant = c.index // E7
	}
	if m.offer != nil {
		c.spend += m.offer.PricePerHour
	}
	c.flags.stale, c.flags.dirty = true, true
}

// forget removes a machine and returns what it was; the zero machine where it was not known.
func (w intake) forget(id string) (before machine) {
	slot, ok := w.fleet.byID[id]
	if !ok {
		return machine{}
	}
	before = *w.fleet.at(slot)
	w.lose(slot)
	return before
}

// change moves a machine to another state.
func (w intake) change(slot int32, to State, why Failure) error {
	m := w.fleet.at(slot)
	if err := Move(m.state, to); err != nil {
		return err
	}
	from, began := m.state, m.times.drain
	if from == to {
		return nil
	}
	switch to {
	case Speculative:
		w.remove(slot)
		return nil
	case Failed:
		w.fail(slot, why)
		return nil
	case Configuring:
		if m.cluster < 0 {
			return fmt.Errorf("%s to %s without a cluster: %w", from, to, ErrTransition)
		}
		w.configure(m)
	case Configured:
		w.configured(slot)
	case Draining:
		w.become(m, to)
		w.leave(w.clusters[m.cluster], slot)
	default:
		w.become(m, to)
	}
	w.fleet.watch(slot)
	w.supply++
	switch {
	case to == Idle && from == Creating:
		m.times.idle = w.now
		if m.offer != nil {
			m.offer.succeed()
		}
	case to == Idle && from == Draining, to == Deleting:
		if began != 0 {
			w.cat.classes[m.class].drained(w.now - began)
		}
		w.free(slot)
		m.times.idle = w.now
	}
	return nil
}

// configured notes that a machine's Node is ready, or that its drain was given up.
func (w intake) configured(slot int32) {
	m := w.fleet.at(slot)
	back := m.state == Draining
	w.become(m, Configured)
	c := w.clusters[m.cluster]
	if !back {
		m.times.configured, m.times.join = w.now, 0
		c.guard.loop.Joined()
		if m.offer != nil {
			m.offer.succeed()
		}
		w.served(c, m)
		if n := c.byKey[m.stamp.Need]; n != nil && n.memory.gangSince != 0 && !n.short() && w.fleet.runs(n) {
			n.memory.gangSince = 0 // it is whole; what it loses later is another try
		}
		return
	}
	m.times.refused, m.times.surplus, m.more.vacated = max(m.times.refused, w.now+refusalHold), 0, false
	m.more.earmark = Key{}
	if !m.leaving {
		c.members = append(c.members, slot)
		c.flags.stale, c.flags.dirty = true, true
	}
}

// served notes that a need has got its first machine.
func (w intake) served(c *cluster, m *machine) {
	if n := c.byKey[m.stamp.Need]; n != nil && !n.memory.served {
		n.memory.served = true
		w.out.Served = append(w.out.Served, Service{c.name, time.Duration(w.now-n.firstSeen) * time.Millisecond})
	}
}

// refuse notes that the operator does not give a machine back (E11).
func (w intake) refuse(slot int32, until instant) error {
	m := w.fleet.at(slot)
	m.times.refused, m.more.vacated = max(until, w.now+refusalHold), false
	switch m.state {
	case Configured:
		return nil
	case Draining:
		w.configured(slot)
		return nil
	default:
		return fmt.Errorf("refused while %s: %w", m.state, ErrTransition)
	}
}

// depart takes a machine that goes for another reason out of what counts.
func (w intake) depart(slot int32) {
	m := w.fleet.at(slot)
	if m.leaving {
		return
	}
	w.count(m, -1)
	m.leaving = true
	w.count(m, 1)
	w.fleet.watch(slot)
	w.supply++
	if m.cluster >= 0 {
		c := w.clusters[m.cluster]
		w.leave(c, slot)
		c.flags.event = true
	}
}

// lose forgets a machine that is gone.
func (w intake) lose(slot int32) {
	m := w.fleet.at(slot)
	if m.bound() {
		w.clusters[m.cluster].flags.event = true
	}
	w.remove(slot)
}

// drop takes an action back that was not begun.
func (w intake) drop(slot int32) {
	m := w.fleet.at(slot)
	w.supply++
	switch m.state {
	case Creating, Idle:
		w.dropBinding(slot)
	case Configuring:
		w.become(m, Idle)
		w.free(slot)
		m.times.idle = w.now
	case Draining:
		c := w.clusters[m.cluster]
		w.become(m, Configured)
		m.more.earmark = Key{}
		c.members = append(c.members, slot)
		c.flags.stale, c.flags.dirty = true, true
	case Deleting:
		w.become(m, m.more.undo)
	case Configured:
		if m.leaving && m.voluntary {
			w.count(m, -1)
			m.leaving, m.voluntary = false, false
			w.count(m, 1)
			c := w.clusters[m.cluster]
			c.members = append(c.members, slot)
			c.flags.stale, c.flags.dirty = true, true
		}
	}
}

// dropBinding takes an action back that a machine which is not configured was meant by. Only one that
// was not begun to be made does not exist.
func (w intake) dropBinding(slot int32) {
	m := w.fleet.at(slot)
	switch m.more.asked {
	case Provision:
		if m.state == Creating {
			w.lose(slot)
		}
	case Bootstrap:
		w.free(slot)
	case Cancel:
		if m.cluster < 0 {
			c := w.clusters[m.more.meantFor]
			w.own(c, slot, nil)
			m.stamp = Stamp{}
			c.flags.stale, c.flags.dirty = true, true
		}
	}
}

// blobFailed keeps the need that a machine was bound for from buying, because the cluster cannot be
// joined, and leaves the machine idle.
func (w intake) blobFailed(slot int32) error {
	m := w.fleet.at(slot)
	if m.cluster < 0 {
		return fmt.Errorf("blob failed while %s: %w", m.state, ErrTransition)
	}
	c := w.clusters[m.cluster]
	if n := c.byKey[m.stamp.Need]; n != nil {
		n.block(BootstrapError, w.now+blobPause, w.fleet.seq+1)
	}
	if m.state == Configuring {
		w.become(m, Idle)
	}
	w.free(slot)
	m.times.idle = w.now
	w.fleet.watch(slot)
	return nil
}
