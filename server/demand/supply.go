package demand

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"nstance.dev/server/demand/vector"
)

// setOffers replaces all offers, and counts again what is used of limits. An offer with a number that
// cannot be is left out, and so is one with a resource that has no room in vectors, of which no limit would
// hold; all others hold.
func (w intake) setOffers(specs []Offer) error {
	var refused, unnamed []string
	specs = slices.Clone(specs)
	specs = slices.DeleteFunc(specs, func(o Offer) bool {
		bad := o.PricePerHour < 0 || o.Class.InterruptionPPM < 0 || o.Class.InterruptionPPM > 1_000_000 ||
			o.Class.CapacityType == Spot && o.Class.InterruptionPPM == 0
		if bad {
			refused = append(refused, o.Name)
		}
		if bad {
			return true
		}
		name := w.cat.name(&o)
		if name != "" {
			unnamed = append(unnamed, o.Name+" for "+name)
		}
		return name != ""
	})
	held := map[string]*offer{}
	w.chargeAll(-1, held)
	w.cat.setOffers(specs, held, func(name string) int32 { return w.cluster(name).index })
	w.chargeAll(1, held)
	for _, g := range w.cat.groups {
		g.limits, _ = w.known(g.Limits.Resources)
	}
	for _, o := range w.cat.offers {
		o.paid.Note(w.now, o.price())
	}
	w.vacate()
	w.nameDomains()
	w.supply++
	var err error
	if len(refused) > 0 {
		err = fmt.Errorf("offers %s: price or probability of interruption is not possible", strings.Join(refused, ", "))
	}
	if len(unnamed) > 0 {
		err = errors.Join(err, fmt.Errorf("offers left out for a resource beyond the %d that a shard counts: %s; have fewer kinds of resources in its groups",
			vector.Width, strings.Join(unnamed, ", ")))
	}
	return err
}

// vacate gives the places of classes back that no machine and no offer has any longer: a configuration that changes
// every day makes new ones every day.
func (w intake) vacate() {
	used := make([]bool, len(w.cat.classes))
	for i := range w.fleet.slots {
		if m := w.fleet.at(i); m.id != "" {
			used[m.class] = true
		}
	}
	for _, o := range w.cat.offers {
		used[o.class] = true
	}
	for _, o := range w.cat.away {
		used[o.class] = true
	}
	w.cat.vacate(used)
	for _, i := range w.cat.vacant {
		w.topo.forget(i)
	}
}

// chargeAll counts all machines that were bought from an offer, or takes them back with n of -1, and
// what their clusters spend by the price of the offer; held gets the offers.
func (w intake) chargeAll(n int64, held map[string]*offer) {
	for i := range w.fleet.slots {
		m := w.fleet.at(i)
		if m.id == "" || m.offer == nil {
			continue
		}
		held[m.offer.Name] = m.offer
		m.offer.charge(n)
		if m.cluster >= 0 {
			w.clusters[m.cluster].spend += n * m.offer.PricePerHour
		}
	}
}

// report takes in what an operator says of a Node.
func (w intake) report(slot int32, r Report) {
	m := w.fleet.at(slot)
	m.more.vacated = r.Empty && (m.more.vacated || m.times.empty == 0)
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
	i := slices.Index(outdatedReasons[:], why)
	if i < 0 {
		return fmt.Errorf("%q is no reason for which a machine makes room", why)
	}
	m := w.fleet.at(slot)
	m.more.outdatedBy = outdatedBy(i)
	g := m.more.group
	g.outdated = slices.DeleteFunc(g.outdated, func(id string) bool { return id == m.id })
	if m.more.outdatedBy != upToDate && !m.fixed {
		g.outdated = append(g.outdated, m.id)
	}
	w.cat.savers.list(g)
	w.supply++
	return nil
}
