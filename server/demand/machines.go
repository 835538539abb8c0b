package demand

import (
	"cmp"
	"slices"
	"time"
)

// instant is a time in milliseconds of the epoch; zero is never.
type instant = int64

func instantOf(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeOf(at instant) time.Time { return time.UnixMilli(at).UTC() }

func millis(d time.Duration) int64 { return d.Milliseconds() }

// times are when things happened to a machine, or will.
type times struct {
	bound      instant
	configured instant
	idle       instant
	drain      instant // since when it drains; zero: it does not, or did so before this process began
	surplus    instant // since when it has had no claimant
	empty      instant // since when no Pod would have to be evicted
	join       instant // until when its Node has to be ready
	refused    instant // until when it is not asked for while something runs on it
	failed     instant
	earmark    instant // until when it waits for the need it was taken for
}

// claim is who draws from a machine, as of the last credit of its cluster.
type claim struct {
	needs        int32 // how many; 0: none
	priority     int32
	interruption Bucket
	reclamation  Bucket
}

// machine is one machine between buying and deleting it.
type machine struct {
	id        string
	state     State
	fixed     bool
	leaving   bool // it goes for a reason outside of demand
	voluntary bool // its drain is for what is not urgent, and counts against budgets
	cluster   int32
	tenant    int32 // cluster that it ever served; -1: none
	class     int32
	pos       int32 // in its cluster's ledger
	seq       uint64
	offer     *offer // nil: not bought from one
	price     int64  // when it was bought, or was observed first
	times     times
	stamp     Stamp
	more      extra
}

// extra is what few decisions look at.
type extra struct {
	group   *group
	domains []domain // of the topologies in use, which machines share
	places  *places  // as its record says
	earmark Key      // the need that it was taken for
	undo    State    // what it was before the last action
	asked   Kind     // the last action that was asked for of those that bind it, or end that
	// meantFor is the cluster whose intent the last Cancel took back.
	meantFor   int32
	risk       int32 // of an interruption, in millionths per hour, when it was bought or observed first
	outdatedBy outdatedBy
	held       instant // until when it is on hold
	// vacated: it is empty, and was not when it was refused, if it was: for whose sake it was kept
	// nothing is left.
	vacated bool
	waits   Reason // it waits for its cluster to say something; empty: it does not
}

// outdatedBy is why a machine is to make room for another one.
type outdatedBy uint8

const (
	upToDate outdatedBy = iota // it is not
	drifted
	aged
)

var outdatedReasons = [...]Reason{"", ReasonDrift, ReasonExpiry}

// inside reports whether the machine is in all of the domains.
func (m *machine) inside(within []domain) bool {
	for _, d := range within {
		if !slices.Contains(m.more.domains, d) {
			return false
		}
	}
	return true
}

// bound reports whether the machine's capacity counts for its cluster.
func (m *machine) bound() bool {
	if m.cluster < 0 || m.leaving {
		return false
	}
	switch m.state {
	case Creating, Idle, Configuring, Configured:
		return true
	default:
		return false
	}
}

// intent reports whether the machine is meant for a cluster that it has not been configured for.
func (m *machine) intent() bool {
	return m.cluster >= 0 && (m.state == Creating || m.state == Idle)
}

// spare reports whether a need may take the machine: no cluster has it, or will.
func (m *machine) spare() bool {
	return m.cluster < 0 && !m.leaving && (m.state == Creating || m.state == Idle)
}

// pageOf is how many machines a page of a [fleetTable] holds.
const pageOf = 256

// fleetTable holds all machines by slot. Slots are used again in the order in which they became
// free, which equal inputs repeat.
type fleetTable struct {
	pages  []*[pageOf]machine // a table that grows moves no machine
	slots  int32              // that were ever in use
	byID   map[string]int32
	vacant []int32
	loose  []int32 // slots of machines without a cluster, and of those in an unsettled state
	seq    uint64
}

// at is the machine in a slot.
func (f *fleetTable) at(slot int32) *machine { return &f.pages[slot/pageOf][slot%pageOf] }

// add makes room for a machine with an id that is not known.
func (f *fleetTable) add(id string) int32 {
	var slot int32
	if n := len(f.vacant); n > 0 {
		slot = f.vacant[n-1]
		f.vacant = f.vacant[:n-1]
	} else {
		slot = f.slots
		if f.slots++; int(slot)/pageOf == len(f.pages) {
			f.pages = append(f.pages, new([pageOf]machine))
		}
	}
	*f.at(slot) = machine{id: id, cluster: -1, tenant: -1, pos: -1}
	f.byID[id] = slot
	return slot
}

// remove forgets a machine.
func (f *fleetTable) remove(slot int32) {
	delete(f.byID, f.at(slot).id)
	*f.at(slot) = machine{cluster: -1, tenant: -1, pos: -1}
	f.vacant = append(f.vacant, slot)
}

// watch adds a machine to the loose ones, which every cycle looks at.
func (f *fleetTable) watch(slot int32) {
	if n := len(f.loose); n == 0 || f.loose[n-1] < slot {
		f.loose = append(f.loose, slot)
		return
	}
	i, found := slices.BinarySearch(f.loose, slot)
	if !found {
		f.loose = slices.Insert(f.loose, i, slot)
	}
}

// sweep drops machines from the loose ones that are settled or gone.
func (f *fleetTable) sweep() {
	f.loose = slices.DeleteFunc(f.loose, func(slot int32) bool {
		m := f.at(slot)
		return m.id == "" || m.state == Configured && !m.leaving
	})
}

// boundFor reports whether the cluster of a need has any machine that was bound for it.
func (f *fleetTable) boundFor(n *need) bool {
	return slices.ContainsFunc(n.home.members, func(slot int32) bool { return f.at(slot).stamp.Need == n.Key })
}

// runs reports whether all machines that were bound for a need are configured.
func (f *fleetTable) runs(n *need) bool {
	return !slices.ContainsFunc(n.home.members, func(slot int32) bool {
		return f.at(slot).stamp.Need == n.Key && f.at(slot).state != Configured
	})
}

// keepCost is what a machine costs per hour, by the price and the risk at which it was bought.
func (m *machine) keepCost() int64 {
	return effective(m.price, int64(m.more.risk), m.stamp.Interruption)
}

// rank is what the order by cost looks at, beside the order of before.
type rank struct {
	fixed       bool
	cost        int64
	reclamation Bucket
}

func (a rank) compare(b rank) int {
	if a.fixed != b.fixed {
		if a.fixed {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(b.reclamation, a.reclamation))
}
