package demand

import (
	"math/bits"

	"nstance.dev/server/demand/vector"
)

// domainIndex knows where the machines of a ledger are in one topology.
type domainIndex struct {
	key    int32
	values []domainValue
	places []int32 // by value of the topology: index into values, plus 1; 0: it has none
	at     []int32 // of each position: index into values; -1: it has none
}

// domainValue is one domain: who is in it, and what they have left, by class.
type domainValue struct {
	value     int32
	positions []int32 // in keep order
	sums      []classSum
}

type classSum struct {
	class int32
	left  vector.Vector
	count int64
}

// track makes the ledger know the domains of a topology key. It is called before machines are pushed.
func (l *ledger) track(key int32) *domainIndex {
	if x := l.index(key); x != nil {
		return x
	}
	if n := len(l.domains); n < cap(l.domains) {
		l.domains = l.domains[:n+1]
	} else {
		l.domains = append(l.domains, domainIndex{})
	}
	x := &l.domains[len(l.domains)-1]
	x.key = key
	x.values, x.at = x.values[:0], x.at[:0]
	clear(x.places)
	return x
}

func (l *ledger) index(key int32) *domainIndex {
	for i := range l.domains {
		if l.domains[i].key == key {
			return &l.domains[i]
		}
	}
	return nil
}

// find returns the index of a value; -1: no machine has it.
func (x *domainIndex) find(value int32) int32 {
	if value < 0 || int(value) >= len(x.places) {
		return -1
	}
	return x.places[value] - 1
}

// add appends a value without machines.
func (x *domainIndex) add(value int32) int32 {
	for int(value) >= len(x.places) {
		x.places = append(x.places, 0)
	}
	n := len(x.values)
	if n < cap(x.values) {
		x.values = x.values[:n+1]
	} else {
		x.values = append(x.values, domainValue{})
	}
	v := &x.values[n]
	v.value, v.positions, v.sums = value, v.positions[:0], v.sums[:0]
	x.places[value] = int32(n) + 1
	return int32(n)
}

// empty gives the index the values of another one.
func (x *domainIndex) empty(o *domainIndex) {
	for i := range o.values {
		x.add(o.values[i].value)
	}
}

// insert notes the domain of the position that comes next; -1: it has none.
func (x *domainIndex) insert(at int32, pos int) {
	x.at = append(x.at, at)
	if at >= 0 {
		v := &x.values[at]
		v.positions = append(v.positions, int32(pos))
	}
}

func (x *domainIndex) push(m *machine, pos int, alloc *vector.Vector) {
	at := int32(-1)
	for _, d := range m.more.domains {
		if d.key != x.key {
			continue
		}
		if at = x.find(d.value); at < 0 {
			at = x.add(d.value)
		}
		sum := x.values[at].sum(m.class)
		sum.left.Add(alloc)
		sum.count++
	}
	x.insert(at, pos)
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

// refill gives every machine its whole allocatable back.
func (x *domainIndex) refill(alloc []vector.Vector) {
	for i := range x.values {
		for j := range x.values[i].sums {
			s := &x.values[i].sums[j]
			s.left = vector.Vector{}
			s.left.AddTimes(&alloc[s.class], s.count)
		}
	}
}

// take notes what was drawn from a machine.
func (x *domainIndex) take(pos int, class int32, amounts *[vector.Width]int64, need vector.Mask) {
	at := x.at[pos]
	if at < 0 {
		return
	}
	sum := x.values[at].sum(class)
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		sum.left[d] -= amounts[d]
	}
}
