package demand

import (
	"math/bits"

	"nstance.dev/server/demand/vector"
)

// ledger is what a cluster's machines have left while its needs draw from them. Positions are in
// keep order: the order is one for all needs, and new machines are last for everyone, so that
// drawing again gives the same result. Sets of positions are bits, so that a need passes over
// exhausted and unsuitable machines at 64 a step.
type ledger struct {
	slots    []int32
	seqs     []uint64
	stamps   []Key
	classes  []int32 // of each position
	left     []vector.Vector
	claims   []claim
	live     []uint64 // not exhausted
	local    []classSet
	domains  []domainIndex
	selected [][]uint64 // scratch: sets that the need at hand may draw from
	fresh    int        // positions from here on were bought in this cycle
}

// classSet is the set of positions of one class.
type classSet struct {
	class int32
	bits  []uint64
}

// domainIndex knows where the machines are in one topology.
type domainIndex struct {
	key    int32
	values []domainValue // sorted by value
	at     []int32       // of each position: index into values; -1: it has none
}

// domainValue is one domain: who is in it, and what they have left, by class.
type domainValue struct {
	value int32
	bits  []uint64
	sums  []classSum
}

type classSum struct {
	class int32
	left  vector.Vector
	count int64
}

func (l *ledger) reset() {
	l.slots, l.seqs, l.stamps = l.slots[:0], l.seqs[:0], l.stamps[:0]
	l.classes, l.left, l.claims, l.live = l.classes[:0], l.left[:0], l.claims[:0], l.live[:0]
	for i := range l.local {
		l.local[i].bits = l.local[i].bits[:0]
	}
	l.domains = l.domains[:0]
	l.fresh = 0
}

// track makes the ledger sum what is left by domains of a topology key. It is called before
// machines are pushed.
func (l *ledger) track(key int32) {
	for i := range l.domains {
		if l.domains[i].key == key {
			return
		}
	}
	l.domains = append(l.domains, domainIndex{key: key})
}

func grow(set []uint64, words int) []uint64 {
	for len(set) < words {
		set = append(set, 0)
	}
	return set
}

// push adds a machine at the end and returns its position.
func (l *ledger) push(slot int32, m *machine, alloc *vector.Vector) int32 {
	pos := len(l.slots)
	words, word, bit := pos>>6+1, pos>>6, uint64(1)<<(pos&63)
	l.slots = append(l.slots, slot)
	l.seqs = append(l.seqs, m.seq)
	l.stamps = append(l.stamps, m.stamp.Need)
	l.classes = append(l.classes, m.class)
	l.left = append(l.left, *alloc)
	l.claims = append(l.claims, claim{})
	l.live = grow(l.live, words)
	l.live[word] |= bit
	set := l.set(m.class)
	set.bits = grow(set.bits, words)
	set.bits[word] |= bit
	for i := range l.domains {
		l.domains[i].push(m, pos, alloc)
	}
	return int32(pos)
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

func (x *domainIndex) push(m *machine, pos int, alloc *vector.Vector) {
	value := int32(-1)
	for _, d := range m.more.domains {
		if d.key == x.key {
			value = d.value
		}
	}
	if value < 0 {
		x.at = append(x.at, -1)
		return
	}
	i := x.find(value, true)
	x.at = append(x.at, int32(i))
	v := &x.values[i]
	v.bits = grow(v.bits, pos>>6+1)
	v.bits[pos>>6] |= 1 << (pos & 63)
	sum := v.sum(m.class)
	sum.left.Add(alloc)
	sum.count++
}

// find returns the index of a value, which is appended if need be; -1: it is not there.
func (x *domainIndex) find(value int32, insert bool) int {
	for i := range x.values {
		if x.values[i].value == value {
			return i
		}
	}
	if !insert {
		return -1
	}
	x.values = append(x.values, domainValue{value: value})
	return len(x.values) - 1
}

func (v *domainValue) sum(class int32) *classSum {
	for i := range v.sums {
		if v.sums[i].class == class {
			return &v.sums[i]
		}
	}
	v.sums = append(v.sums, classSum{class: class})
	return &v.sums[len(v.sums)-1]
}

// refill gives every machine its whole allocatable back, and takes all claims off.
func (l *ledger) refill(alloc []vector.Vector) {
	for i := range l.domains {
		for j := range l.domains[i].values {
			for k := range l.domains[i].values[j].sums {
				l.domains[i].values[j].sums[k].left = vector.Vector{}
			}
		}
	}
	for pos, class := range l.classes {
		l.left[pos] = alloc[class]
		l.claims[pos] = claim{}
		l.live[pos>>6] |= 1 << (pos & 63)
		for i := range l.domains {
			if at := l.domains[i].at[pos]; at >= 0 {
				l.domains[i].values[at].sum(class).left.Add(&alloc[class])
			}
		}
	}
	l.fresh = len(l.slots)
}

// draw lets a need take v from the machines of its part that come at from or later, and takes what
// it got off v. common are the resources without which a machine is exhausted for everyone.
func (l *ledger) draw(n *need, p *part, v *vector.Vector, from int, common vector.Mask, own bool) {
	if !l.sel(n, p.within) {
		return
	}
	for word := from >> 6; word < len(l.live); word++ {
		set := l.candidates(word, len(p.within))
		if word == from>>6 {
			set &= ^uint64(0) << (from & 63)
		}
		for ; set != 0; set &= set - 1 {
			pos := word<<6 + bits.TrailingZeros64(set)
			if !l.serves(n, pos, own) {
				continue
			}
			if l.take(n, pos, v, common) && v.IsZero() {
				return
			}
		}
	}
}

// serves reports whether a need draws from a machine at all, whatever that has left.
func (l *ledger) serves(n *need, pos int, own bool) bool {
	if l.stamps[pos] == n.Key {
		return true
	}
	return !own && n.Stuck == 0 && (n.memory.horizon == 0 || l.seqs[pos] < n.memory.horizon)
}

// lacking is what of an amount a need could not draw from the machines in certain domains. Nothing is
// taken. A sum of what is left would count what no unit fits into.
func (l *ledger) lacking(n *need, within []domain, v vector.Vector) vector.Vector {
	if !l.sel(n, within) {
		return v
	}
	for word := range l.live {
		for set := l.candidates(word, len(within)); set != 0; set &= set - 1 {
			pos := word<<6 + bits.TrailingZeros64(set)
			if !l.serves(n, pos, false) {
				continue
			}
			left := l.left[pos]
			if vector.Draw(&left, &v, &n.unit, n.mask) && v.IsZero() {
				return v
			}
		}
	}
	return v
}

// sel collects the sets that a need may draw from: first those of its domains, then those of its
// classes. False: there are none.
func (l *ledger) sel(n *need, within []domain) bool {
	l.selected = l.selected[:0]
	for _, d := range within {
		x := l.index(d.key)
		if x == nil {
			return false
		}
		i := x.find(d.value, false)
		if i < 0 {
			return false
		}
		l.selected = append(l.selected, x.values[i].bits)
	}
	before := len(l.selected)
	for i := range l.local {
		if n.has(l.local[i].class) {
			l.selected = append(l.selected, l.local[i].bits)
		}
	}
	return len(l.selected) > before
}

// candidates is one word of the set of positions that the need at hand may draw from. The first
// domains of the selected sets all have to hold, of the others one.
func (l *ledger) candidates(word, domains int) uint64 {
	var set uint64
	for _, s := range l.selected[domains:] {
		if word < len(s) {
			set |= s[word]
		}
	}
	for _, s := range l.selected[:domains] {
		if word >= len(s) {
			return 0
		}
		set &= s[word]
	}
	return set & l.live[word]
}

func (l *ledger) index(key int32) *domainIndex {
	for i := range l.domains {
		if l.domains[i].key == key {
			return &l.domains[i]
		}
	}
	return nil
}

// take draws from one machine and writes the claim down.
func (l *ledger) take(n *need, pos int, v *vector.Vector, common vector.Mask) bool {
	left := &l.left[pos]
	var before vector.Vector
	if len(l.domains) > 0 {
		before = *left
	}
	if !vector.Draw(left, v, &n.unit, n.mask) {
		return false
	}
	for m := uint16(common); m != 0; m &= m - 1 {
		if left[bits.TrailingZeros16(m)] == 0 {
			l.live[pos>>6] &^= 1 << (pos & 63)
			break
		}
	}
	c := &l.claims[pos]
	if c.needs == 0 || n.Priority > c.priority {
		c.priority = n.Priority
	}
	c.needs++
	c.interruption = max(c.interruption, n.Interruption)
	c.reclamation = max(c.reclamation, n.Reclamation)
	for i := range l.domains {
		if at := l.domains[i].at[pos]; at >= 0 {
			sum := l.domains[i].values[at].sum(l.classes[pos])
			for m := uint16(n.mask); m != 0; m &= m - 1 {
				d := bits.TrailingZeros16(m)
				sum.left[d] -= before[d] - left[d]
			}
		}
	}
	return true
}

// remaining is what is left of the machines in certain domains that a need may draw from.
func (l *ledger) remaining(n *need, within []domain) (sum vector.Vector) {
	if !l.sel(n, within) {
		return sum
	}
	for word := range l.live {
		for set := l.candidates(word, len(within)); set != 0; set &= set - 1 {
			sum.Add(&l.left[word<<6+bits.TrailingZeros64(set)])
		}
	}
	return sum
}
