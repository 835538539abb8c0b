package demand

// What is suspended is changed like the rest while a cycle decides, so that a paused shard decides what
// any other would (E12), and is changed back at the end of the cycle, the last change first.

import "slices"

// undoing takes back what was decided and is not carried out.
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
