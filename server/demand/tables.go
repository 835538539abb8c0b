package demand

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"nstance.dev/server/demand/consolidation"
	"nstance.dev/server/demand/rails"
	"nstance.dev/server/demand/vector"
)

// class is a Class that was interned.
type class struct {
	Class
	kind  int32         // group and instance type: what a learned allocatable is about
	alloc vector.Vector // by the catalogue, or what was learned
	price int64         // of the cheapest offer, in millionths of a dollar; 0: none
	drain int64         // how long drains of its machines take, in milliseconds; 0: none has ended yet
	at    []int32       // by topology key: the value that it declares; -1: none
}

// How long a drain takes where none of the class has ended yet, in milliseconds, and the part of what is expected that
// each new one counts for.
const (
	drainFirst = 60_000
	drainShare = 4
)

// drainTime is how long the drain of a machine of the class is expected to take.
func (c *class) drainTime() int64 { return cmp.Or(c.drain, drainFirst) }

// drained takes in how long a drain took.
func (c *class) drained(took int64) {
	c.drain = max(c.drainTime()+(took-c.drainTime())/drainShare, 1)
}

// learned is what Nodes of one group and type have said of their allocatable.
type learned struct {
	reports int
	changed int64
	least   vector.Vector
	known   bool
}

// offer is an Offer with what is used of it.
type offer struct {
	Offer
	class    int32
	tenant   int32 // cluster; -1: all
	group    *group
	capacity vector.Vector
	used     int64
	uses     []use

	cooling
	paid consolidation.Mean // what it costs, as decisions go
}

// cooling is what failures of an offer have caused.
type cooling struct {
	coolUntil, coolFor int64
	joinFailures       rails.Window
}

type use struct {
	pool  *pool
	units int64
}

type pool struct {
	name        string
	limit, used int64
	marks       []mark
}

// mark keeps units of a pool for the need that another machine was preempted for.
type mark struct {
	need  Key
	units int64
	until instant
}

// reserved is how many units wait for other needs.
func (p *pool) reserved(key Key) (units int64) {
	for _, m := range p.marks {
		if m.need != key {
			units += m.units
		}
	}
	return units
}

// redeem takes units that were kept for a need off.
func (p *pool) redeem(key Key, units int64) {
	for i := range p.marks {
		if p.marks[i].need == key {
			n := min(units, p.marks[i].units)
			p.marks[i].units -= n
			units -= n
		}
	}
}

// renew gives a need's marks the units that they had before; there may be more of them now.
func (p *pool) renew(key Key, before []mark) {
	for i, m := range before {
		if m.need == key {
			p.marks[i].units = m.units
		}
	}
}

// group is a Group with what is used of it.
type group struct {
	Group
	limits vector.Vector
	count  int64
	used   vector.Vector
	spend  int64
	// draining is how many machines drain for what is not urgent, configured how many there are.
	draining, configured int64
	removed              bool
	warmed               int // cycle in which its idle machines were counted
	saving               consolidation.Memory
	outdated             []string // machines that are to make room for others
}

// joinDeadline is how long a Node of the group may take to be ready.
func (g *group) joinDeadline() time.Duration { return cmp.Or(g.JoinDeadline, 10*time.Minute) }

// catalog holds classes, offers, groups and pools of a shard. The index of a class stays valid as long as a machine
// or an offer has it.
type catalog struct {
	space     *vector.Space
	classes   []class
	byClass   map[string]int32
	vacant    []int32 // indexes of classes that nothing has, to be given to new ones
	renewed   []int32 // indexes that were given to another class, and that profiles have not been matched with
	text      []byte  // scratch
	kinds     map[string]int32
	learned   []learned
	offers    []*offer          // sorted by name
	away      map[string]*offer // those that are not offered now, and machines were bought from
	groups    map[string]*group
	pools     map[string]*pool
	poolNames []string
	version   int // grows when a class is added or its allocatable changes
	savers    savers
}

// savers are the groups whose machines are replaced by cheaper ones.
type savers struct {
	groups []*group // by name
	// resumed are machines of records that were bought to replace others, and those others.
	resumed []resumed
}

type resumed struct{ id, replaces string }

func newCatalog() *catalog {
	return &catalog{
		space: vector.NewSpace(), byClass: map[string]int32{}, kinds: map[string]int32{},
		groups: map[string]*group{}, pools: map[string]*pool{}, away: map[string]*offer{},
	}
}

// intern returns the index of a class, which is added if it is new.
func (c *catalog) intern(spec Class) int32 {
	c.text = spec.canonical(c.text[:0])
	if i, ok := c.byClass[string(c.text)]; ok {
		return i
	}
	kindKey := spec.Group + "\x00" + spec.InstanceType
	kind, ok := c.kinds[kindKey]
	if !ok {
		kind = int32(len(c.learned))
		c.kinds[kindKey] = kind
		c.learned = append(c.learned, learned{})
	}
	alloc, _ := c.space.Vector(spec.Allocatable)
	if l := &c.learned[kind]; l.known {
		alloc.Min(&l.least)
	}
	i := int32(len(c.classes))
	if n := len(c.vacant); n > 0 {
		i, c.vacant = c.vacant[n-1], c.vacant[:n-1]
		c.renewed = append(c.renewed, i)
	} else {
		c.classes = append(c.classes, class{})
	}
	c.classes[i] = class{Class: spec, kind: kind, alloc: alloc}
	c.byClass[string(c.text)] = i
	c.version++
	return i
}

// vacate gives the indexes of classes back that are not in use.
func (c *catalog) vacate(used []bool) {
	c.vacant = c.vacant[:0]
	for i := len(c.classes) - 1; i >= 0; i-- {
		if used[i] {
			continue
		}
		if c.text = c.classes[i].canonical(c.text[:0]); c.byClass[string(c.text)] == int32(i) {
			delete(c.byClass, string(c.text))
		}
		c.classes[i] = class{}
		c.vacant = append(c.vacant, int32(i))
	}
}

// name gives every resource that an offer has an index, and returns the first one for which there is no room.
func (c *catalog) name(o *Offer) string {
	for _, list := range [][]vector.Amount{o.Class.Allocatable, o.Capacity} {
		for _, a := range list {
			if _, ok := c.space.Intern(a.Name); !ok && a.Amount > 0 {
				return a.Name
			}
		}
	}
	return ""
}

// group returns a group by name; one that was never set is without limits.
func (c *catalog) group(name string) *group {
	g, ok := c.groups[name]
	if !ok {
		g = &group{Group: Group{Name: name, Max: -1}, removed: true}
		c.groups[name] = g
	}
	return g
}

// pool returns a quota pool by name; one that was never set has no room.
func (c *catalog) pool(name string) *pool {
	p, ok := c.pools[name]
	if !ok {
		p = &pool{name: name}
		c.pools[name] = p
		c.poolNames = append(c.poolNames, name)
	}
	return p
}

// setOffers replaces all offers. What is used of one, and its cooldown, stays with its name; held are
// those that machines were bought from, which may have been away.
func (c *catalog) setOffers(specs []Offer, held map[string]*offer, tenant func(string) int32) {
	old := maps.Clone(held)
	for _, o := range c.offers {
		old[o.Name] = o
	}
	c.offers = c.offers[:0]
	for i := range c.classes {
		c.classes[i].price = 0
	}
	for _, spec := range specs {
		o := old[spec.Name]
		if o == nil {
			o = &offer{}
		}
		o.Offer = spec
		o.class = c.intern(spec.Class)
		o.group = c.group(spec.Class.Group)
		o.capacity, _ = c.space.Vector(spec.Capacity)
		o.tenant = -1
		if spec.Tenant != "" {
			o.tenant = tenant(spec.Tenant)
		}
		o.use(c, spec.Pools)
		if p := &c.classes[o.class].price; *p == 0 || spec.PricePerHour < *p {
			*p = spec.PricePerHour
		}
		c.offers = append(c.offers, o)
	}
	slices.SortFunc(c.offers, func(a, b *offer) int { return strings.Compare(a.Name, b.Name) })
	c.away = held
	for _, o := range c.offers {
		delete(c.away, o.Name)
	}
}

// use sets what a machine of the offer takes of pools.
func (o *offer) use(c *catalog, pools []PoolUse) {
	o.uses = o.uses[:0]
	for _, u := range pools {
		o.uses = append(o.uses, use{c.pool(u.Pool), max(u.Units, 1)})
	}
}

// offerOf is the offer that a machine was bought from. One that is not offered now counts for its group all the same,
// by what the machine says.
func (c *catalog) offerOf(s Supply) *offer {
	if i, ok := slices.BinarySearchFunc(c.offers, s.Offer, func(o *offer, name string) int { return strings.Compare(o.Name, name) }); ok {
		return c.offers[i]
	}
	o := c.away[s.Offer]
	if o == nil {
		o = &offer{Offer: Offer{Name: s.Offer, Class: s.Class, PricePerHour: s.Price}, class: c.intern(s.Class), group: c.group(s.Class.Group), tenant: -1}
		o.capacity, _ = c.space.Vector(s.Capacity)
		o.use(c, s.Pools)
		c.away[s.Offer] = o
	}
	return o
}

// free is how many machines may be bought of an offer now by what is known of limits, and which
// kind of limit says so where it is none. Cooldowns are not looked at. What is kept for other needs
// counts as used.
func (o *offer) free(key Key) (n int64, why Reason) {
	n, why = 1<<40, QuotaExhausted
	if o.Limit >= 0 {
		n = min(n, o.Limit-o.used)
	}
	for _, u := range o.uses {
		n = min(n, (u.pool.limit-u.pool.used-u.pool.reserved(key))/u.units)
	}
	if l := o.group.free(o); l < n {
		n, why = l, LimitReached
	}
	return max(n, 0), why
}

// free is how many machines of an offer the group's own limits leave.
func (g *group) free(o *offer) int64 {
	n := int64(1 << 40)
	if g.removed {
		return 0
	}
	if g.Max >= 0 {
		n = min(n, g.Max-g.count)
	}
	for d, limit := range g.limits {
		if limit > 0 && o.capacity[d] > 0 {
			n = min(n, (limit-g.used[d])/o.capacity[d])
		}
	}
	if limit := g.Limits.HourlySpend; limit > 0 && o.PricePerHour > 0 {
		n = min(n, (limit-g.spend)/o.PricePerHour)
	}
	return max(n, 0)
}

// charge counts n machines of an offer, or takes them back with a negative n.
func (o *offer) charge(n int64) {
	o.used += n
	for _, u := range o.uses {
		u.pool.used += n * u.units
	}
	g := o.group
	g.count += n
	for d, amount := range o.capacity {
		g.used[d] += n * amount
	}
	g.spend += n * o.PricePerHour
}

// price is what a machine of the offer costs as far as decisions go: reserved capacity is paid
// anyway.
func (o *offer) price() int64 {
	if o.Class.CapacityType == Reserved {
		return 0
	}
	return o.PricePerHour
}

// effective is the hourly cost with the risk of an interruption, in millionths of a dollar.
func effective(price, ppm int64, interruption Bucket) int64 {
	return price + ppm*interruption.Cents()/100
}

// bid is something that could serve a need: what it costs for the share that it serves.
type bid struct {
	cost, share int64
	slot        int32
	offer       *offer
	free        int64
}

// market is what a need could have now, in whatever domain.
type market struct {
	machines []int32 // idle ones
	offers   []bid   // without a share
	refused  Reason  // the nearest reason for which an offer is not among them
}

// cheaper compares bids by the cost of a unit, exactly; the larger share is better among equals.
func (a bid) cheaper(b bid) bool {
	if vector.LessProduct(a.cost, b.share, b.cost, a.share) {
		return true
	}
	return !vector.LessProduct(b.cost, a.share, a.cost, b.share) && a.share > b.share
}
