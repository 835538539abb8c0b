package cloud

import (
	"errors"
	"fmt"
	"time"
)

// ErrNoCapacity is the answer of a provider without room for the type, ErrQuota that of an
// account which may have no more.
var (
	ErrNoCapacity = errors.New("no capacity")
	ErrQuota      = errors.New("quota exceeded")
	ErrNotFound   = errors.New("no such machine")
	ErrStage      = errors.New("the machine is in another stage")
)

// Stage is how far a machine is.
type Stage uint8

// The stages. A machine that broke or was killed is Broken until it is deleted.
const (
	Booting Stage = iota
	Idle          // up and registered, in no cluster
	Joining       // told to join a cluster
	Joined
	Leaving // told to leave its cluster
	Deleting
	Gone
	Broken
)

// String is the name of the stage.
func (s Stage) String() string {
	return [...]string{"booting", "idle", "joining", "joined", "leaving", "deleting", "gone", "broken"}[s]
}

// Times are how long the machines of a type take. Zero is at the next step.
type Times struct{ Boot, Join, Leave, Delete time.Duration }

// Outcome is what becomes of a create.
type Outcome uint8

// The outcomes. A create that is refused makes no machine.
const (
	Works      Outcome = iota
	NoCapacity         // is refused
	Quota              // is refused
	NeverBoots         // the machine breaks when it should have booted
	NeverJoins         // it boots, and its kubelet never comes
)

// Machine is one that exists or did.
type Machine struct {
	ID, Type string
	Stage    Stage
	// Clusters are those that it ran, in their order.
	Clusters []string
	// Never says that its kubelet never comes.
	Never bool

	in     string
	due    time.Time
	breaks bool
}

// Cluster is the one that the machine runs, joins or leaves; empty if there is none.
func (m *Machine) Cluster() string { return m.in }

// Event says that a machine has come to a stage by itself.
type Event struct {
	ID    string
	Stage Stage
}

// Cloud is a provider. [New] makes one.
type Cloud struct {
	types    map[string]*kind
	machines []*Machine          // all that ever were, in the order of their creates
	byID     map[string]*Machine // the same
	live     []*Machine          // those that are not gone
	pending  []Event             // of kills, for the next step
}

type kind struct {
	times  Times
	room   int // how many there may be; below zero is any number
	used   int
	script []Outcome
}

// New makes a provider without types.
func New() *Cloud {
	return &Cloud{types: map[string]*kind{}, byID: map[string]*Machine{}}
}

// Offer adds a type, or changes how long its machines take from now on.
func (c *Cloud) Offer(name string, times Times) {
	if k := c.types[name]; k != nil {
		k.times = times
		return
	}
	c.types[name] = &kind{times: times, room: -1}
}

// SetRoom limits how many machines of a type there may be; below zero is no limit. More that
// exist are kept.
func (c *Cloud) SetRoom(name string, machines int) { c.types[name].room = machines }

// Script says what becomes of the next creates of a type, one outcome for each.
func (c *Cloud) Script(name string, outcomes ...Outcome) {
	c.types[name].script = append(c.types[name].script, outcomes...)
}

// Create makes a machine, or does nothing if there is one of that id, or was.
func (c *Cloud) Create(id, name string, now time.Time) error {
	if m := c.byID[id]; m != nil {
		if m.Type != name {
			return fmt.Errorf("create %s: its type was %s and is %s now", id, m.Type, name)
		}
		return nil
	}
	k, outcome := c.types[name], Works
	if len(k.script) > 0 {
		outcome, k.script = k.script[0], k.script[1:]
	}
	switch {
	case outcome == NoCapacity, k.room >= 0 && k.used >= k.room:
		return ErrNoCapacity
	case outcome == Quota:
		return ErrQuota
	}
	m := &Machine{ID: id, Type: name, due: now.Add(k.times.Boot), Never: outcome == NeverJoins, breaks: outcome == NeverBoots}
	k.used++
	c.machines, c.live, c.byID[id] = append(c.machines, m), append(c.live, m), m
	return nil
}

// Configure tells an idle machine to join a cluster.
func (c *Cloud) Configure(id, cluster string, now time.Time) error {
	m := c.byID[id]
	switch {
	case m == nil || m.Stage == Gone:
		return ErrNotFound
	case (m.Stage == Joining || m.Stage == Joined) && m.Cluster() == cluster:
		return nil
	case m.Stage != Idle:
		return fmt.Errorf("configure %s, which is %s: %w", id, m.Stage, ErrStage)
	}
	m.Stage, m.due, m.Clusters = Joining, now.Add(c.types[m.Type].times.Join), append(m.Clusters, cluster)
	m.in = cluster
	return nil
}

// Leave tells a machine to leave its cluster.
func (c *Cloud) Leave(id string, now time.Time) error {
	m := c.byID[id]
	switch {
	case m == nil || m.Stage == Gone:
		return ErrNotFound
	case m.Stage == Leaving || m.Stage == Idle:
		return nil
	case m.Stage != Joined && m.Stage != Joining:
		return fmt.Errorf("leave of %s, which is %s: %w", id, m.Stage, ErrStage)
	}
	m.Stage, m.due = Leaving, now.Add(c.types[m.Type].times.Leave)
	return nil
}

// Delete asks for the end of a machine. One that is gone is no error.
func (c *Cloud) Delete(id string, now time.Time) {
	if m := c.byID[id]; m != nil && m.Stage != Gone && m.Stage != Deleting {
		m.Stage, m.in, m.due = Deleting, "", now.Add(c.types[m.Type].times.Delete)
	}
}

// Kill breaks a machine, as a host that fails does.
func (c *Cloud) Kill(id string) {
	if m := c.byID[id]; m != nil && m.Stage != Gone && m.Stage != Deleting && m.Stage != Broken {
		m.Stage = Broken
		c.pending = append(c.pending, Event{id, Broken})
	}
}

// Step lets machines go on to now, and returns what has come of them, in the order in which they
// were made.
func (c *Cloud) Step(now time.Time) []Event {
	events := c.pending
	c.pending = nil
	live := c.live[:0]
	for _, m := range c.live {
		was := m.Stage
		if !now.Before(m.due) {
			c.advance(m)
		}
		if m.Stage != was {
			events = append(events, Event{m.ID, m.Stage})
		}
		if m.Stage == Gone {
			c.types[m.Type].used--
			continue
		}
		live = append(live, m)
	}
	c.live = live
	return events
}

func (c *Cloud) advance(m *Machine) {
	switch m.Stage {
	case Booting:
		m.Stage = Idle
		if m.breaks {
			m.Stage = Broken
		}
	case Joining:
		if !m.Never {
			m.Stage = Joined
		}
	case Leaving:
		m.Stage, m.in = Idle, ""
	case Deleting:
		m.Stage, m.in = Gone, ""
	case Idle, Joined, Gone, Broken:
	}
}

// Get is the machine of an id, or nil.
func (c *Cloud) Get(id string) *Machine { return c.byID[id] }

// Live are the machines that are not gone, in the order in which they were made; the slice is the
// cloud's own, until the next step.
func (c *Cloud) Live() []*Machine { return c.live }

// Made counts the machines that there ever were.
func (c *Cloud) Made() int { return len(c.machines) }

// Clear drops what is left of the script of a type.
func (c *Cloud) Clear(name string) { c.types[name].script = nil }
