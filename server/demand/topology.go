package demand

import (
	"cmp"
	"maps"
	"slices"
	"strings"
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
