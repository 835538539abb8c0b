package demand

import (
	"math"
	"slices"
	"strings"

	"nstance.dev/server/demand/vector"
)

// world is all that decisions follow from, and what is being decided.
type world struct {
	clock
	scratch
	settings Settings
	cat      *catalog
	topo     topology
	fleet    fleetTable
	clusters []*cluster // by index
	sorted   []*cluster // by name
	byName   map[string]*cluster
	profiles map[string]*profile
	scopes   map[string]Disposition // what is suspended; "" is the shard
	supply   int                    // grows with each change of what can be acquired
	credited int                    // supply at the last credit
	creates  int                    // in this cycle
	out      Result
}

// clock is when the engine is, and when something is due.
type clock struct {
	now   instant
	next  instant // 0: nothing is due
	cycle int
}

// scratch is what one cycle collects, kept for the next one to be written over.
type scratch struct {
	waited []*need    // needs whose machines have waited for long, as of the last cycle
	short  []*need    // needs that lack something, in walk order
	dirty  []*cluster // to be credited
	spares []int32    // machines to be given back
	idle   []int32    // spare machines when the cycle began
	taken  []int32    // machines that wait for the need that they were taken for
	bids   []bid      // offers that could serve the part at hand
	market market     // for the need at hand
	undo   []func()   // takes back, at the end of the cycle, what is not carried out
	spaces []*workspace
}

// wake makes the engine be asked again at a time, if that is to come.
func (w *world) wake(at instant) {
	if at > w.now && (w.next == 0 || at < w.next) {
		w.next = at
	}
}

// cluster returns a cluster by name; a new one has no needs.
func (w *world) cluster(name string) *cluster {
	c, ok := w.byName[name]
	if !ok {
		c = &cluster{index: int32(len(w.clusters)), name: name}
		c.byKey = map[Key]*need{}
		c.flags.start = true
		w.clusters = append(w.clusters, c)
		w.byName[name] = c
		i, _ := slices.BinarySearchFunc(w.sorted, c, func(a, b *cluster) int { return strings.Compare(a.name, b.name) })
		w.sorted = slices.Insert(w.sorted, i, c)
	}
	return c
}

// key returns the index of a topology key, which one more profile uses. A new one is looked up for every machine.
func (w *world) key(name string) int32 {
	i, known := w.topo.use(name)
	if known {
		return i
	}
	for j := range w.cat.classes {
		if c := &w.cat.classes[j]; int(i) < len(c.at) {
			c.at[i] = w.topo.declared(&c.Class, name)
		}
	}
	w.nameDomains()
	for slot := range w.fleet.slots {
		if m := w.fleet.at(slot); m.id != "" {
			w.locate(m)
		}
	}
	for _, c := range w.clusters {
		c.flags.stale, c.flags.dirty = true, true
	}
	return i
}

// nameDomains numbers the values that classes declare for the topologies in use.
func (w *world) nameDomains() {
	for i := range w.cat.classes {
		c := &w.cat.classes[i]
		for _, key := range w.topo.keys[len(c.at):] {
			c.at = append(c.at, w.topo.declared(&c.Class, key))
		}
	}
}

// locate finds out in which domains a machine is.
func (w *world) locate(m *machine) {
	if m.more.places == nil {
		m.more.places = w.topo.placed(nil)
	}
	m.more.domains = m.more.places.of(&w.topo, m.class, w.cat.classes[m.class].Labels)
}

// inside reports whether a class declares all of the domains.
func (w *world) inside(class int32, within []domain) bool {
	for _, d := range within {
		if d.value < 0 || w.cat.classes[class].at[d.key] != d.value {
			return false
		}
	}
	return true
}

// allocatable is what a machine of a class has for the Pods of a cluster.
func (w *world) allocatable(c *cluster, class int32) *vector.Vector {
	w.allocate(c)
	return &c.alloc[class]
}

// allocate brings what is allocatable to a cluster up to date.
func (w *world) allocate(c *cluster) {
	if c.allocOf == w.cat.version && len(c.alloc) == len(w.cat.classes) {
		return
	}
	c.alloc = c.alloc[:0]
	for i := range w.cat.classes {
		class := &w.cat.classes[i]
		alloc := class.alloc
		for j := range c.overheads {
			o := &c.overheads[j]
			if o.terms.Match(class.Labels, class.Taints) {
				alloc.Sub(&o.amount)
			}
		}
		c.alloc = append(c.alloc, alloc)
	}
	c.allocOf = w.cat.version
}

// known are amounts without names that no class has; false: there are some.
func (w *world) known(amounts []vector.Amount) (v vector.Vector, complete bool) {
	complete = true
	for _, a := range amounts {
		i, ok := w.cat.space.Index(a.Name)
		if !ok {
			complete = complete && a.Amount <= 0
			continue
		}
		v[i] += max(a.Amount, 0)
	}
	return v, complete
}

// measure computes the amounts of a need, whose profile is set. A need whose machines all have to be one, because they are
// to share a host name, has its whole as its unit.
func (w *world) measure(n *need) {
	var all, whole bool
	n.total, all = w.known(n.Aggregate)
	n.unit, whole = w.known(n.MinUnit)
	n.unknown = !all || !whole
	if n.Terms.SameKey() == hostname {
		n.unit = n.total
	}
	n.unit.Min(&n.total)
	n.mask = n.total.Positive()
	for d := range n.unit {
		if n.total[d] > 0 {
			n.unit[d] = max(n.unit[d], 1)
		}
	}
	n.alike = 0
	if n.Stuck == 0 || len(n.profile.spread) == 0 { // a part of a Pod buys in every domain: docs/decisions/0025 says why
		n.alike = vector.Multiple(&n.total, &n.unit, n.mask)
	}
}

// list collects the spare machines.
func (w *world) list() {
	w.idle = w.idle[:0]
	for _, slot := range w.fleet.loose {
		if m := w.fleet.at(slot); m.spare() && m.more.outdatedBy == upToDate {
			w.idle = append(w.idle, slot)
		}
	}
}

// matchAll evaluates the classes that are new for every profile.
func (w *world) matchAll() {
	for _, p := range w.profiles {
		for _, i := range w.cat.renewed {
			if int(i) < len(p.matches) {
				p.matches[i] = p.matchClass(w.cat, i)
			}
		}
		for i := len(p.matches); i < len(w.cat.classes); i++ {
			p.matches = append(p.matches, p.matchClass(w.cat, int32(i)))
		}
	}
	w.cat.renewed = w.cat.renewed[:0]
}

// evaluate brings the set of eligible classes of a need up to date.
func (w *world) evaluate(c *cluster, n *need) {
	if n.version == w.cat.version && n.eligible != nil {
		return
	}
	words := (len(w.cat.classes) + 63) >> 6
	n.eligible = grow(n.eligible[:0], words)
	for i := range n.eligible {
		n.eligible[i] = 0
	}
	if n.unknown {
		w.measure(n)
	}
	p := n.profile
	for i := range w.cat.classes {
		if !n.unknown && p.matches[i] && vector.FitsIn(&n.unit, w.allocatable(c, int32(i)), n.mask) {
			n.eligible[i>>6] |= 1 << (i & 63)
		}
	}
	n.version = w.cat.version
}

// mayBuy is how many machines of an offer a cluster may have for a need now, and why none.
func (w *world) mayBuy(c *cluster, n *need, o *offer) (int64, Reason) {
	if !n.has(o.class) || o.tenant >= 0 && o.tenant != c.index {
		return 0, NoMatchingOffer
	}
	if n.profile.int == Pinned && o.Class.InterruptionPPM > 0 {
		return 0, NoMatchingOffer
	}
	free, why := o.free(n.Key)
	if free == 0 {
		return 0, why
	}
	if o.coolUntil > w.now {
		return 0, Cooldown
	}
	return free, ""
}

// mayTake reports whether a need may have a spare machine.
func (w *world) mayTake(c *cluster, n *need, m *machine) bool {
	if !m.spare() || m.more.outdatedBy != upToDate || !n.has(m.class) || !w.reusable(c, m) {
		return false
	}
	return m.more.earmark == (Key{}) || m.more.earmark == n.Key || m.times.earmark <= w.now
}

// reusable keeps machines that ever ran one tenant's cluster from all others (E7).
func (w *world) reusable(c *cluster, m *machine) bool {
	if m.more.group != nil && m.more.group.UserData {
		return false
	}
	if m.offer != nil && m.offer.tenant >= 0 && m.offer.tenant != c.index {
		return false
	}
	return m.tenant < 0 || m.tenant == c.index || m.more.group.Reuse
}

// acquirable is what a need could get in certain domains beyond what its cluster has.
func (w *world) acquirable(c *cluster, n *need, within []domain) vector.Vector {
	return w.obtainable(c, n, within, false)
}

// obtainable is what is acquirable; proven leaves out offers that failed and have made no machine since.
func (w *world) obtainable(c *cluster, n *need, within []domain, proven bool) (sum vector.Vector) {
	for _, o := range w.cat.offers {
		if !n.has(o.class) || proven && (o.coolFor != 0 || o.coolUntil != 0) || !w.inside(o.class, within) {
			continue
		}
		if free, _ := w.mayBuy(c, n, o); free > 0 {
			n.serve(&sum, w.allocatable(c, o.class)[:], free)
		}
	}
	for _, slot := range w.idle {
		if m := w.fleet.at(slot); w.mayTake(c, n, m) && m.inside(within) {
			n.serve(&sum, w.allocatable(c, m.class)[:], 1)
		}
	}
	return sum
}

// placed is what a Same need could get, in any of its domains, beyond what its cluster has.
func (w *world) placed(c *cluster, n *need) (sum vector.Vector) {
	if n.profile.same < 0 {
		return w.acquirable(c, n, nil)
	}
	for _, o := range w.cat.offers {
		if w.cat.classes[o.class].at[n.profile.same] < 0 {
			continue
		}
		if free, _ := w.mayBuy(c, n, o); free > 0 {
			n.serve(&sum, w.allocatable(c, o.class)[:], free)
		}
	}
	for _, slot := range w.fleet.loose {
		m := w.fleet.at(slot)
		if w.mayTake(c, n, m) && slices.ContainsFunc(m.more.domains, func(d domain) bool { return d.key == n.profile.same }) {
			n.serve(&sum, w.allocatable(c, m.class)[:], 1)
		}
	}
	return sum
}

// disposition is what becomes of actions for a cluster and a group.
func (w *world) disposition(cluster string, g *group) Disposition {
	most := w.scopes[""]
	if cluster != "" {
		most = stronger(most, w.scopes[cluster])
	}
	if g != nil {
		most = stronger(most, w.scopes[g.Name])
	}
	return most
}

// stronger is the one that wins of two dispositions: a pause before a dry run.
func stronger(a, b Disposition) Disposition {
	if a == Suppressed || b == Suppressed {
		return Suppressed
	}
	return max(a, b)
}

// unlimited is the priority of a group's minimum.
const unlimited = math.MaxInt32

// empty reports whether the operator said, after the roll-up that freed it, that nothing runs on a
// machine.
func (w *world) empty(c *cluster, m *machine) bool {
	return m.times.empty != 0 && m.times.empty > c.guard.rows && m.times.empty >= m.times.surplus
}
