package dashboard

import (
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Pane is one of the lists that the screen shows.
type Pane int

// The panes, in the order of their keys 1 to 4.
const (
	Groups Pane = iota
	Instances
	Events
	Cost
	panes // how many there are
)

func (p Pane) String() string { return [...]string{"groups", "instances", "events", "cost"}[p] }

// Shard is what one shard said when it was last asked.
type Shard struct {
	Name      string
	Leader    string
	Version   string
	Term      int64
	Groups    []*nstancev1.GroupStatus
	Instances []*nstancev1.InstanceStatus
	Err       string // why it did not answer; then the rest is as it was before
}

// Event is something that happened.
type Event struct {
	At    time.Time
	Shard string
	Kind  string // group, instance or error
	Text  string
}

// Dialog is what is in front of the lists.
type Dialog struct {
	Title string
	Lines []string // of a text; nil: something is asked
	Top   int      // the first line that is shown

	Question string  // with the answer's form
	Answer   string  // as far as it is typed
	Ask      Request // what the answer completes
}

// State is all that the screen depends on. The zero value shows that nothing is known yet.
type State struct {
	Width, Height int
	Now           time.Time // of the last message
	Shards        []Shard   // sorted by name
	Known         bool      // the shards have been asked
	Happened      []Event   // the oldest first

	Pane      Pane
	Cursor    [panes]int
	Sort      [panes]int // a column, from 0 on
	Reverse   [panes]bool
	Filter    string
	Filtering bool // keys go to the filter

	Dialog *Dialog
	Help   bool
	Notice string // the outcome of the last action
}

// mostEvents is how many events are kept.
const mostEvents = 500

// Message is what changes a state: a [Key], [Size], [Data], [Event], [Tick] or [Answer].
type Message interface{ message() }

// Key is a key by its name, such as q, enter or ctrl+c.
type Key string

// Size is that of the screen.
type Size struct{ Width, Height int }

// Data is what the shards said.
type Data struct{ Shards []Shard }

// Tick is the time.
type Tick time.Time

// Answer is the outcome of a [Request].
type Answer struct {
	Title string
	Text  string // to be shown as a text; empty: Notice tells all
	// Notice is a line on what was done, or what went wrong.
	Notice string
}

func (Key) message()    {}
func (Size) message()   {}
func (Data) message()   {}
func (Event) message()  {}
func (Tick) message()   {}
func (Answer) message() {}

// Verb is what a [Request] asks for.
type Verb string

// The verbs.
const (
	Nothing  Verb = ""
	Quit     Verb = "quit"
	Refresh  Verb = "refresh"
	Describe Verb = "describe"
	Explain  Verb = "explain"
	Plan     Verb = "plan" // what the server would do next
	Pause    Verb = "pause"
	Resume   Verb = "resume"
	Scale    Verb = "scale"
)

// Request is what is to be asked of the servers. The zero value is nothing.
type Request struct {
	Verb     Verb
	Shard    string
	Group    string
	Instance string // of Describe and Explain; empty: the group
	Size     int32  // of Scale
	Reason   string // of Pause
}
