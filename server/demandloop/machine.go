package demandloop

import (
	"container/heap"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/demand"
)

// machine is what the loop keeps of one machine, beside its record.
type machine struct {
	id    identity.ID
	about whereabouts

	// told is what the engine takes it for; Speculative: the engine does not know it.
	told    demand.State
	failure demand.Failure // why it was not made; Lost: that is not known, or of no interest

	turn  turn
	join  entry
	asked time.Time // when it was last told to drain, or to leave; zero: it has to be
	// unseen is since when the operator finds no Node to drain; zero: it does, or was not asked yet.
	unseen time.Time
}

// turn is when something is done about a machine.
type turn struct {
	busy      bool // a worker has it
	pause     time.Duration
	notBefore time.Time // what failed is not tried again before
	due       time.Time // when to look at it; zero: when something happens
}

// entry is how a machine comes into a cluster.
type entry struct {
	able        ability
	ask         *ask      // for what it takes to join; nil: nothing is asked
	tries       int       // that failed
	toldJoining bool      // told says that it joins, while its record still says that it is meant to
	rejoin      bool      // its agent does not know of the joining that its record says
	sent        string    // the binding that its agent was told of on the stream that it has now, and has not answered
	waits       bool      // the engine was told that it waits for its configuration
	buying      *Purchase // it is made once the ask is answered
}

// whereabouts are what the loop knows of a machine and its cluster.
type whereabouts struct {
	cluster string // whose operator is told of it; empty: none
	fixed   bool
	leaving bool
	// heldUntil is until when it is on hold, as the engine was told; zero: it is not.
	heldUntil time.Time
	// outdated is why it is to make room, as the engine was told; empty: it is not.
	outdated demand.Reason
	node     string // its name
	lacks    string // why it is not ready, as its operator said last; empty: it is, or that was not said
	last     NodeState
}

// late says why a machine has not joined in time, as far as its operator has said.
func (w *whereabouts) late() string {
	switch {
	case w.node == "":
		return "its operator has reported no Node of it"
	case w.lacks == "":
		return fmt.Sprintf("its Node %s was not ready in time", w.node)
	}
	return fmt.Sprintf("its Node %s was not ready in time: %s", w.node, w.lacks)
}

// ability is whether a machine can join clusters, as far as its agent has said.
type ability uint8

const (
	unknown ability = iota
	able
	unable
)

// ask is a request for what it takes to join.
type ask struct {
	request  string
	cluster  *cluster
	deadline time.Time
}

// agenda are the machines that have to be looked at some time. Entries that are out of date are
// dropped when their time comes.
type agenda struct{ appointments appointments }

type appointment struct {
	at time.Time
	m  *machine
}

// add has a machine looked at at a time, if not sooner.
func (a *agenda) add(m *machine, at time.Time) {
	if !m.turn.due.IsZero() && !at.Before(m.turn.due) {
		return
	}
	m.turn.due = at
	heap.Push(&a.appointments, appointment{at, m})
}

// next returns a machine whose time has come; nil: none is.
func (a *agenda) next(now time.Time) *machine {
	for len(a.appointments) > 0 && !a.appointments[0].at.After(now) {
		e, _ := heap.Pop(&a.appointments).(appointment)
		if e.m.turn.due.Equal(e.at) {
			e.m.turn.due = time.Time{}
			return e.m
		}
	}
	return nil
}

// soonest is when next has a machine; zero: no time is known.
func (a *agenda) soonest() time.Time {
	if len(a.appointments) == 0 {
		return time.Time{}
	}
	return a.appointments[0].at
}

// appointments implement [heap.Interface], by time and then by id.
type appointments []appointment

func (e appointments) Len() int { return len(e) }
func (e appointments) Less(i, j int) bool {
	if c := e[i].at.Compare(e[j].at); c != 0 {
		return c < 0
	}
	return e[i].m.id < e[j].m.id
}
func (e appointments) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *appointments) Push(x any) {
	if v, ok := x.(appointment); ok {
		*e = append(*e, v)
	}
}

func (e *appointments) Pop() any {
	last := (*e)[len(*e)-1]
	(*e)[len(*e)-1] = appointment{}
	*e = (*e)[:len(*e)-1]
	return last
}
