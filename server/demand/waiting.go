package demand

import (
	"fmt"
	"slices"

	"nstance.dev/server/demand/vector"
)

// waiting deals with machines that wait for what their cluster has to say. Their needs draw from them as
// from machines that join, so that nothing more is bought; how long it takes says nothing of an offer.
type waiting struct{ *world }

// note notes that a machine waits, or waits no longer.
func (w waiting) note(slot int32, why Reason) error {
	m := w.fleet.at(slot)
	if m.state != Configuring {
		return fmt.Errorf("waits while %s: %w", m.state, ErrTransition)
	}
	if why == "" && m.more.waits != "" {
		m.times.join = w.now + millis(m.more.group.joinDeadline())
		w.wake(m.times.join)
	}
	m.more.waits = why
	return nil
}

// tally has needs say that they wait whose machines have waited longer than their groups' join deadlines.
func (w waiting) tally() {
	for _, n := range w.waited {
		n.lack.waits = waits{}
	}
	w.waited = w.waited[:0]
	for _, slot := range w.fleet.loose {
		m := w.fleet.at(slot)
		if m.state != Configuring || m.more.waits == "" || m.leaving || m.times.join > w.now {
			continue
		}
		c := w.clusters[m.cluster]
		n := c.byKey[m.stamp.Need]
		if n == nil || m.pos < 0 || int(m.pos) >= len(c.ledger.slots) || c.ledger.slots[m.pos] != slot || c.ledger.claims[m.pos].needs == 0 {
			continue
		}
		n.lack.waits.amount.Add(&c.alloc[m.class])
		n.lack.waits.why = m.more.waits
		if !slices.Contains(w.waited, n) {
			w.waited = append(w.waited, n)
		}
	}
	for _, n := range w.waited {
		asked := vector.Vector{}
		for i := range n.parts {
			asked.Add(n.amount(&n.parts[i]))
		}
		n.lack.waits.amount.Min(&asked)
		if !slices.Contains(w.short, n) {
			w.short = append(w.short, n)
		}
	}
}
