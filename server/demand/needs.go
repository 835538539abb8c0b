package demand

import (
	"bytes"
	"cmp"
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
	home      *cluster
	profile   *profile
	mask      vector.Mask
	unit      vector.Vector
	unknown   bool // it asks for a resource that no class has
	total     vector.Vector
	eligible  []uint64 // classes that match and hold a unit, as bits
	version   int      // of catalog and overheads that eligible was made with
	firstSeen instant
	rollup    uint64 // of the cluster's, that named it last
	parts     []part
	deficit   vector.Vector // of all parts; see sum
	memory    memory
	lack      lack
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

// lack is what a need is short of, and since when.
type lack struct {
	since  instant
	cycles int
	cycle  int // of the engine, that was counted last
	reason Reason
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
	members   []int32 // slots of bound machines, in keep order
	unclaimed []int32 // slots of those that nothing draws from
	minimums  []minimum
	flags     flags
	guard     guard
	common    vector.Mask // what every need asks for: a machine without any of it is exhausted
	spend     int64       // per hour, of its machines, in millionths of a dollar
}

// stated is what a cluster's roll-ups say.
type stated struct {
	needs   []*need // in walk order
	rollups uint64  // that were in force
	byKey   map[Key]*need
	pending *Rollup // that is held
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
