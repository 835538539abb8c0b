package demand

import (
	"math/bits"
	"slices"

	"nstance.dev/server/demand/vector"
)

// ledger is what a cluster's machines have left while its needs draw from them. Positions are in
// keep order: the order is one for all needs, and new machines are last for everyone, so that
// drawing again gives the same result. Sets of positions are bits, so that a need passes over
// exhausted and unsuitable machines at 64 a step; within a domain that has few, they are lists.
type ledger struct {
	slots   []int32
	seqs    []uint64
	stamps  []Key
	classes []int32 // of each position
	rankOf  []int32 // of each position: index into ranks
	ranks   []rank  // that there are, of which there are few
	left    []int64 // rows of as many amounts as resources have names
	width   int     // of a row
	claims  []claim
	live    living
	local   []classSet
	domains []domainIndex
	trial   bool // nothing asks what is left in which domain
	scratch cursor
	fresh   int // positions from here on were bought in this cycle
}

// living are the positions that are not exhausted: of each 64 of them one word for each level of the needs.
type living struct {
	words  []uint64
	levels int
}

// classSet is the set of positions of one class.
type classSet struct {
	class int32
	bits  []uint64
}

// reset empties the ledger, for rows of so many amounts.
func (l *ledger) reset(width int) {
	l.slots, l.seqs, l.stamps, l.rankOf, l.ranks = l.slots[:0], l.seqs[:0], l.stamps[:0], l.rankOf[:0], l.ranks[:0]
	l.classes, l.left, l.claims = l.classes[:0], l.left[:0], l.claims[:0]
	l.live.words, l.live.levels = l.live.words[:0], 0
	for i := range l.local {
		l.local[i].bits = l.local[i].bits[:0]
	}
	l.domains = l.domains[:0]
	l.fresh, l.width = 0, width
}

// widen gives the rows more amounts, of which there are none.
func (l *ledger) widen(width int) {
	if l.width == width {
		return
	}
	wide := make([]int64, len(l.slots)*width)
	for pos := range l.slots {
		copy(wide[pos*width:], l.row(pos))
	}
	l.left, l.width = wide, width
}

// row is what a machine has left.
func (l *ledger) row(pos int) []int64 { return l.left[pos*l.width : (pos+1)*l.width] }

func grow(set []uint64, words int) []uint64 {
	for len(set) < words {
		set = append(set, 0)
	}
	return set
}

// push adds a machine at the end and returns its position.
func (l *ledger) push(slot int32, m *machine, alloc *vector.Vector) int32 {
	pos := l.add(slot, m.seq, m.stamp.Need, m.class, alloc)
	l.rankOf = append(l.rankOf, l.rank(rank{m.fixed, m.keepCost(), m.stamp.Reclamation}))
	for i := range l.domains {
		l.domains[i].push(m, pos, alloc)
	}
	return int32(pos)
}

// rank returns the index of a rank, which is most often that of the machine before.
func (l *ledger) rank(r rank) int32 {
	if n := len(l.rankOf); n > 0 && l.ranks[l.rankOf[n-1]] == r {
		return l.rankOf[n-1]
	}
	i := slices.Index(l.ranks, r)
	if i < 0 {
		i = len(l.ranks)
		l.ranks = append(l.ranks, r)
	}
	return int32(i)
}

// add is push without domains and rank.
func (l *ledger) add(slot int32, seq uint64, stamp Key, class int32, alloc *vector.Vector) int {
	pos := len(l.slots)
	words, word, bit := pos>>6+1, pos>>6, uint64(1)<<(pos&63)
	l.slots = append(l.slots, slot)
	l.seqs = append(l.seqs, seq)
	l.stamps = append(l.stamps, stamp)
	l.classes = append(l.classes, class)
	l.left = append(l.left, alloc[:l.width]...)
	l.claims = append(l.claims, claim{})
	l.live.words = grow(l.live.words, words*l.live.levels)
	for i := range l.live.levels {
		l.live.words[word*l.live.levels+i] |= bit
	}
	set := l.set(class)
	set.bits = grow(set.bits, words)
	set.bits[word] |= bit
	return pos
}

// set returns the positions of a class.
func (l *ledger) set(class int32) *classSet {
	for i := range l.local {
		if l.local[i].class == class {
			return &l.local[i]
		}
	}
	l.local = append(l.local, classSet{class: class})
	return &l.local[len(l.local)-1]
}

// permute makes the ledger one for trial of the machines of another one, in an order of positions.
func (l *ledger) permute(o *ledger, order []int32, alloc []vector.Vector) {
	l.reset(o.width)
	l.trial = true
	l.ranks = append(l.ranks, o.ranks...)
	for i := range o.domains {
		l.track(o.domains[i].key).empty(&o.domains[i])
	}
	for _, pos := range order {
		class := o.classes[pos]
		at := l.add(o.slots[pos], o.seqs[pos], o.stamps[pos], class, &alloc[class])
		l.rankOf = append(l.rankOf, o.rankOf[pos])
		for i := range l.domains {
			l.domains[i].insert(o.domains[i].at[pos], at)
		}
	}
	l.enliven(o.live.levels)
}

// enliven makes every machine one that is not exhausted, for needs of so many levels.
func (l *ledger) enliven(levels int) {
	words := (len(l.slots) + 63) >> 6
	set := slices.Grow(l.live.words[:0], words*levels)[:words*levels]
	for i := range set {
		set[i] = ^uint64(0)
	}
	if n := len(l.slots) & 63; n > 0 {
		for i := range levels {
			set[(words-1)*levels+i] = 1<<n - 1
		}
	}
	l.live = living{set, levels}
}

// refill gives every machine its whole allocatable back, and takes all claims off. The needs are of so many levels.
func (l *ledger) refill(alloc []vector.Vector, levels int) {
	for i := range l.domains {
		l.domains[i].refill(alloc)
	}
	for pos, class := range l.classes {
		copy(l.row(pos), alloc[class][:])
	}
	clear(l.claims)
	l.enliven(levels)
	l.fresh = len(l.slots)
}

// without are the positions of all machines but some.
func (l *ledger) without(some []int32) (all []int32) {
	for pos := range int32(len(l.slots)) {
		if !slices.Contains(some, pos) {
			all = append(all, pos)
		}
	}
	return all
}

// draw lets a need take v from the machines of its part at positions from one on and before another one, and takes
// what it got off v. The levels of the cluster's needs say for whom a machine is then exhausted.
func (l *ledger) draw(n *need, p *part, v *vector.Vector, from, to int, levels levels, own bool) {
	if from >= to {
		return
	}
	c := l.of(n, p.within, from)
	for pos := c.next(); pos >= 0 && pos < to; pos = c.next() {
		if l.serves(n, pos, own) && l.take(n, pos, v, levels) && v.IsZero() {
			return
		}
	}
}

// serves reports whether a need draws from a machine at all, whatever that has left.
func (l *ledger) serves(n *need, pos int, own bool) bool {
	if !own && n.Stuck == 0 && n.memory.horizon == 0 || l.stamps[pos] == n.Key {
		return true
	}
	return !own && n.Stuck == 0 && l.seqs[pos] < n.memory.horizon
}

// lacking is what of an amount a need could not draw from the machines in certain domains. Nothing is
// taken. A sum of what is left would count what no unit fits into.
func (l *ledger) lacking(n *need, within []domain, v vector.Vector) vector.Vector {
	c := l.of(n, within, 0)
	var left [vector.Width]int64
	for pos := c.next(); pos >= 0; pos = c.next() {
		if !l.serves(n, pos, false) {
			continue
		}
		copy(left[:], l.row(pos))
		if n.draw(left[:], &v) && v.IsZero() {
			return v
		}
	}
	return v
}

// take draws from one machine and writes the claim down.
func (l *ledger) take(n *need, pos int, v *vector.Vector, levels levels) bool {
	left := l.row(pos)
	tracked := len(l.domains) > 0 && !l.trial
	var before [vector.Width]int64
	if tracked {
		for m := uint16(n.mask); m != 0; m &= m - 1 {
			d := bits.TrailingZeros16(m)
			before[d] = left[d]
		}
	}
	if !n.draw(left, v) {
		return false
	}
	bit := uint64(1) << (pos & 63)
	live := l.live.words[pos>>6*l.live.levels:][:len(levels)]
	for i := range levels {
		if live[i]&bit != 0 && levels[i].exhausts(left) {
			live[i] &^= bit
		}
	}
	c := &l.claims[pos]
	if c.needs == 0 || n.Priority > c.priority {
		c.priority = n.Priority
	}
	c.needs++
	c.interruption = max(c.interruption, n.Interruption)
	c.reclamation = max(c.reclamation, n.Reclamation)
	if !tracked {
		return true
	}
	for m := uint16(n.mask); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		before[d] -= left[d]
	}
	for i := range l.domains {
		l.domains[i].take(pos, l.classes[pos], &before, n.mask)
	}
	return true
}

// remaining is what the machines in certain domains can still serve of what a need asks for; when it is enough, the rest
// is not looked at.
func (l *ledger) remaining(n *need, within []domain, enough *vector.Vector) (sum vector.Vector) {
	c := l.of(n, within, 0)
	for pos := c.next(); pos >= 0; pos = c.next() {
		if n.serve(&sum, l.row(pos), 1); sum.CoversOf(enough, n.mask) {
			break
		}
	}
	return sum
}

// cursor goes over the positions that a need may draw from, in order.
type cursor struct {
	l        *ledger
	n        *need
	live     []uint64 // what is not exhausted for it and all after it, of each levels-th word
	levels   int
	words    int
	selected [][]uint64 // sets of its classes
	word     int
	set      uint64
	list     []int32 // of the smallest of the domains
	listed   bool    // the list is gone through, and no sets
	within   []place // the domains
}

// place is a domain that a position has to be in.
type place struct {
	at    []int32
	index int32
}

// of returns a cursor, which holds until the next call, over what a need may draw from in certain
// domains, from a position on.
func (l *ledger) of(n *need, within []domain, from int) *cursor {
	c := &l.scratch
	c.l, c.n, c.levels, c.selected, c.within = l, n, l.live.levels, c.selected[:0], c.within[:0]
	c.live, c.words = l.live.words[min(n.level, len(l.live.words)):], (len(l.slots)+63)>>6
	c.list, c.listed, c.set, c.word = nil, len(within) > 0, 0, c.words
	if c.listed {
		c.narrow(within, from)
	}
	if c.listed = c.listed && len(c.list) <= c.words; c.listed {
		return c
	}
	for i := range l.local {
		if n.has(l.local[i].class) {
			c.selected = append(c.selected, l.local[i].bits)
		}
	}
	if word := from >> 6; word < c.words && len(c.selected) > 0 {
		c.word = word
		c.set = c.candidates() &^ (1<<(from&63) - 1)
	}
	return c
}

// narrow restricts the cursor to domains.
func (c *cursor) narrow(within []domain, from int) {
	for i, d := range within {
		x := c.l.index(d.key)
		if x == nil {
			c.list = nil
			return
		}
		at := x.find(d.value)
		if at < 0 {
			c.list = nil
			return
		}
		if list := x.values[at].positions; i == 0 || len(list) < len(c.list) {
			c.list = list
		}
		c.within = append(c.within, place{x.at, at})
	}
	if from > 0 {
		i, _ := slices.BinarySearch(c.list, int32(from))
		c.list = c.list[i:]
	}
}

// next is the next position; -1: there is none.
func (c *cursor) next() int {
	if c.listed {
		return c.nextListed()
	}
	for {
		for c.set == 0 {
			if c.word++; c.word >= c.words {
				return -1
			}
			c.set = c.candidates()
		}
		pos := c.word<<6 + bits.TrailingZeros64(c.set)
		c.set &= c.set - 1
		if len(c.within) == 0 || c.inside(pos) {
			return pos
		}
	}
}

func (c *cursor) nextListed() int {
	for i, at := range c.list {
		pos := int(at)
		if c.live[pos>>6*c.levels]>>(pos&63)&1 != 0 && c.n.has(c.l.classes[pos]) && (len(c.within) == 1 || c.inside(pos)) {
			c.list = c.list[i+1:]
			return pos
		}
	}
	c.list = nil
	return -1
}

// inside reports whether a position is in all of the domains.
func (c *cursor) inside(pos int) bool {
	for i := range c.within {
		if d := &c.within[i]; d.at[pos] != d.index {
			return false
		}
	}
	return true
}

// candidates is one word of the set of positions that the need at hand may draw from.
func (c *cursor) candidates() (set uint64) {
	for _, s := range c.selected {
		if c.word < len(s) {
			set |= s[c.word]
		}
	}
	return set & c.live[c.word*c.levels]
}
