package demand

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"nstance.dev/server/demand/vector"
)

// crediting computes which machines serve what, in one goroutine of several.
type crediting struct {
	*world
	*workspace
}

// credit computes which machines serve what in every cluster of which something changed. Clusters
// are computed beside each other by as many workers as there are settings for: each reads what all
// share, and writes what is its own cluster's.
func (w *world) credit() {
	w.matchAll()
	w.topo.rank()
	w.dirty = w.dirty[:0]
	for _, c := range w.sorted {
		c.ledger.widen(w.cat.space.Len())
		if c.flags.due != 0 && c.flags.due <= w.now {
			c.flags.dirty = true
		}
		if c.flags.dirty || c.lacks && w.supply != w.credited {
			w.dirty = append(w.dirty, c)
		}
	}
	w.credited = w.supply
	dirty := w.dirty
	var next atomic.Int64
	work := func(space *workspace) {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(dirty) {
				return
			}
			crediting{w, space}.creditCluster(dirty[i])
		}
	}
	workers := max(min(w.settings.Workers, len(dirty)), 1)
	for len(w.spaces) < workers {
		w.spaces = append(w.spaces, &workspace{})
	}
	var group sync.WaitGroup
	for _, space := range w.spaces[1:workers] {
		group.Go(func() { work(space) })
	}
	work(w.spaces[0])
	group.Wait()
	for _, c := range w.sorted {
		w.wake(c.flags.due)
	}
	for _, c := range dirty {
		if c.flags.reordered {
			w.out.Reordered++
		}
	}
}

// creditCluster computes the claims of one cluster, and a better keep order where an event allows
// another one.
func (w crediting) creditCluster(c *cluster) {
	if c.flags.start {
		w.start(c)
	}
	if c.flags.stale {
		w.fill(c)
	}
	for _, n := range c.needs {
		w.evaluate(c, n)
	}
	c.levels = c.levels.of(c.needs)
	split := len(c.ledger.slots)
	if c.flags.event {
		split = w.byCost(c)
	}
	w.attribute(c, split)
	if c.flags.reordered = w.rerank(c, split); c.flags.reordered {
		w.attribute(c, len(c.ledger.slots))
	}
	w.date(c)
	c.flags.dirty, c.flags.event = false, false
}

// start orders the members of a cluster of which a new process knows no order: by when they were
// bound.
func (w crediting) start(c *cluster) {
	c.flags.start = false
	seqs := make([]uint64, 0, len(c.members))
	for _, slot := range c.members {
		seqs = append(seqs, w.fleet.at(slot).seq)
	}
	slices.Sort(seqs)
	slices.SortFunc(c.members, func(a, b int32) int {
		return cmp.Or(cmp.Compare(w.fleet.at(a).times.bound, w.fleet.at(b).times.bound), cmp.Compare(w.fleet.at(a).id, w.fleet.at(b).id))
	})
	for i, slot := range c.members {
		w.fleet.at(slot).seq = seqs[i]
	}
	c.flags.stale, c.flags.event = true, true
}

// fill puts the members into the ledger in keep order: fixed ones first, then by number.
func (w crediting) fill(c *cluster) {
	slices.SortFunc(c.members, func(a, b int32) int {
		ma, mb := w.fleet.at(a), w.fleet.at(b)
		if ma.fixed != mb.fixed {
			if ma.fixed {
				return -1
			}
			return 1
		}
		return cmp.Compare(ma.seq, mb.seq)
	})
	l := &c.ledger
	l.reset(w.cat.space.Len())
	for _, n := range c.needs {
		if n.profile.same >= 0 {
			l.track(n.profile.same)
		}
		for _, s := range n.profile.spread {
			l.track(s.key)
		}
	}
	c.spares = c.spares[:0]
	w.allocate(c)
	for _, slot := range c.members {
		m := w.fleet.at(slot)
		m.pos = l.push(slot, m, &c.alloc[m.class])
	}
	c.flags.stale = false
}

// attribute lets the needs draw from the machines in walk order, and notes what each part still lacked at a position, for
// [crediting.rerank].
func (w crediting) attribute(c *cluster, split int) {
	l := &c.ledger
	w.allocate(c)
	l.refill(c.alloc, len(c.levels))
	w.keepMinimum(c, l)
	c.flags.due, w.rests = 0, w.rests[:0]
	for _, n := range c.needs {
		w.unpark(c, n)
		w.plan(c, n)
		n.unblock(w.now)
		if n.memory.gave && n.memory.blocked == 0 {
			n.memory.gave = false
		}
		if n.memory.blocked != 0 {
			w.wakeFrom(c, n.memory.blocked)
		}
		n.memory.own = w.incomplete(c, n)
		for i := range n.parts {
			p := &n.parts[i]
			p.deficit = *n.amount(p)
			if !n.memory.gave {
				l.draw(n, p, &p.deficit, 0, split, c.levels, n.memory.own)
			}
			if split == len(l.slots) {
				continue
			}
			w.rests = append(w.rests, p.deficit)
			if !n.memory.gave && !p.deficit.IsZero() {
				l.draw(n, p, &p.deficit, split, len(l.slots), c.levels, n.memory.own)
			}
		}
		n.sum()
	}
}

// unpark ends the pause of a Same need that stopped buying, when there is more for it than there was.
func (w crediting) unpark(c *cluster, n *need) {
	if n.memory.blocked == 0 || n.memory.blockedWhy != Parked || n.memory.parkedAt == w.supply {
		return
	}
	n.memory.parkedAt = w.supply
	if have := w.placed(c, n); !n.memory.parkedWith.Covers(&have) {
		n.memory.blocked, n.memory.horizon = 0, 0
	}
}

// incomplete reports whether a need wants all or nothing and cannot have all: it keeps what was
// bought for it, and draws nothing else.
func (w crediting) incomplete(c *cluster, n *need) bool {
	if !n.AllOrNothing {
		return false
	}
	for i := range n.parts {
		p := &n.parts[i]
		lack := c.ledger.lacking(n, p.within, *n.amount(p))
		if !lack.IsZero() && n.memory.blocked <= w.now {
			more := w.acquirable(c, n, p.within)
			lack.Sub(&more)
		}
		if !lack.IsZero() {
			return true
		}
	}
	return n.memory.nowhere
}

// keepMinimum claims the first machines of each group that its minimum asks for.
func (w crediting) keepMinimum(c *cluster, l *ledger) {
	for i := range c.minimums {
		left := c.minimums[i].group.Min
		for pos := 0; pos < len(l.slots) && left > 0; pos++ {
			if w.cat.classes[l.classes[pos]].Group == c.minimums[i].group.Name {
				l.claims[pos] = claim{needs: 1, priority: unlimited}
				left--
			}
		}
		c.minimums[i].missing = left
	}
}

// date notes since when each machine has had no claimant. A machine is looked at when it got one or
// lost one; of machines that were put into the ledger since the last time that is not known.
func (w crediting) date(c *cluster) {
	l := &c.ledger
	since := w.now
	if c.guard.freedSince != 0 {
		since = c.guard.freedSince
	}
	if len(c.spares) == 0 {
		for _, slot := range c.unclaimed {
			if m := w.fleet.at(slot); m.cluster == c.index && m.pos >= 0 && int(m.pos) < len(l.slots) && l.slots[m.pos] == slot && l.claims[m.pos].needs > 0 {
				m.times.surplus = 0
			}
		}
	}
	c.unclaimed = c.unclaimed[:0]
	c.spares = grow(c.spares, (len(l.slots)+63)>>6)
	for word := range c.spares {
		before, now := c.spares[word], l.spareOf(word)
		c.spares[word] = now
		for set := now; set != 0; set &= set - 1 {
			c.unclaimed = append(c.unclaimed, l.slots[word<<6+bits.TrailingZeros64(set)])
		}
		for set := before ^ now; set != 0; set &= set - 1 {
			bit := bits.TrailingZeros64(set)
			switch m := w.fleet.at(l.slots[word<<6+bit]); {
			case now>>bit&1 == 0:
				m.times.surplus = 0
			case m.times.surplus == 0:
				m.times.surplus = since
			}
		}
	}
	c.guard.freedSince = 0
}

// spareOf is one word of the set of positions that nothing draws from, but for those of fixed machines.
func (l *ledger) spareOf(word int) (set uint64) {
	from := word << 6
	for i, c := range l.claims[from:min(from+64, len(l.claims))] {
		if c.needs == 0 && !l.ranks[l.rankOf[from+i]].fixed {
			set |= 1 << i
		}
	}
	return set
}

// spare reports whether there is a machine that nothing draws from, but for fixed ones.
func (l *ledger) spare() bool {
	for word := range (len(l.slots) + 63) >> 6 {
		if l.spareOf(word) != 0 {
			return true
		}
	}
	return false
}

// rerank looks for a keep order in which cheap machines are kept and dear ones are free, and reports
// whether it took it. It takes one only if no need lacks more of anything, and what is claimed costs
// less; a cluster in which every machine has a claimant is left alone. Machines before split have their place in
// both orders, so every need draws the same from them, and only the others are tried.
func (w crediting) rerank(c *cluster, split int) bool {
	l := &c.ledger
	if split == len(l.slots) || !l.spare() {
		return false
	}
	cost := int64(0)
	for pos := split; pos < len(l.slots); pos++ {
		if l.claims[pos].needs > 0 {
			cost += l.ranks[l.rankOf[pos]].cost
		}
	}
	trial := &w.trial
	trial.permute(l, w.order[split:], c.alloc)
	if split == 0 {
		w.keepMinimum(c, trial)
	}
	part := 0
	for _, n := range c.needs {
		for i := range n.parts {
			p := &n.parts[i]
			lack := w.rests[part]
			part++
			if !n.memory.gave && !lack.IsZero() {
				trial.draw(n, p, &lack, 0, len(trial.slots), c.levels, n.memory.own)
			}
			if !p.deficit.Covers(&lack) {
				return false
			}
		}
	}
	for pos, i := range trial.rankOf {
		if trial.claims[pos].needs > 0 {
			cost -= trial.ranks[i].cost
		}
	}
	if cost <= 0 {
		return false
	}
	w.seqs = append(w.seqs[:0], l.seqs...)
	slices.Sort(w.seqs)
	for i, pos := range w.order {
		w.fleet.at(l.slots[pos]).seq = w.seqs[i]
	}
	w.fill(c)
	return true
}

// byCost makes order the positions of a ledger with the cheap machines first, and returns the first one at which that is
// another machine; 0 where a group's minimum claims the first ones. Of ranks there are few, so the machines are dealt out
// to them instead of being compared with each other.
func (w crediting) byCost(c *cluster) (split int) {
	l := &c.ledger
	w.starts = slices.Grow(w.starts[:0], len(l.ranks))[:len(l.ranks)]
	clear(w.starts)
	for _, i := range l.rankOf {
		w.starts[i]++
	}
	w.order = slices.Grow(w.order[:0], len(l.slots))[:len(l.slots)]
	w.deal(l.ranks)
	for pos, i := range l.rankOf {
		w.order[w.starts[i]] = int32(pos)
		w.starts[i]++
	}
	for split < len(w.order) && w.order[split] == int32(split) {
		split++
	}
	if split < len(w.order) && len(c.minimums) > 0 {
		return 0
	}
	return split
}

// workspace is what one worker writes to while it computes clusters, one after another.
type workspace struct {
	trial  ledger
	order  []int32         // positions, the cheap machines first
	rests  []vector.Vector // what each part of the cluster's needs lacked at the first of them that has another place
	starts []int32         // of each rank
	seqs   []uint64
	values []int32 // domains
	ends   []int   // of the domains of each topology in values
}

// deal makes of how many machines are of each rank where the first of them comes.
func (w *workspace) deal(ranks []rank) {
	w.values = append(w.values[:0], w.starts...)
	sorted := w.values
	for i := range sorted {
		sorted[i] = int32(i)
	}
	slices.SortFunc(sorted, func(a, b int32) int { return ranks[a].compare(ranks[b]) })
	from := int32(0)
	for _, i := range sorted {
		from, w.starts[i] = from+w.starts[i], from
	}
	w.values = sorted
}
