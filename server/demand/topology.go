package demand

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"nstance.dev/server/demand/vector"
)

// hostname is the topology of which every machine is a value of its own.
const hostname = "kubernetes.io/hostname"

// topology numbers the topology keys that needs use, and the values of all of them.
type topology struct {
	keys   []string
	users  []int // of each key: profiles that use it; a key without any gives its index to the next new one
	values map[string]int32
	names  []string
	ranks  []int32 // of each value in the order of names; shorter than names where it is out of date
	places map[string]*places
}

// domain is where a machine is in one topology.
type domain struct{ key, value int32 }

// places is what the records of some machines say of where they are. Machines of which the same is said
// share it.
type places struct {
	labels  map[string]string
	text    string
	refs    int
	domains map[int32][]domain // by class, of the topologies in use
	keys    int                // of which domains knows
}

// use returns the index of a key for one more profile, and whether it had one before.
func (t *topology) use(key string) (i int32, known bool) {
	at := slices.Index(t.keys, key)
	known = at >= 0
	if !known {
		at = slices.Index(t.users, 0)
	}
	switch {
	case known:
	case at >= 0:
		t.keys[at] = key
		for _, p := range t.places {
			p.domains = nil
		}
	default:
		at = len(t.keys)
		t.keys, t.users = append(t.keys, key), append(t.users, 0)
	}
	t.users[at]++
	return int32(at), known
}

// unuse notes that one profile less uses a key.
func (t *topology) unuse(key int32) { t.users[key]-- }

// declared is the value that a class has for a key; -1: none.
func (t *topology) declared(c *Class, key string) int32 {
	if name, ok := c.Labels[key]; ok {
		return t.value(name)
	}
	return -1
}

func (t *topology) value(name string) int32 {
	v, ok := t.values[name]
	if !ok {
		v = int32(len(t.names))
		t.values[name] = v
		t.names = append(t.names, name)
	}
	return v
}

// rank brings the order of values up to date.
func (t *topology) rank() {
	if len(t.ranks) == len(t.names) {
		return
	}
	order := make([]int32, len(t.names))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return strings.Compare(t.names[a], t.names[b]) })
	t.ranks = make([]int32, len(order))
	for rank, v := range order {
		t.ranks[v] = int32(rank)
	}
}

// byName compares two values by their names.
func (t *topology) byName(a, b int32) int { return cmp.Compare(t.ranks[a], t.ranks[b]) }

// placed returns what machines share of which the same is said. Who no longer needs it says so by leave.
func (t *topology) placed(labels map[string]string) *places {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString(key)
		b.WriteByte(0)
		b.WriteString(labels[key])
		b.WriteByte(0)
	}
	text := b.String()
	p, ok := t.places[text]
	if !ok {
		p = &places{labels: labels, text: text}
		t.places[text] = p
	}
	p.refs++
	return p
}

func (t *topology) leave(p *places) {
	if p == nil {
		return
	}
	if p.refs--; p.refs == 0 {
		delete(t.places, p.text)
	}
}

// forget drops what is known of a class whose index another one may get.
func (t *topology) forget(class int32) {
	for _, p := range t.places {
		delete(p.domains, class)
	}
}

// of are the domains in which a machine of a class with such labels is. The caller does not change them.
func (p *places) of(t *topology, class int32, labels map[string]string) []domain {
	if p.keys != len(t.keys) || p.domains == nil {
		p.keys, p.domains = len(t.keys), map[int32][]domain{}
	}
	all, ok := p.domains[class]
	if ok {
		return all
	}
	for i, key := range t.keys {
		name, ok := labels[key]
		if !ok {
			name, ok = p.labels[key]
		}
		if ok {
			all = append(all, domain{int32(i), t.value(name)})
		}
	}
	p.domains[class] = all
	return all
}

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
