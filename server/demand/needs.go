package demand

import (
	"bytes"
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"

	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/rails"
	"nstance.dev/server/demand/vector"
)

// profile is what rows with one fingerprint share.
type profile struct {
	terms   match.Terms
	same    int32  // topology key that all machines share; -1: none
	spread  []skew // by key
	matches []bool // by class
	int     Bucket
	refs    int // needs that use it
}

type skew struct {
	key     int32
	maxSkew int64
}

// matchClass reports whether machines of a class can serve the profile.
func (p *profile) matchClass(cat *catalog, i int32) bool {
	c := &cat.classes[i]
	if p.int == Pinned && c.InterruptionPPM > 0 {
		return false
	}
	return p.terms.Match(c.Labels, c.Taints)
}

// part is one piece of a need, restricted to machines of certain domains. An ordinary need has one
// without restriction.
type part struct {
	within  []domain
	share   int32 // which of the shares of its spread it has; whole: all of the need
	deficit vector.Vector
}

// whole is the share of a part that is all of its need.
const whole = -1

// division is how a spread need is divided. Parts that have as much as each other share it: over racks
// there are hundreds.
type division struct {
	total  vector.Vector // what the shares were made of
	alike  int64         // in how many units
	shares []vector.Vector
	skewed vector.Vector // what of the need would break the skew
}

// share is the index of a share, which is most often that of the part before.
func (d *division) share(v *vector.Vector) int32 {
	if n := len(d.shares); n == 0 || d.shares[n-1] != *v {
		d.shares = append(d.shares, *v)
	}
	return int32(len(d.shares) - 1)
}

// amount is what of a need a part is for.
func (n *need) amount(p *part) *vector.Vector {
	if p.share == whole {
		return &n.total
	}
	return &n.memory.divided.shares[p.share]
}

// skewed is what of a need would break its skew.
func (n *need) skewed() *vector.Vector {
	if n.memory.divided == nil {
		return &nothing
	}
	return &n.memory.divided.skewed
}

var nothing vector.Vector

// need is a row of a cluster, and what the engine remembers of it.
type need struct {
	Row
	home    *cluster
	profile *profile
	amounts
	eligible  []uint64 // classes that match and hold a unit, as bits
	version   int      // of catalog and overheads that eligible was made with
	firstSeen instant
	rollup    uint64 // of the cluster's, that named it last
	parts     []part
	deficit   vector.Vector // of all parts; see sum
	memory    memory
	lack      lack
}

// amounts are what a need asks for.
type amounts struct {
	mask    vector.Mask
	total   vector.Vector
	unit    vector.Vector // what has to fit into one machine
	level   int           // of the cluster's, that it belongs to
	alike   int64         // of how many units the total consists, each of which is a Pod like all others; 0: they differ, or are stuck and spread
	unknown bool          // it asks for a resource that no class has
}

// draw takes what a machine can serve off v, and off what the machine has left; it reports whether that is anything.
func (a *amounts) draw(left []int64, v *vector.Vector) bool {
	if a.alike > 0 {
		return vector.DrawUnits(left, v, &a.unit, a.mask)
	}
	return vector.Draw(left, v, &a.unit, a.mask)
}

// serve adds to sum what so many machines serve that have so much left each.
func (a *amounts) serve(sum *vector.Vector, left []int64, machines int64) {
	if a.alike == 0 {
		sum.AddTimesOf(left, machines, a.mask)
		return
	}
	units := vector.Units(left, &a.unit, a.mask)
	sum.AddTimesOf(a.unit[:], vector.Times(units, machines), a.mask)
}

// share is the part of what is lacking that a machine serves, as [vector.Share] counts it.
func (a *amounts) share(alloc, lack *vector.Vector) int64 {
	if a.alike == 0 {
		return vector.Share(alloc, lack, a.mask)
	}
	return vector.Ratio(vector.Units(alloc[:], &a.unit, a.mask), vector.Units(lack[:], &a.unit, a.mask))
}

// machines is how many machines it takes to serve what is lacking; the greatest int64 where none helps.
func (a *amounts) machines(alloc, lack *vector.Vector) int64 {
	if a.alike == 0 {
		return vector.Count(alloc, lack)
	}
	units, want := vector.Units(alloc[:], &a.unit, a.mask), vector.Units(lack[:], &a.unit, a.mask)
	if units == 0 {
		return math.MaxInt64
	}
	return (want-1)/units + 1
}

// portion is the i-th of n nearly equal parts of the total.
func (a *amounts) portion(i, n int) (v vector.Vector) {
	if a.alike == 0 {
		return a.total.Part(i, n)
	}
	units := a.alike / int64(n)
	if int64(i) < a.alike%int64(n) {
		units++
	}
	v.AddTimesOf(a.unit[:], units, a.mask)
	return v
}

// shrink makes v no more than most of anything, in the need's own proportions.
func (a *amounts) shrink(v, most *vector.Vector) {
	if a.alike == 0 {
		v.Shrink(most)
		return
	}
	units := min(vector.Units(v[:], &a.unit, a.mask), vector.Units(most[:], &a.unit, a.mask))
	*v = vector.Vector{}
	v.AddTimesOf(a.unit[:], units, a.mask)
}

// memory is what of a need's course has to last over cycles.
type memory struct {
	chosen     int32 // domain that a Same need is served from; -1: none
	uncovered  instant
	parked     int            // evaluations in a row in which it got nothing and nothing covered it
	parkedAt   int            // supply of the engine that parkedWith was last compared with
	parkedWith *vector.Vector // what could be acquired when it stopped buying; nil: it never did
	gave       bool           // what was bought of its gang was given up
	horizon    uint64         // while it may not buy, it draws from no machine that came later; 0: it may
	blocked    instant
	blockedWhy Reason
	blockedFor int64
	gangSince  instant   // since when machines of an incomplete gang are there; 0: it ran whole, or has none
	own        bool      // it draws from machines that were bound for it alone
	divided    *division // nil: the need is not spread
	nowhere    bool      // no domain has any machine or offer for it
	served     bool      // a machine that was bound for it was configured
}

// waits is what a need has of machines that have waited longer than their groups' join deadlines, and what for.
type waits struct {
	amount vector.Vector
	why    Reason
}

// lack is what a need is short of, and since when.
type lack struct {
	since  instant
	cycles int
	cycle  int // of the engine, that was counted last
	reason Reason
	waits  waits
}

// shown is what is told to be missing: what the need lacks, or where it lacks nothing, what it has of
// machines that have waited for long.
func (n *need) shown() vector.Vector {
	if v := n.missing(); !v.IsZero() {
		return v
	}
	return n.lack.waits.amount
}

// missing is what the need lacks: the deficits of its parts, and what would break its skew.
func (n *need) missing() vector.Vector {
	v := *n.skewed()
	v.Add(&n.deficit)
	return v
}

// walk compares needs in the order in which contested capacity is given: by priority, then age,
// then cluster, then key.
func walk(a, b *need) int {
	switch {
	case a.Priority != b.Priority:
		return cmp.Compare(b.Priority, a.Priority)
	case a.firstSeen != b.firstSeen:
		return cmp.Compare(a.firstSeen, b.firstSeen)
	case a.home != b.home:
		return strings.Compare(a.home.name, b.home.name)
	default:
		return bytes.Compare(a.Key[:], b.Key[:])
	}
}

// sum adds the deficits of the parts up, which have changed.
func (n *need) sum() {
	n.deficit = vector.Vector{}
	for i := range n.parts {
		n.deficit.AddOf(n.parts[i].deficit[:], n.mask)
	}
}

// short reports whether any part has a deficit.
func (n *need) short() bool { return !n.deficit.IsZero() }

// block keeps the need from buying until a time. As long as it draws from no machine that comes later
// for another need: else that one would buy again what this one took, cycle after cycle.
func (n *need) block(why Reason, until instant, horizon uint64) {
	n.memory.blocked, n.memory.blockedWhy = until, why
	if n.memory.horizon == 0 {
		n.memory.horizon = horizon
	}
}

// unblock ends a block whose time has come.
func (n *need) unblock(now instant) {
	if n.memory.blocked != 0 && n.memory.blocked <= now {
		n.memory.blocked, n.memory.horizon = 0, 0
	}
}

// has reports whether a class is among the eligible ones.
func (n *need) has(class int32) bool { return n.eligible[class>>6]>>(class&63)&1 != 0 }

// overhead is an Overhead with its amounts.
type overhead struct {
	terms  match.Terms
	amount vector.Vector
}

// cluster is one tenant's cluster.
type cluster struct {
	stated
	room
	index     int32
	name      string
	ledger    ledger
	members   []int32  // slots of bound machines, in keep order
	unclaimed []int32  // slots of those that nothing draws from
	spares    []uint64 // their positions; empty: the ledger was filled since they were looked at
	minimums  []minimum
	flags     flags
	guard     guard
	levels    levels
	spend     int64 // per hour, of its machines, in millionths of a dollar
}

// levels are the needs of a cluster by how much they draw from a machine at least: what is exhausted for large Pods may serve
// small ones.
type levels []level

// level is what the needs of one level all ask for, and the least that any of them draws at once: a machine that has less left of
// any of it is exhausted for them.
type level struct {
	size  int
	mask  vector.Mask
	least vector.Vector
}

// mostLevels is how many levels there are at most; the needs beyond share the last one.
const mostLevels = 12

// of makes the levels those of the needs of a cluster.
func (l levels) of(needs []*need) levels {
	l = l[:0]
	for _, n := range needs {
		size := n.size()
		at := slices.IndexFunc(l, func(o level) bool { return o.size == size })
		switch {
		case at >= 0:
		case len(l) < mostLevels:
			at, l = len(l), append(l, level{size, n.mask, n.unit})
		default:
			at = mostLevels - 1
		}
		n.level = at
		o := &l[at]
		o.mask &= n.mask
		o.least.Min(&n.unit)
		if n.alike == 0 { // its last piece may be smaller than a unit
			for d := range o.least {
				o.least[d] = min(o.least[d], 1)
			}
		}
	}
	return l
}

// size is the power of two that the unit of a need has; 0: it may draw less than a unit.
func (a *amounts) size() int {
	if a.alike == 0 {
		return 0
	}
	return bits.Len64(uint64(a.unit[bits.TrailingZeros16(uint16(a.mask))]))
}

// exhausts reports whether a machine that has so much left serves no need of the level.
func (l *level) exhausts(left []int64) bool {
	for m := uint16(l.mask); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		if left[d] < l.least[d] {
			return true
		}
	}
	return false
}

// stated is what a cluster's roll-ups say.
type stated struct {
	needs   []*need // in walk order
	rollups uint64  // that were in force
	byKey   map[Key]*need
	pending *Rollup // that is quarantined
	lacks   bool    // a need is short whose domains depend on what can be acquired
}

// room is what a machine of each class has for the Pods of a cluster.
type room struct {
	overheads []overhead
	alloc     []vector.Vector // by class
	allocOf   int             // version of the catalog that alloc was made with
}

// flags are what has to be done for a cluster, and what is known of its operator.
type flags struct {
	spent     bool    // its spend is at its limit, in this cycle
	dirty     bool    // credit is to be computed again
	stale     bool    // the ledger's machines are no longer the members
	event     bool    // something happened after which another keep order may be better
	start     bool    // the members have not been ordered in this process
	reported  bool    // a roll-up came since the process began
	live      bool    // its operator is connected
	changed   instant // when its rows last changed
	reordered bool    // its keep order was changed in this cycle
	due       instant // when its credit may come out otherwise without an event; 0: never
}

// guard are the rails of a cluster.
type guard struct {
	quarantine rails.Quarantine
	reclaims   rails.Window
	empties    rails.Window
	loop       rails.Loop
	rows       instant // when the needs in force came
	freedSince instant // since when demand that is gone now was away
	returned   instant // when a machine was last given back
	bought     instant // when a machine was last bought, or taken, for a need
	configured int64
}

// minimum is what is missing of a group's minimum.
type minimum struct {
	group   *group
	missing int64
}
