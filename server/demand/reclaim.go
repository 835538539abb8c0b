package demand

import (
	"cmp"
	"slices"
	"time"
)

const (
	reclaimSpan   = 10_000
	reclaimGrace  = 10 * time.Minute
	scaleDown     = time.Minute
	refusalHold   = 600_000
	failedKept    = 600_000
	diagnosis     = 3_600_000
	diagnosisKeep = 5
)

// giving gives machines back, and ends them.
type giving struct{ *world }

// reclaim gives back machines that nothing draws from, the dearest first. It touches no cluster that
// has not reported in this process or is not connected (E4), and none with a roll-up that is held (E5).
func (w giving) reclaim() {
	for _, c := range w.sorted {
		if len(c.unclaimed) == 0 || !c.flags.reported {
			continue
		}
		w.cancel(c)
		if c.flags.live && !c.guard.quarantine.Waiting() {
			w.reclaimFrom(c)
		}
	}
}

// cancel takes the intent of machines back that came too late, and the binding of those that wait for their
// cluster: they are kept as idle ones.
func (w giving) cancel(c *cluster) {
	if c.guard.quarantine.Waiting() {
		return
	}
	for _, slot := range c.unclaimed {
		m := w.fleet.at(slot)
		if m.cluster != c.index || !m.intent() && m.more.waits == "" || m.more.group.UserData || w.cat.savers.hold(m.id) {
			continue
		}
		if due := m.times.surplus + millis(m.more.group.scaleDownDelay()); due > w.now {
			w.wake(due)
			continue
		}
		a := Action{Kind: Cancel, Machine: m.id, Cluster: c.name, Reason: ReasonUnclaimed}
		a.Disposition = w.disposition(c.name, m.more.group)
		w.emit(a)
		undoing(w).undoLater(slot, a.Disposition)
		m.more.asked, m.more.meantFor = Cancel, m.cluster
		if m.state == Configuring {
			w.become(m, Idle)
		}
		w.free(slot)
		m.times.idle = w.now
	}
}

// reclaimFrom drains unclaimed machines of one cluster, as many at a time as its rail allows (E6).
func (w giving) reclaimFrom(c *cluster) {
	w.spares = w.spares[:0]
	for _, slot := range c.unclaimed {
		if w.reclaimable(c, slot) {
			w.spares = append(w.spares, slot)
		}
	}
	slices.SortFunc(w.spares, func(a, b int32) int {
		ma, mb := w.fleet.at(a), w.fleet.at(b)
		if ea, eb := w.empty(c, ma), w.empty(c, mb); ea != eb {
			if ea { // else the Pods of the first would count on the room of those that go next
				return -1
			}
			return 1
		}
		return cmp.Or(
			cmp.Compare(mb.keepCost(), ma.keepCost()),
			cmp.Compare(ma.stamp.Reclamation, mb.stamp.Reclamation),
			cmp.Compare(mb.seq, ma.seq),
		)
	})
	configured := c.guard.configured
	for _, slot := range w.spares {
		m := w.fleet.at(slot)
		a := Action{Kind: Reclaim, Reason: ReasonSurplus, Grace: reclaimGrace, Voluntary: true}
		window, most := &c.guard.reclaims, max(1, configured/20)
		switch {
		case m.more.group.gives(m.id):
			a.Reason = cmp.Or(outdatedReasons[m.more.outdatedBy], ReasonConsolidation)
		case w.empty(c, m):
			a.Reason = ReasonEmpty
			window, most = &c.guard.empties, max(200, configured/10)
		}
		if !m.more.group.mayDrain(a.Reason, w.world) {
			continue
		}
		if window.Sum(w.now, reclaimSpan) >= most && w.disposition(c.name, m.more.group) == Execute {
			w.out.Capped++
			w.wake(window.Expires(reclaimSpan))
			continue
		}
		leave := w.drain
		if a.Reason == ReasonDrift || a.Reason == ReasonExpiry {
			leave = w.retire
		}
		if leave(slot, a) {
			window.Add(w.now, 1)
			c.guard.returned = w.now
		}
	}
}

// reclaimable reports whether an unclaimed machine may be given back now, as far as it alone goes.
func (w giving) reclaimable(c *cluster, slot int32) bool {
	m := w.fleet.at(slot)
	if m.cluster != c.index || m.state != Configured || m.leaving || m.fixed || w.cat.savers.hold(m.id) {
		return false
	}
	if m.more.held > w.now {
		w.wake(m.more.held)
		return false
	}
	if m.more.outdatedBy != upToDate && m.more.group.gives(m.id) {
		return true
	}
	due, empty := m.times.surplus+millis(m.more.group.scaleDownDelay()), w.empty(c, m)
	if !empty || !m.more.vacated {
		due = max(due, m.times.refused)
	}
	if !empty {
		due = max(due, m.times.configured+millis(m.more.group.MinLifetime))
	}
	if due > w.now {
		w.wake(due)
		return false
	}
	return true
}

// scaleDownDelay is how long a machine of the group has to be unclaimed.
func (g *group) scaleDownDelay() time.Duration { return cmp.Or(g.ScaleDownDelay, scaleDown) }

// mayDrain reports whether the group's disruption budgets leave room for one more drain.
func (g *group) mayDrain(why Reason, w *world) bool {
	for _, b := range g.Disruption {
		if len(b.Reasons) > 0 && !slices.Contains(b.Reasons, why) {
			continue
		}
		from, until := instantOf(b.From), instantOf(b.Until)
		if from > w.now {
			w.wake(from)
			continue
		}
		if until != 0 && until <= w.now {
			continue
		}
		most := b.Nodes
		if b.Percent {
			most = (b.Nodes*g.configured + 99) / 100
		}
		if g.draining >= most {
			w.wake(until)
			return false
		}
	}
	return true
}

// release deletes machines that have been idle for long enough. A machine with a binding, an intent
// or an earmark is never among them (E8).
func (w giving) release() {
	kept := map[*group]int64{}
	for i := len(w.fleet.loose) - 1; i >= 0; i-- {
		slot := w.fleet.loose[i]
		m := w.fleet.at(slot)
		if !m.spare() {
			continue
		}
		if m.state == Idle && m.more.outdatedBy != upToDate {
			w.end(slot, outdatedReasons[m.more.outdatedBy])
			continue
		}
		if m.state == Idle && w.uselessTo(m) {
			w.end(slot, ReasonPreempted)
			continue
		}
		g := m.more.group
		if kept[g] < g.MinIdle && !g.UserData {
			kept[g]++
			continue
		}
		if m.state != Idle {
			continue
		}
		hold, ever := w.hold(m)
		if !ever {
			continue
		}
		due := max(m.times.idle+hold, m.more.held)
		if m.more.earmark != (Key{}) {
			due = max(due, m.times.earmark)
		}
		if due > w.now {
			w.wake(due)
			continue
		}
		w.end(slot, ReasonHoldExpired)
	}
}

// uselessTo reports whether a machine was taken for a need that cannot have it: what that one waits
// for is what its end leaves in the pools.
func (w giving) uselessTo(m *machine) bool {
	if m.more.earmark == (Key{}) || m.times.earmark <= w.now {
		return false
	}
	n := w.need(m.more.earmark)
	return n != nil && n.short() && !w.mayTake(n.home, n, m)
}

// hold is how long a machine may be idle; false: for ever.
func (w giving) hold(m *machine) (ms int64, ever bool) {
	g := m.more.group
	if g.UserData {
		return 0, true
	}
	switch w.cat.classes[m.class].CapacityType {
	case OnDemand:
		ms = 600_000
	case Spot:
		ms = 60_000
	default:
		return 0, false
	}
	if g.ReleaseHold > 0 {
		ms = millis(g.ReleaseHold)
	}
	return ms, true
}

// end asks for a machine to be deleted.
func (w giving) end(slot int32, why Reason) {
	m := w.fleet.at(slot)
	a := Action{Kind: Delete, Machine: m.id, Reason: why, Disposition: w.disposition("", m.more.group)}
	w.emit(a)
	undoing(w).undoLater(slot, a.Disposition)
	w.become(m, Deleting)
	w.supply++
}

// expire ends what has waited for long enough: machines that did not join, failed ones, cooldowns, earmarks.
func (w giving) expire() {
	w.spares = w.spares[:0]
	for i := len(w.fleet.loose) - 1; i >= 0; i-- {
		slot := w.fleet.loose[i]
		m := w.fleet.at(slot)
		switch m.state {
		case Configuring:
			if m.times.join > w.now {
				w.wake(m.times.join)
			} else if !m.leaving && m.more.waits == "" {
				w.giveUp(slot)
			}
		case Failed:
			w.spares = append(w.spares, slot)
		}
	}
	w.expireFailed(w.spares)
	for _, o := range w.cat.offers {
		if o.coolUntil != 0 && o.coolUntil <= w.now {
			o.coolUntil = 0
			w.supply++ // needs that had no domain may have one again
		}
		w.wake(o.coolUntil)
	}
	for _, name := range w.cat.poolNames {
		p := w.cat.pools[name]
		p.marks = slices.DeleteFunc(p.marks, func(m mark) bool { return m.until <= w.now || m.units == 0 })
		for _, m := range p.marks {
			w.wake(m.until)
		}
	}
}

// expireFailed ends machines that have failed. The last ones of each group are kept for longer, so that
// an administrator can look at them.
func (w giving) expireFailed(slots []int32) {
	slices.SortStableFunc(slots, func(a, b int32) int { return cmp.Compare(w.fleet.at(b).times.failed, w.fleet.at(a).times.failed) })
	kept := map[*group]int{}
	for _, slot := range slots {
		m := w.fleet.at(slot)
		keep := int64(failedKept)
		if kept[m.more.group]++; kept[m.more.group] <= diagnosisKeep {
			keep = diagnosis
		}
		if due := m.times.failed + keep; due > w.now {
			w.wake(due)
		} else if !m.leaving {
			w.end(slot, ReasonFailed)
		}
	}
}

// giveUp fails a machine whose Node was not ready in time.
func (w giving) giveUp(slot int32) {
	m := w.fleet.at(slot)
	a := Action{Kind: Fail, Machine: m.id, Cluster: w.clusters[m.cluster].name, Reason: ReasonJoinTimeout}
	a.Disposition = w.disposition(a.Cluster, m.more.group)
	w.emit(a)
	if a.Disposition != Execute {
		undoing(w).undoLater(slot, a.Disposition)
		undoing(w).undoFailureLater(w.clusters[m.cluster], m.offer)
	}
	w.fail(slot, NeverJoined)
}
