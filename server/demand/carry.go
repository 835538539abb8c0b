package demand

// This file changes machines as decisions say, and writes the actions down.

import "slices"

// What a preempted machine leaves is kept this long for the need that it was taken for.
const earmarkFor = 600_000

func (w *world) emit(a Action) {
	if n := len(w.out.Actions); n == cap(w.out.Actions) {
		w.out.Actions = slices.Grow(w.out.Actions, max(n, 64))
	}
	w.out.Actions = append(w.out.Actions, a)
}

// currentPrice is what a machine costs by its offer, else what it cost when it was bound.
func (m *machine) currentPrice() int64 {
	if m.offer != nil {
		return m.offer.price()
	}
	return m.price
}

// currentRisk is the probability of an interruption as it is now, in millionths per hour.
func (m *machine) currentRisk() int64 {
	if m.offer != nil {
		return m.offer.Class.InterruptionPPM
	}
	return int64(m.more.risk)
}

// stampOf is what a machine that is bound for a need carries.
func stampOf(n *need) Stamp {
	if n == nil {
		return Stamp{Priority: unlimited}
	}
	return Stamp{Need: n.Key, Group: n.Group, Priority: n.Priority, Interruption: n.Interruption, Reclamation: n.Reclamation}
}

// provision buys one machine of an offer, bound to a cluster unless that is nil, and returns it.
func (w *world) provision(c *cluster, o *offer, n *need, why Reason) int32 {
	slot := w.fleet.add(w.settings.NewID(o.Name))
	m := w.fleet.at(slot)
	m.state, m.class, m.offer, m.price, m.more.risk = Creating, o.class, o, o.price(), int32(o.Class.InterruptionPPM)
	m.more.group, m.more.asked = o.group, Provision
	o.charge(1)
	w.locate(m)
	w.fleet.watch(slot)
	a := Action{Kind: Provision, Machine: m.id, Offer: o.Name, Reason: why, Price: m.price}
	scope := ""
	if c != nil {
		w.own(c, slot, n)
		a.Cluster, a.Stamp, scope = c.name, m.stamp, c.name
		c.spend += o.PricePerHour
	}
	a.Disposition = w.disposition(scope, o.group)
	done := a.Disposition == Execute
	if !done {
		w.undo = append(w.undo, func() { w.remove(slot) })
	}
	if n != nil {
		a.Need = n.Key
		undoing{w}.redeem(n, o, done)
		if done && n.AllOrNothing && n.memory.gangSince == 0 {
			n.memory.gangSince = w.now
		}
	}
	if done {
		w.creates++
		if c != nil {
			c.guard.loop.Created(w.now)
		}
	}
	w.emit(a)
	return slot
}

// own makes a machine a member of a cluster, the last in its keep order.
func (w *world) own(c *cluster, slot int32, n *need) {
	m := w.fleet.at(slot)
	w.fleet.seq++
	m.seq, m.cluster, m.stamp = w.fleet.seq, c.index, stampOf(n)
	m.times.bound, m.times.surplus = w.now, 0
	m.more.earmark, m.times.earmark = Key{}, 0
	c.members = append(c.members, slot)
}

// bind takes a spare machine for a cluster.
func (w *world) bind(c *cluster, slot int32, n *need, why Reason) {
	m := w.fleet.at(slot)
	undoing{w}.undoLater(slot, w.disposition(c.name, m.more.group))
	w.own(c, slot, n)
	m.price, m.more.asked = m.currentPrice(), Bootstrap
	if m.state == Idle {
		w.configure(m)
	}
	if m.offer != nil {
		c.spend += m.offer.PricePerHour
	}
	a := Action{Kind: Bootstrap, Machine: m.id, Cluster: c.name, Stamp: m.stamp, Need: m.stamp.Need, Price: m.price, Reason: why}
	a.Disposition = w.disposition(c.name, m.more.group)
	w.emit(a)
}

// become changes the state of a machine, and what is counted by states.
func (w *world) become(m *machine, to State) {
	w.count(m, -1)
	m.more.undo, m.state = m.state, to
	m.times.drain, m.more.waits = 0, ""
	if to == Draining {
		m.times.drain = w.now
	} else {
		m.voluntary = false
	}
	w.count(m, 1)
}

// count adds a machine to what is counted by states, or takes it off.
func (w *world) count(m *machine, n int64) {
	g := m.more.group
	switch {
	case m.fixed:
	case m.state == Configured && m.leaving: // it is none of those of which a share may be given back
		if m.voluntary {
			g.draining += n
		}
	case m.state == Configured:
		g.configured += n
		if m.cluster >= 0 {
			w.clusters[m.cluster].guard.configured += n
		}
	case m.state == Draining && m.voluntary:
		g.draining += n
	}
}

// configure notes that a machine is being configured for its cluster.
func (w *world) configure(m *machine) {
	w.become(m, Configuring)
	m.tenant = m.cluster
	m.times.join = w.now + millis(m.more.group.joinDeadline())
	w.wake(m.times.join)
}

// drain takes a machine from its cluster, and reports whether that is carried out.
func (w *world) drain(slot int32, a Action) bool {
	m := w.fleet.at(slot)
	c := w.clusters[m.cluster]
	a.Machine, a.Cluster = m.id, c.name
	a.Disposition = stronger(a.Disposition, w.disposition(c.name, m.more.group))
	w.emit(a)
	undoing{w}.undoLater(slot, a.Disposition)
	w.become(m, Draining)
	if a.Voluntary {
		m.voluntary = true
		m.more.group.draining++
	}
	w.leave(c, slot)
	w.fleet.watch(slot)
	return a.Disposition == Execute
}

// retire ends a machine that serves a cluster: it is moved off as every instance is that has to go. It reports
// whether that is carried out.
func (w *world) retire(slot int32, a Action) bool {
	m := w.fleet.at(slot)
	c := w.clusters[m.cluster]
	a = Action{Kind: Delete, Machine: m.id, Cluster: c.name, Reason: a.Reason, Disposition: w.disposition(c.name, m.more.group)}
	w.emit(a)
	undoing{w}.undoLater(slot, a.Disposition)
	w.count(m, -1)
	m.leaving, m.voluntary = true, true
	w.count(m, 1)
	w.leave(c, slot)
	w.fleet.watch(slot)
	return a.Disposition == Execute
}

// leave takes a machine out of the keep order of its cluster.
func (w *world) leave(c *cluster, slot int32) {
	if i := slices.Index(c.members, slot); i >= 0 {
		c.members = slices.Delete(c.members, i, i+1)
		c.flags.stale, c.flags.dirty = true, true
	}
}

// free takes a machine from its cluster for good: what it was bound for is forgotten.
func (w *world) free(slot int32) {
	m := w.fleet.at(slot)
	if m.cluster < 0 {
		return
	}
	c := w.clusters[m.cluster]
	w.leave(c, slot)
	if m.offer != nil {
		c.spend -= m.offer.PricePerHour
	}
	m.cluster, m.stamp, m.pos = -1, Stamp{}, -1
	m.times.surplus, m.times.configured, m.times.join = 0, 0, 0
	w.supply++
}

// remove forgets a machine that does not exist any longer.
func (w *world) remove(slot int32) {
	m := w.fleet.at(slot)
	w.count(m, -1)
	w.bequeath(m)
	w.free(slot)
	if m.offer != nil {
		m.offer.charge(-1)
	}
	w.fleet.loose = slices.DeleteFunc(w.fleet.loose, func(s int32) bool { return s == slot })
	w.topo.leave(m.more.places)
	w.fleet.remove(slot)
	w.supply++
}

// bequeath keeps the units that a deleted machine leaves for the need that it was taken for.
func (w *world) bequeath(m *machine) {
	if m.more.earmark == (Key{}) || m.offer == nil || m.times.earmark <= w.now {
		return
	}
	for _, u := range m.offer.uses {
		u.pool.marks = append(u.pool.marks, mark{m.more.earmark, u.units, w.now + earmarkFor})
	}
}

// need returns a need by its key; nil: there is none.
func (w *world) need(key Key) *need {
	for _, c := range w.clusters {
		if n := c.byKey[key]; n != nil {
			return n
		}
	}
	return nil
}

const (
	coolFirst = 180_000
	coolMost  = 1_800_000
	coolQuota = 600_000
	joinSpan  = 1_800_000
	joinsMost = 3
	blobPause = 300_000
)

// fail notes that a machine will be of no use, and what follows for what is bought next.
func (w *world) fail(slot int32, why Failure) {
	m := w.fleet.at(slot)
	if m.cluster >= 0 {
		c := w.clusters[m.cluster]
		if why == NeverJoined || why == FailureOther {
			c.guard.loop.Failed(w.now)
		}
		c.flags.event = true
	}
	if m.offer != nil {
		m.offer.fail(why, w.now)
	}
	w.become(m, Failed)
	w.free(slot)
	m.times.failed = w.now
	w.fleet.watch(slot)
}

// fail lets an offer cool down after a failure of one of its machines.
func (o *offer) fail(why Failure, now instant) {
	switch why {
	case NoCapacity:
		if now < o.coolUntil {
			return // a create of the same try
		}
		o.coolFor = min(max(coolFirst, 2*o.coolFor), coolMost)
		o.coolUntil = now + o.coolFor
	case OverQuota:
		o.coolUntil = max(o.coolUntil, now+coolQuota)
	case Lost:
	default:
		o.joinFailures.Add(now, 1)
		if o.joinFailures.Sum(now, joinSpan) >= joinsMost {
			o.coolUntil = max(o.coolUntil, now+coolMost)
		}
	}
}

// succeed ends what a failure of the offer has caused.
func (o *offer) succeed() { o.coolFor, o.coolUntil = 0, 0 }

// undoing takes back what was decided and is not carried out. What is suspended is changed like the rest while a cycle
// decides, so that a paused shard decides what any other would (E12), and is changed back at the end of the cycle, the last
// change first.
type undoing struct{ *world }

// undoLater remembers what a machine is, if the change that follows is not to be carried out.
func (w undoing) undoLater(slot int32, d Disposition) {
	if d == Execute {
		return
	}
	before := *w.fleet.at(slot)
	w.undo = append(w.undo, func() { w.restore(slot, &before) })
}

// restore makes a machine what it was, with all that is counted of it.
func (w undoing) restore(slot int32, before *machine) {
	m := w.fleet.at(slot)
	w.count(m, -1)
	w.free(slot)
	*m = *before
	w.count(m, 1)
	if m.cluster < 0 {
		return
	}
	c := w.clusters[m.cluster]
	c.members = append(c.members, slot)
	c.flags.stale, c.flags.dirty = true, true
	if m.offer != nil {
		c.spend += m.offer.PricePerHour
	}
}

// redeem uses what pools keep for a need up, for a machine that is bought for it. If that is not carried
// out, the pools keep it again after the cycle.
func (w undoing) redeem(n *need, o *offer, done bool) {
	for _, u := range o.uses {
		if len(u.pool.marks) == 0 {
			continue
		}
		if !done {
			before := slices.Clone(u.pool.marks)
			w.undo = append(w.undo, func() { u.pool.renew(n.Key, before) })
		}
		u.pool.redeem(n.Key, u.units)
	}
}

// undoFailureLater remembers what is known of an offer's failures, and of a cluster's.
func (w undoing) undoFailureLater(c *cluster, o *offer) {
	loop := c.guard.loop.Clone()
	w.undo = append(w.undo, func() { c.guard.loop = loop })
	if o != nil {
		cooling := o.cooling
		cooling.joinFailures = cooling.joinFailures.Clone()
		w.undo = append(w.undo, func() { o.cooling = cooling })
	}
}

// revert takes back what was decided in this cycle and is not carried out.
func (w undoing) revert() {
	for _, undo := range slices.Backward(w.undo) {
		undo()
	}
	clear(w.undo)
	w.undo = w.undo[:0]
}
