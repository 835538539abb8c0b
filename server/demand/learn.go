package demand

import (
	"fmt"
	"slices"

	"nstance.dev/server/demand/vector"
)

// report takes in what an operator says of a Node.
func (w intake) report(slot int32, r Report) {
	m := w.fleet.at(slot)
	m.times.empty = 0
	if r.Empty {
		m.times.empty = w.now
	}
	if len(r.Allocatable) == 0 {
		return
	}
	// What a Node names must not use up the numbers of what classes have, so it gets none.
	seen, _ := w.known(r.Allocatable)
	if w.cat.learn(m.class, &seen, w.now) {
		for _, c := range w.clusters {
			c.flags.stale, c.flags.dirty = true, true
		}
		w.supply++
	}
}

const (
	learnReports = 3
	learnEvery   = 600_000
)

// learn takes in what a Node said of its allocatable, and reports whether that changes what is
// expected of its group and type. Overheads of a cluster are no part of either side.
func (c *catalog) learn(i int32, seen *vector.Vector, now instant) bool {
	class := &c.classes[i]
	l := &c.learned[class.kind]
	differs := false
	for d := range seen {
		if seen[d] > 0 && class.alloc[d] > 0 && seen[d] < class.alloc[d]-class.alloc[d]/100 {
			differs = true
		}
	}
	if !differs || l.reports >= learnReports && !l.known {
		return false
	}
	l.reports++
	for d := range seen {
		if seen[d] == 0 {
			seen[d] = class.alloc[d]
		}
	}
	if l.reports == 1 {
		l.least = *seen
	}
	l.least.Min(seen)
	if l.reports < learnReports || l.known && now-l.changed < learnEvery {
		return false
	}
	l.known, l.changed = true, now
	for j := range c.classes {
		if c.classes[j].kind == class.kind {
			c.classes[j].alloc.Min(&l.least)
		}
	}
	c.version++
	return true
}

// outdate notes why a machine is to make room for another one; without a reason, that it is not.
func (w intake) outdate(slot int32, why Reason) error {
	i := slices.Index(wearReasons[:], why)
	if i < 0 {
		return fmt.Errorf("%q is no reason for which a machine makes room", why)
	}
	m := w.fleet.at(slot)
	m.more.worn = wear(i)
	g := m.more.group
	g.worn = slices.DeleteFunc(g.worn, func(id string) bool { return id == m.id })
	if m.more.worn != fresh && !m.fixed {
		g.worn = append(g.worn, m.id)
	}
	w.cat.savers.list(g)
	w.supply++
	return nil
}
