package demand

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
)

// Settings are the settings of an [Engine]; zero fields take the defaults.
type Settings struct {
	Workers       int    // that compute at once inside a step; 1
	MaxCreates    int    // in one cycle; 1000; negative: no limit
	MaxShortfalls int    // that a result lists; 100
	Policy        Policy // to begin with; [PolicyChanged] replaces it
	// Phase is called as each part of a cycle begins, with its name, for measurements; nil: there are none.
	Phase func(name string)
	// NewID names a machine that is to be bought of an offer. It is called once for each, in a fixed
	// order, and never returns the same id twice.
	NewID func(offer string) string
}

// Validate reports what is wrong with the settings.
func (s Settings) Validate() error {
	if s.NewID == nil {
		return fmt.Errorf("NewID must be set")
	}
	if s.Workers < 0 {
		return fmt.Errorf("workers: %d must not be negative", s.Workers)
	}
	return s.Policy.validate()
}

// Policy is what tenants may spend, and whose priorities count against whose. Zero fields take the defaults.
type Policy struct {
	HourlySpend map[string]int64  // by cluster, in millionths of a dollar; absent: no limit
	Domains     map[string]string // the priority domain of a cluster; absent: the cluster by itself
	Victims     Weights           // which machine is taken first where a higher priority takes one
}

func (p *Policy) validate() error {
	if v := p.Victims; min(v.Gap, v.Drain, v.Interruption, v.Reclamation) < 0 || max(v.Gap, v.Drain, v.Interruption, v.Reclamation) > mostWeight {
		return fmt.Errorf("victims: %+v must be from 0 to %d millionths each", v, mostWeight)
	}
	return nil
}

// Weights say how much each thing counts in the choice of a machine that is taken for a higher priority, in
// millionths. The zero value stands for [DefaultWeights].
type Weights struct {
	Gap          int64 // between the priorities
	Drain        int64 // how fast drains of machines of its class were
	Interruption int64 // how little it costs to disturb its workload
	Reclamation  int64 // how little it costs to lose it
}

// DefaultWeights let the gap of priorities decide, and the others only between equal gaps.
var DefaultWeights = Weights{Gap: 1_000_000, Drain: 100_000, Interruption: 100_000, Reclamation: 100_000}

// mostWeight is the largest of the [Weights]: with it the widest gap of priorities still fits a score.
const mostWeight = 1_000_000

// Key names a need within its shard. Callers compute it from the cluster and the row; the engine
// only compares.
type Key [16]byte

// Bucket is a penalty in dollars, rounded up: 1 is nothing, 2 half a dollar, 3+k is 2^k dollars.
// The zero Bucket is not valid on the wire and counts as nothing.
type Bucket uint8

// Pinned is the Bucket beyond all amounts: a workload that nothing may disturb.
const Pinned Bucket = 27

// Cents is the upper bound of the bucket in hundredths of a dollar. For Pinned it is that of the
// bucket below.
func (b Bucket) Cents() int64 {
	switch {
	case b <= 1:
		return 0
	case b == 2:
		return 50
	default:
		return 100 << (min(b, Pinned-1) - 3)
	}
}

// Spread asks that a need be divided evenly over the values of a topology key.
type Spread struct {
	TopologyKey string
	MaxSkew     int64 // at least 1
}

// Row is one need of a cluster as its roll-up states it.
type Row struct {
	Key          Key
	Fingerprint  string // of the profile; rows with equal ones are matched alike
	Terms        match.Terms
	Spread       []Spread
	Priority     int32
	Interruption Bucket // what it costs to disturb the workload
	Reclamation  Bucket // what it costs to lose this very machine
	Group        string // set if and only if the Terms ask for Same
	Stuck        uint32 // not 0: credited only by machines that were bound for this row
	Aggregate    []vector.Amount
	MinUnit      []vector.Amount // what must fit into one machine; at most the Aggregate
	AllOrNothing bool
}

// Overhead is what every machine that its Terms match carries besides its workload: one DaemonSet.
type Overhead struct {
	Terms     match.Terms
	Resources []vector.Amount // all that is taken of a machine: `pods: 1` is one of them, and is not added here
}

// CapacityType says how a machine is paid for.
type CapacityType string

// The capacity types.
const (
	OnDemand  CapacityType = "on-demand"
	Spot      CapacityType = "spot"
	Reserved  CapacityType = "reserved"
	BareMetal CapacityType = "bare-metal"
)

// Class is everything of a machine that matching can see. Equal Classes are one.
type Class struct {
	Group        string // tenant and group, as the shard names it
	InstanceType string
	CapacityType CapacityType
	Labels       map[string]string // what its Node will be labelled with; topology keys included
	Taints       []match.Taint     // without startup taints
	Allocatable  []vector.Amount   // by the catalogue, without overheads of a cluster
	// InterruptionPPM is the probability of an interruption, in millionths per hour. It may change from one
	// listing to the next: classes that differ in it alone are one, unless one of them is never interrupted.
	InterruptionPPM int64
}

// canonical appends what equal classes share, and no others.
func (c *Class) canonical(b []byte) []byte {
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	text(c.Group)
	text(c.InstanceType)
	text(string(c.CapacityType))
	b = binary.AppendVarint(b, min(c.InterruptionPPM, 1)) // whether it may be interrupted: how likely that is, changes
	b = binary.AppendUvarint(b, uint64(len(c.Labels)))
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		text(key)
		text(c.Labels[key])
	}
	b = binary.AppendUvarint(b, uint64(len(c.Taints)))
	for _, t := range c.Taints {
		text(t.Key)
		text(t.Value)
		b = append(b, byte(t.Effect))
	}
	for _, a := range c.Allocatable {
		text(a.Name)
		b = binary.AppendVarint(b, a.Amount)
	}
	return b
}

// PoolUse says how many units of a quota pool one machine takes.
type PoolUse struct {
	Pool  string
	Units int64 // at least 1
}

// Offer is something that machines can be bought from.
type Offer struct {
	Name         string // unique within the shard
	Class        Class
	Tenant       string // whose clusters may buy; empty: all
	PricePerHour int64  // in millionths of a dollar
	Limit        int64  // most machines of this offer; negative: no limit
	Pools        []PoolUse
	Capacity     []vector.Amount // what its group's limits count
}

// Group is what a demand group sets for its machines.
type Group struct {
	Name           string
	Tenant         string        // whose minimum Min is
	Min            int64         // machines that are kept, needed or not
	Max            int64         // negative: no limit
	MinIdle        int64         // unbound, registered machines that are kept warm
	ScaleDownDelay time.Duration // how long a machine is unclaimed before it is given back
	MinLifetime    time.Duration // how long it is kept after it was configured
	JoinDeadline   time.Duration // how long its Node may take to be ready
	ReleaseHold    time.Duration // how long an idle machine is kept; negative: by its capacity type
	UserData       bool          // the cluster is in the user data: no machine is idle or used again
	Reuse          bool          // machines may serve another tenant after the first
	Limits         Limits
	Disruption     []Budget
	Consolidation  Consolidation
}

// Consolidation is the replacement of machines by cheaper ones that do the same. The zero value is none.
type Consolidation struct {
	Enabled   bool
	MinSaving int64 // what has to be saved of their cost, in millionths
}

// Limits bound a group by sums over its machines. Zero values do not bound.
type Limits struct {
	Resources   []vector.Amount
	HourlySpend int64 // in millionths of a dollar
}

// Budget bounds how many machines of a group drain at once for what is not urgent.
type Budget struct {
	Nodes   int64 // a number, or percent of the configured ones, rounded up
	Percent bool
	Reasons []Reason // empty: all that it can bound
	// From and Until are the window in which it is in force, chosen by the caller out of a
	// schedule; zero: always.
	From, Until time.Time
}

// Supply is a machine as a record of the shard describes it.
type Supply struct {
	ID      string
	Offer   string // empty: it was not bought from one
	Class   Class
	Domains map[string]string // by topology key, for what only the machine itself knows
	State   State
	Cluster string // bound to, or meant for; empty: none
	Tenant  string // that it ever served; empty: none
	Fixed   bool   // of a group with a size: credited, never given back
	Price   int64  // per hour when it was bound, in millionths of a dollar
	// Capacity and Pools are those of its offer, for one that is not offered now.
	Capacity []vector.Amount
	Pools    []PoolUse
	Since    time.Time
	Stamp    Stamp
	// Voluntary: it drains, and for what is not urgent, so that budgets count it.
	Voluntary bool
	Replaces  string // as its [Action] said
}

// Stamp is for what a machine was bound. It is durable, and protects the machine until the first
// roll-up of a process.
type Stamp struct {
	Need         Key
	Group        string
	Priority     int32
	Interruption Bucket
	Reclamation  Bucket
}

// Event is something that the engine is told. Events are applied in the order in which they come.
type Event interface{ event() }

type (
	// Rollup replaces all needs of a cluster.
	Rollup struct {
		Cluster   string
		Sequence  uint64
		Rows      []Row
		Overheads []Overhead
		Repeated  bool // it says only that it equals the one before
	}
	// Session says whether a cluster's operator is connected.
	Session struct {
		Cluster string
		Live    bool
	}
	// GroupChanged adds a group or changes its settings.
	GroupChanged struct{ Group Group }
	// OffersChanged replaces all offers.
	OffersChanged struct{ Offers []Offer }
	// PoolChanged sets the limit of a quota pool, in units; a pool that was never set is empty.
	PoolChanged struct {
		Name  string
		Limit int64
	}
	// PolicyChanged replaces the policy.
	PolicyChanged struct{ Policy Policy }
	// Observed adds a machine of a record, or replaces what is known of it.
	Observed struct{ Machine Supply }
	// Changed says that a machine is in another state.
	Changed struct {
		ID      string
		State   State
		Failure Failure // with Failed
	}
	// Leaving says that a machine goes for a reason outside of demand, and counts no longer.
	Leaving struct{ ID string }
	// Outdated says that a machine is to make room for another one, for [ReasonDrift] or [ReasonExpiry], when that
	// disturbs no workload; without a reason, that it is not.
	Outdated struct {
		ID     string
		Reason Reason
	}
	// Held says that a machine is on hold, because something is done to it that would be lost: until then it is
	// neither given back nor replaced. A time that is over: it is not on hold.
	Held struct {
		ID    string
		Until time.Time
	}
	// Gone says that a machine does not exist any longer.
	Gone struct{ ID string }
	// Report is what an operator says of a Node.
	Report struct {
		ID          string
		Empty       bool            // no Pod that would have to be evicted
		Allocatable []vector.Amount // of the Node; empty: not said
	}
	// Refused says that the operator does not give a machine back.
	Refused struct {
		ID    string
		Until time.Time // zero: the ordinary time
	}
	// Dropped says that an action on a machine was not begun.
	Dropped struct{ ID string }
	// BlobFailed says that the cluster cannot be joined by what is bought for a need.
	BlobFailed struct{ ID string }
	// Waits says that a machine which is being configured waits for something that its cluster has to say: until it
	// is told otherwise no deadline ends that. For is then the reason of the need that it was bound for; empty: it
	// waits no longer, and its deadline begins anew.
	Waits struct {
		ID  string
		For Reason
	}
	// Suspended sets what is decided without being done. An empty Scope is the whole shard, else
	// it is a cluster or a group.
	Suspended struct {
		Scope         string
		Paused        bool
		RehearsalOnly bool // a dry run: counted by itself
	}
)

func (Rollup) event()        {}
func (Session) event()       {}
func (GroupChanged) event()  {}
func (OffersChanged) event() {}
func (PoolChanged) event()   {}
func (PolicyChanged) event() {}
func (Observed) event()      {}
func (Changed) event()       {}
func (Leaving) event()       {}
func (Outdated) event()      {}
func (Held) event()          {}
func (Gone) event()          {}
func (Report) event()        {}
func (Refused) event()       {}
func (Dropped) event()       {}
func (BlobFailed) event()    {}
func (Waits) event()         {}
func (Suspended) event()     {}
