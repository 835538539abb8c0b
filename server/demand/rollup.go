package demand

import (
	"reflect"
	"slices"

	"nstance.dev/server/demand/vector"
)

// A roll-up is held that takes most of what is in force away: of a cluster with so many rows, all but
// a tenth; or of one that fills so many machines, nine tenths of every resource.
const (
	quarantineRows     = 10
	quarantineMachines = 10
)

// rollup takes the needs of a cluster in, or holds them.
func (w intake) rollup(r Rollup) {
	c := w.cluster(r.Cluster)
	answer := Answer{Cluster: r.Cluster, Sequence: r.Sequence}
	switch {
	case r.Repeated && c.pending == nil:
	case r.Repeated:
		answer.Quarantined = c.guard.quarantine.Hold(true, w.now)
	default:
		c.pending = &r
		answer.Quarantined = c.guard.quarantine.Hold(c.flags.reported && w.drastic(c, r.Rows), w.now)
	}
	w.out.Answers = append(w.out.Answers, answer)
	c.flags.reported = true
	if answer.Quarantined || c.pending == nil {
		return
	}
	c.guard.freedSince = c.guard.quarantine.Since()
	c.guard.quarantine.Release()
	w.replace(c, c.pending.Rows, c.pending.Overheads)
	c.pending = nil
}

// drastic reports whether rows would take most of a cluster's demand away (E5).
func (w intake) drastic(c *cluster, rows []Row) bool {
	if len(c.needs) >= quarantineRows && !w.keepsTenth(c, rows) {
		return true
	}
	var before, after vector.Vector
	for _, n := range c.needs {
		before.AddOf(n.total[:], n.mask)
	}
	if before.IsZero() {
		return false
	}
	for i := range rows { // no more of them is looked at than it takes to see that enough is left
		total, _ := w.known(rows[i].Aggregate)
		after.Add(&total)
		for d := range before {
			if before[d] > 0 && after[d] >= (before[d]+9)/10 {
				return false
			}
		}
	}
	return w.worth(c, &before) >= quarantineMachines
}

// keepsTenth reports whether a tenth of a cluster's needs is among the rows.
func (w intake) keepsTenth(c *cluster, rows []Row) bool {
	kept := 0
	for i := range rows {
		if c.byKey[rows[i].Key] == nil {
			continue
		}
		if kept++; kept*10 >= len(c.needs) {
			return true
		}
	}
	return false
}

// worth is how many machines of those that the cluster has an amount fills at least.
func (w intake) worth(c *cluster, v *vector.Vector) int64 {
	var sum vector.Vector
	for i, slot := range c.members {
		sum.Add(w.allocatable(c, w.fleet.at(slot).class))
		if sum.Covers(v) {
			return int64(i + 1)
		}
	}
	return int64(len(c.members))
}

// replace puts rows in the place of all needs of a cluster. What is remembered of a need stays as
// long as its key is among them.
func (w intake) replace(c *cluster, rows []Row, overheads []Overhead) {
	c.rollups++
	changed, ordered := false, true
	for _, row := range rows {
		n := c.byKey[row.Key]
		if n == nil {
			n = &need{home: c, firstSeen: w.now}
			n.memory.chosen = -1
			c.needs, ordered = append(c.needs, n), false
			c.byKey[row.Key] = n
		}
		n.rollup = c.rollups
		if !sameRow(&n.Row, &row) {
			changed, ordered = true, ordered && n.Priority == row.Priority
			w.compile(n, row)
		}
	}
	before := len(c.needs)
	c.needs = slices.DeleteFunc(c.needs, func(n *need) bool {
		gone := n.rollup != c.rollups
		if gone {
			delete(c.byKey, n.Key)
			w.unmatch(n)
		}
		return gone
	})
	if !ordered {
		slices.SortFunc(c.needs, walk)
	}
	if w.setOverheads(c, overheads) || len(c.needs) < before {
		changed = true
	}
	if changed {
		c.guard.rows, c.flags.changed = w.now, w.now
		c.flags.dirty, c.flags.event = true, true
		c.flags.stale = c.flags.stale || !c.tracked()
	}
}

func sameRow(a, b *Row) bool {
	return a.Fingerprint == b.Fingerprint && a.Priority == b.Priority && a.Group == b.Group && a.Stuck == b.Stuck &&
		a.AllOrNothing == b.AllOrNothing && slices.Equal(a.Aggregate, b.Aggregate) && slices.Equal(a.MinUnit, b.MinUnit) &&
		a.Key == b.Key && len(a.Aggregate) > 0
}

// unmatch forgets what a need was matched with, once no other uses it.
func (w intake) unmatch(n *need) {
	if n.profile == nil {
		return
	}
	if n.profile.refs--; n.profile.refs > 0 {
		return
	}
	delete(w.profiles, n.Fingerprint)
	if n.profile.same >= 0 {
		w.topo.unuse(n.profile.same)
	}
	for _, s := range n.profile.spread {
		w.topo.unuse(s.key)
	}
}

// compile makes a need of a row.
func (w intake) compile(n *need, row Row) {
	w.unmatch(n)
	if n.profile != nil && n.Fingerprint != row.Fingerprint {
		n.memory = memory{chosen: -1} // what it asks for is another thing now
	}
	n.Row = row
	p, ok := w.profiles[row.Fingerprint]
	if !ok {
		p = w.profile(&row)
		w.profiles[row.Fingerprint] = p
	}
	p.refs++
	n.profile = p
	n.eligible = n.eligible[:0]
	n.version = -1
	w.measure(n)
}

func (w intake) profile(row *Row) *profile {
	p := &profile{terms: row.Terms, same: -1, int: row.Interruption}
	switch same := row.Terms.SameKey(); same {
	case "":
	case hostname:
		return p
	default:
		p.same = w.key(same)
		return p
	}
	for _, s := range row.Spread {
		if s.TopologyKey != hostname {
			p.spread = append(p.spread, skew{w.key(s.TopologyKey), max(s.MaxSkew, 1)})
		}
	}
	return p
}

// setOverheads reports whether what the machines of a cluster carry has changed.
func (w intake) setOverheads(c *cluster, specs []Overhead) bool {
	var next []overhead
	for _, spec := range specs {
		amount, _ := w.known(spec.Resources)
		next = append(next, overhead{spec.Terms, amount})
	}
	if reflect.DeepEqual(next, c.overheads) {
		return false
	}
	c.overheads = next
	c.allocOf = -1
	for _, n := range c.needs {
		n.version = -1
	}
	return true
}

// tracked reports whether the ledger knows all topologies that the needs look at.
func (c *cluster) tracked() bool {
	for _, n := range c.needs {
		if n.profile.same >= 0 && c.ledger.index(n.profile.same) == nil {
			return false
		}
		for _, s := range n.profile.spread {
			if c.ledger.index(s.key) == nil {
				return false
			}
		}
	}
	return true
}
