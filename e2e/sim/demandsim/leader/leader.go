package leader

import (
	"fmt"
	"time"

	"nstance.dev/e2e/sim/demandsim/cloud"
	"nstance.dev/e2e/sim/demandsim/tenant"
	"nstance.dev/protos/rollup"
	"nstance.dev/server/demand"
)

// World is what a leader acts on besides the provider.
type World interface {
	// Instruct hands an instruction to the operator of a cluster; false: it has no session.
	Instruct(cluster string, i tenant.Instruction) (tenant.Ack, bool)
	// Blob asks the operator of a cluster for what a machine needs to join.
	Blob(cluster, machine string) Blob
	// Ended tells the operator of a cluster that a machine has left it or is gone, so that its Node
	// is deleted.
	Ended(cluster, machine string)
	// Held tells the operator of a cluster that its roll-up is not in force.
	Held(cluster string)
	// Decided is called after each cycle, before its actions are carried out.
	Decided(demand.Result)
	// Acted is called for each thing that is done to a machine, and says what it is.
	Acted(what string, r *Record, reason string)
}

// Blob is the answer to a request for one.
type Blob uint8

// The answers: a blob, an error of its template, or none in time.
const (
	BlobReady Blob = iota
	BlobError
	BlobTimeout
)

// Options are how a leader is set. All are required, but DeleteAfterDrain.
type Options struct {
	Store    *Store
	Cloud    *cloud.Cloud
	World    World
	Settings demand.Settings // NewID is the leader's own
	Groups   []demand.Group
	Offers   []demand.Offer
	Pools    map[string]int64
	// DeleteAfterDrain makes machines that have left a cluster go instead of being used again.
	DeleteAfterDrain bool
	// HideInFlight hides machines from the engine until they have joined. It is a mistake that a
	// simulation has to find.
	HideInFlight bool
}

// Leader is a process that leads. [Start] makes one.
type Leader struct {
	opts    Options
	engine  *demand.Engine
	events  []demand.Event
	live    map[string]bool // sessions
	joiners map[string]*rollup.Joiner
	now     time.Time
	next    time.Time // of the next cycle without an event; zero is none
	term    int
	effects int // that are left until the process ends; below zero: it does not
	refused int // effects that a leader without leadership tried
}

// Errors of effects: the process has ended, or leads no longer.
var (
	errEnded   = fmt.Errorf("the process has ended")
	errDeposed = fmt.Errorf("the term is another leader's")
)

// Start takes the leadership over: the engine begins with the records, as the provider confirms
// them.
func Start(opts Options, now time.Time) (*Leader, error) {
	opts.Store.Term++
	l := &Leader{opts: opts, live: map[string]bool{}, joiners: map[string]*rollup.Joiner{}, now: now, term: opts.Store.Term, effects: -1}
	l.opts.Settings.NewID = l.newID
	engine, err := demand.New(l.opts.Settings)
	if err != nil {
		return nil, err
	}
	l.engine = engine
	for _, g := range opts.Groups {
		l.tell(demand.GroupChanged{Group: g})
	}
	for _, name := range sortedKeys(opts.Pools) {
		l.tell(demand.PoolChanged{Name: name, Limit: opts.Pools[name]})
	}
	l.tell(demand.OffersChanged{Offers: opts.Offers})
	for _, r := range opts.Store.Records {
		if r.Condemned {
			continue
		}
		r.Drain.again = time.Time{}
		l.introduce(r)
	}
	return l, nil
}

// introduce tells the engine all that a record says.
func (l *Leader) introduce(r *Record) {
	l.tell(demand.Observed{Machine: l.supply(r)})
	if r.Outdated != "" {
		l.tell(demand.Outdated{ID: r.ID, Reason: r.Outdated})
	}
}

// Outdate has a machine make room for another one.
func (l *Leader) Outdate(id string, why demand.Reason) {
	if r := l.opts.Store.Get(id); r != nil && !r.Condemned && r.State != demand.Deleting && r.State != demand.Failed {
		r.Outdated = why
		l.tell(demand.Outdated{ID: id, Reason: why})
	}
}

// EndAfter makes the process end in front of its next effect but so many.
func (l *Leader) EndAfter(effects int) { l.effects = effects }

// Ended says whether the process has ended by [Leader.EndAfter].
func (l *Leader) Ended() bool { return l.effects == 0 }

// Refused counts the effects that were refused because the term is another leader's.
func (l *Leader) Refused() int { return l.refused }

// SetOffers replaces the offers.
func (l *Leader) SetOffers(offers []demand.Offer) { l.tell(demand.OffersChanged{Offers: offers}) }

// Suspend sets a pause or a dry run; scope is a cluster or a group, and empty for all.
func (l *Leader) Suspend(scope string, paused, dry bool) {
	l.tell(demand.Suspended{Scope: scope, Paused: paused, RehearsalOnly: dry})
}

// Session says that the operator of a cluster is connected, or is not.
func (l *Leader) Session(cluster string, live bool) {
	if l.live[cluster] != live {
		l.live[cluster] = live
		l.tell(demand.Session{Cluster: cluster, Live: live})
	}
	l.joiners[cluster] = nil
	if live {
		l.joiners[cluster] = rollup.NewJoiner(tenant.ClusterID)
	}
}

// newID names a machine: in the order in which they are decided, never one twice, and unlike those
// of a process that has been deposed.
func (l *Leader) newID(string) string {
	l.opts.Store.Serial++
	return fmt.Sprintf("m%04d", l.opts.Store.Serial)
}

func (l *Leader) tell(e demand.Event) { l.events = append(l.events, e) }

// effect asks for leave to do one thing that outlives the process.
func (l *Leader) effect() error {
	switch {
	case l.effects == 0:
		return errEnded
	case l.term != l.opts.Store.Term:
		l.refused++
		return errDeposed
	case l.effects > 0:
		l.effects--
	}
	return nil
}

// supply is a record as the engine takes it.
func (l *Leader) supply(r *Record) demand.Supply {
	s := demand.Supply{
		ID: r.ID, Offer: r.Offer, State: r.State, Cluster: r.Cluster, Tenant: r.Tenant, Price: r.Price, Since: r.Since, Stamp: r.Stamp, Replaces: r.Replaces,
	}
	for i := range l.opts.Offers {
		if l.opts.Offers[i].Name == r.Offer {
			s.Class = l.opts.Offers[i].Class
		}
	}
	return s
}

// move changes a record's state and tells the engine.
func (l *Leader) move(r *Record, to demand.State, failure demand.Failure) {
	if r.State == to {
		return
	}
	r.State, r.Since, r.Failure = to, l.now, failure
	l.tell(demand.Changed{ID: r.ID, State: to, Failure: failure})
}

// Step lets the leader go on to now: it looks at the provider, runs a cycle of the engine if one
// is due, and carries out what is decided.
func (l *Leader) Step(now time.Time) {
	if l.Ended() {
		return
	}
	l.now = now
	l.observe()
	if len(l.events) == 0 && (l.next.IsZero() || now.Before(l.next)) {
		return
	}
	events := l.events
	l.events = nil
	result := l.engine.Step(now, events)
	l.next = result.Next
	if l.term != l.opts.Store.Term {
		for _, a := range result.Actions {
			if a.Disposition == demand.Execute {
				l.execute(a) // each of its effects is refused
			}
		}
		return
	}
	l.opts.World.Decided(result)
	for _, a := range result.Answers {
		if a.Quarantined {
			l.opts.World.Held(a.Cluster)
		}
	}
	for _, a := range result.Actions {
		if a.Disposition == demand.Execute {
			l.execute(a)
		}
	}
}
