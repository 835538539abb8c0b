package demand

import (
	"math/bits"
	"slices"

	"nstance.dev/server/demand/vector"
)

// A Same need moves to another domain only after its own could not cover it for this long.
const domainPatience = 300_000

// plan divides a need into the parts that are credited and bought for each by itself.
func (w crediting) plan(c *cluster, n *need) {
	if len(n.profile.spread) == 0 || n.profile.same >= 0 {
		n.memory.divided = nil
	}
	switch {
	case n.profile.same >= 0:
		n.memory.nowhere = false
		value := w.choose(c, n)
		n.parts = resize(n.parts, 1)
		n.parts[0].share = whole
		n.parts[0].within = append(n.parts[0].within[:0], domain{n.profile.same, value})
		n.memory.nowhere = value < 0
	case len(n.profile.spread) > 0:
		w.spread(c, n)
	default:
		n.parts = resize(n.parts, 1)
		n.parts[0].share = whole
		n.parts[0].within = n.parts[0].within[:0]
	}
}

func resize(parts []part, n int) []part {
	if n > cap(parts) {
		parts = append(make([]part, 0, n), parts...) // of spreads over racks there are many: no room is left over
	}
	return parts[:n]
}

// offered is one domain that a Same need could be served from.
type offered struct {
	value      int32
	covers     bool
	creditable int64 // coverage by what the cluster has
	stamped    int64 // machines that were bound for the need's group
	coverage   int64 // by all that there is
	size       int64 // all that there is, as a share of the need's amounts
	machines   int64
}

// choose returns the domain that a Same need is served from; -1: none has anything for it. The
// choice of before is kept while it can cover the need, or nothing can.
func (w crediting) choose(c *cluster, n *need) int32 {
	old := n.memory.chosen
	if old >= 0 {
		if o := w.offered(c, n, old, false); o.covers {
			n.memory.uncovered = 0
			return old
		}
	}
	best := offered{value: -1}
	stays := old >= 0 && w.present(c, n, old)
	w.values = w.values[:0]
	w.valuesOf(c, n, n.profile.same)
	for _, value := range w.values {
		if stays && !w.mayCover(c, n, value) {
			continue // only one that covers the need is better than the one of before
		}
		o := w.offered(c, n, value, true)
		if o.coverage > 0 && (best.value < 0 || w.better(o, best)) {
			best = o
		}
	}
	n.memory.nowhere = best.value < 0
	if stays {
		if !best.covers || best.value == old {
			n.memory.uncovered = 0
			return old
		}
		if n.memory.uncovered == 0 {
			n.memory.uncovered = w.now
		}
		if w.now-n.memory.uncovered < domainPatience {
			w.wakeFrom(c, n.memory.uncovered+domainPatience)
			return old
		}
	}
	n.memory.uncovered = 0
	n.memory.chosen = best.value
	return best.value
}

// wakeFrom notes a due time of a cluster. Clusters are credited at the same time, so it is noted
// there.
func (w crediting) wakeFrom(c *cluster, at instant) {
	if c.flags.due == 0 || at < c.flags.due {
		c.flags.due = at
	}
}

// mayCover reports whether a domain could cover a need as far as sums say: what is left there may be in
// pieces that no unit fits into.
func (w crediting) mayCover(c *cluster, n *need, value int32) bool {
	var sum vector.Vector
	if x := c.ledger.index(n.profile.same); x != nil {
		if i := x.find(value); i >= 0 {
			for k := range x.values[i].sums {
				if s := &x.values[i].sums[k]; n.has(s.class) {
					sum.AddOf(s.left[:], n.mask)
				}
			}
		}
	}
	if sum.CoversOf(&n.total, n.mask) {
		return true
	}
	if n.memory.blocked > w.now {
		return false
	}
	more := w.acquirable(c, n, []domain{{n.profile.same, value}})
	sum.Add(&more)
	return sum.Covers(&n.total)
}

// present reports whether any machine of the cluster that can serve the need is in the domain.
func (w crediting) present(c *cluster, n *need, value int32) bool {
	x := c.ledger.index(n.profile.same)
	if x == nil {
		return false
	}
	i := x.find(value)
	if i < 0 {
		return false
	}
	for _, s := range x.values[i].sums {
		if s.count > 0 && n.has(s.class) {
			return true
		}
	}
	return false
}

// better orders domains: what covers the need first; then by what the cluster has there, by machines
// of the need's group, the smaller domain; of those that do not cover, by coverage. Every weaker
// order goes back and forth between equal domains.
func (w crediting) better(a, b offered) bool {
	if a.covers != b.covers {
		return a.covers
	}
	if a.covers {
		if a.creditable != b.creditable {
			return a.creditable > b.creditable
		}
		if a.stamped != b.stamped {
			return a.stamped > b.stamped
		}
		if a.size != b.size {
			return a.size < b.size
		}
	} else {
		if a.coverage != b.coverage {
			return a.coverage > b.coverage
		}
		if a.creditable != b.creditable {
			return a.creditable > b.creditable
		}
	}
	if a.machines != b.machines {
		return a.machines > b.machines
	}
	return w.topo.byName(a.value, b.value) < 0
}

// offered adds up what a domain has for a need; with compare also what only decides between domains.
func (w crediting) offered(c *cluster, n *need, value int32, compare bool) offered {
	o := offered{value: value}
	var have vector.Vector
	if x := c.ledger.index(n.profile.same); compare && x != nil {
		if i := x.find(value); i >= 0 {
			for k := range x.values[i].sums {
				s := &x.values[i].sums[k]
				if n.has(s.class) {
					have.Add(&s.left)
					o.machines += s.count
				}
			}
			if n.Group != "" {
				o.stamped = w.stampedIn(c, n, &x.values[i])
			}
		}
	}
	within := [...]domain{{n.profile.same, value}}
	lack := c.ledger.lacking(n, within[:], n.total)
	if compare {
		o.creditable = w.coverage(n, &lack)
	}
	if !lack.IsZero() && n.memory.blocked <= w.now {
		more := w.acquirable(c, n, within[:])
		have.Add(&more)
		lack.Sub(&more)
	}
	o.covers = lack.IsZero()
	if !compare {
		return o
	}
	o.coverage = w.coverage(n, &lack)
	for m := uint16(n.mask); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		o.size += min(have[d]/max(n.total[d], 1), 1<<40)
	}
	return o
}

// coverage is how much of a need is served if so much is lacking.
func (w crediting) coverage(n *need, lack *vector.Vector) int64 {
	got := n.total
	got.Sub(lack)
	return vector.Coverage(&got, &n.total, n.mask)
}

// stampedIn is how many machines in a domain were bound for the group of a need.
func (w crediting) stampedIn(c *cluster, n *need, v *domainValue) (count int64) {
	for _, pos := range v.positions {
		if w.fleet.at(c.ledger.slots[pos]).stamp.Group == n.Group {
			count++
		}
	}
	return count
}

// valuesOf appends to values the domains of a topology in which a need has, or could get, any machine. One
// may be there more than once.
func (w crediting) valuesOf(c *cluster, n *need, key int32) {
	if x := c.ledger.index(key); x != nil {
		for i := range x.values {
			for _, s := range x.values[i].sums {
				if s.count > 0 && n.has(s.class) {
					w.values = append(w.values, x.values[i].value)
					break
				}
			}
		}
	}
	for _, o := range w.cat.offers {
		if at := w.cat.classes[o.class].at[key]; at >= 0 {
			if free, _ := w.mayBuy(c, n, o); free > 0 {
				w.values = append(w.values, at)
			}
		}
	}
	for _, slot := range w.idle {
		m := w.fleet.at(slot)
		if !w.mayTake(c, n, m) {
			continue
		}
		for _, d := range m.more.domains {
			if d.key == key {
				w.values = append(w.values, d.value)
			}
		}
	}
}

// spread divides a need evenly over the values of its topology keys, the first key outermost. A
// division that can be served stays, whatever else could be had elsewhere meanwhile.
func (w crediting) spread(c *cluster, n *need) {
	if n.memory.divided == nil {
		n.memory.divided = &division{}
	}
	d := n.memory.divided
	if d.total == n.total && d.alike == n.alike && d.skewed.IsZero() && (len(n.parts) == 1 && w.undivided(c, n) || w.served(c, n)) {
		return
	}
	maxSkew := w.divide(c, n)
	d.total, d.alike, d.skewed, d.shares = n.total, n.alike, vector.Vector{}, d.shares[:0]
	if len(n.parts) == 1 {
		n.parts[0].share = whole
		return
	}
	most, largest := n.total, n.portion(0, len(n.parts))
	for i := range n.parts {
		p, amount := &n.parts[i], n.portion(i, len(n.parts))
		p.share = d.share(&amount)
		have := w.potential(c, n, p)
		if !have.Covers(&amount) {
			have.AddTimes(&n.unit, maxSkew)
			most.Min(&have)
		}
	}
	if most.Covers(&largest) {
		return
	}
	full := slices.Clone(d.shares)
	for i := range d.shares {
		n.shrink(&d.shares[i], &most)
	}
	for i := range n.parts {
		k := n.parts[i].share
		beyond := full[k]
		beyond.Sub(&d.shares[k])
		d.skewed.Add(&beyond)
	}
}

// undivided reports whether no topology divides a need, as that of the zone does not in a shard.
func (w crediting) undivided(c *cluster, n *need) bool {
	for _, s := range n.profile.spread {
		w.values = w.values[:0]
		w.valuesOf(c, n, s.key)
		for _, value := range w.values {
			if value != w.values[0] {
				return false
			}
		}
	}
	return true
}

// divide gives a need a part for each combination of the domains of its topologies, in the order of their
// names. A topology with one domain divides nothing. It returns the least skew that those allow which
// divide.
func (w crediting) divide(c *cluster, n *need) (maxSkew int64) {
	maxSkew = 1 << 30
	w.values, w.ends = w.values[:0], w.ends[:0]
	parts := 1
	for _, s := range n.profile.spread {
		from := len(w.values)
		w.valuesOf(c, n, s.key)
		slices.SortFunc(w.values[from:], w.topo.byName)
		w.values = w.values[:from+len(slices.Compact(w.values[from:]))]
		if count := len(w.values) - from; count < 2 {
			w.values = w.values[:from]
		} else {
			parts *= count
			maxSkew = min(maxSkew, s.maxSkew)
		}
		w.ends = append(w.ends, len(w.values))
	}
	n.parts = resize(n.parts, parts)
	for i := range n.parts {
		within, each, from := n.parts[i].within[:0], parts, 0
		for k, s := range n.profile.spread {
			values := w.values[from:w.ends[k]]
			from = w.ends[k]
			if len(values) == 0 {
				continue
			}
			each /= len(values)
			within = append(within, domain{s.key, values[i/each%len(values)]})
		}
		n.parts[i].within = within
	}
	return maxSkew
}

// served reports whether every part of a need can have what it is to have.
func (w crediting) served(c *cluster, n *need) bool {
	for i := range n.parts {
		have := w.potential(c, n, &n.parts[i])
		if !have.Covers(n.amount(&n.parts[i])) {
			return false
		}
	}
	return true
}

// potential is what a need could have for a part: what is left of its cluster's machines, and what can be
// acquired, as far as it takes to cover the amount. Where there are machines, an offer that failed counts
// again once it has made a machine: else what the other domains are bought for would be of no use whenever
// a cooldown ends.
func (w crediting) potential(c *cluster, n *need, p *part) vector.Vector {
	enough := n.amount(p)
	sum := c.ledger.remaining(n, p.within, enough)
	if sum.Covers(enough) {
		return sum
	}
	more := w.obtainable(c, n, p.within, !sum.IsZero())
	sum.Add(&more)
	return sum
}
