package leader

import (
	"slices"
	"time"

	"nstance.dev/server/demand"
)

// Record is what is durable of a machine.
type Record struct {
	ID, Offer string
	State     demand.State
	Cluster   string // that it is bound to, or meant for; empty is none
	Tenant    string // that it ever served; empty is none
	Stamp     demand.Stamp
	Replaces  string // machines, with commas between them, that it was bought to replace; empty is none
	Price     int64
	Since     time.Time // of the state
	Failure   demand.Failure
	Drain     Drain
	// Outdated is why it is to make room for another one; empty is that it is not.
	Outdated demand.Reason
	// Relieved is when it was condemned because others had taken its place; zero is that it was not.
	Relieved time.Time
	// Condemned says that it goes for a reason outside of demand; its VM is deleted at Deadline or
	// when its Node is drained.
	Condemned bool
	Deadline  time.Time

	tries int // of its bootstrap
}

// Drain is that of a binding, since an instruction was decided.
type Drain struct {
	Instruction string // empty is none
	Voluntary   bool
	Empty       bool // it was given back because it has no Pods
	Grace       time.Duration
	Deadline    time.Time
	Leaving     bool // its Node is empty, and the machine leaves the cluster
	told        bool // the operator has acknowledged it, in this process or another
	again       time.Time
}

// Store are the records of a shard, in the order in which they were made.
type Store struct {
	Records []*Record
	// Term is that of the leadership; a process with another one changes nothing.
	Term int
	// Serial is the number of the last machine.
	Serial int
	// Archived counts the records of machines that are gone.
	Archived int

	byID map[string]*Record
}

// NewStore makes one without records.
func NewStore() *Store { return &Store{byID: map[string]*Record{}} }

// Get is the record of a machine, or nil.
func (s *Store) Get(id string) *Record { return s.byID[id] }

func (s *Store) add(r *Record) {
	s.Records, s.byID[r.ID] = append(s.Records, r), r
}

func (s *Store) archive(r *Record) {
	s.Records = slices.DeleteFunc(s.Records, func(o *Record) bool { return o == r })
	delete(s.byID, r.ID)
	s.Archived++
}

// Bound says whether the record's machine counts for a cluster: it is meant for it, joins it or has
// joined it, and does not leave.
func (r *Record) Bound() bool {
	switch r.State {
	case demand.Creating, demand.Idle, demand.Configuring, demand.Configured:
		return r.Cluster != "" && !r.Condemned
	}
	return false
}
