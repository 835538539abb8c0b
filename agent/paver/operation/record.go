package operation

import (
	"slices"
	"time"

	"nstance.dev/agent/paver/journal"
)

// State is how far an operation is.
type State string

// The states. From Accepted an operation goes to InProgress or Failed, from InProgress to Complete or
// Failed.
const (
	Accepted   State = "accepted" // it is written down
	InProgress State = "inProgress"
	Complete   State = "complete"
	Failed     State = "failed"
)

// Over reports whether a state is final.
func (s State) Over() bool { return s == Complete || s == Failed }

// Record is an operation and what has become of it.
type Record struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Deadline   time.Time         `json:"deadline"`
	TakesLogs  bool              `json:"takesLogs,omitempty"` // who asked for it stores logs
	State      State             `json:"state"`
	Cancelled  bool              `json:"cancelled,omitempty"` // it is not to begin
	Reason     string            `json:"reason,omitempty"`
	Message    string            `json:"message,omitempty"`
	Results    map[string]string `json:"results,omitempty"`
	Taken      time.Time         `json:"taken"`
	Began      time.Time         `json:"began,omitzero"`
	Ended      time.Time         `json:"ended,omitzero"`
	Marks      Marks             `json:"marks,omitzero"`
}

// Marks are what was so when an operation began, and what was done for it since.
type Marks struct {
	// HostBootID is the boot of the host.
	HostBootID string `json:"hostBootID,omitempty"`
	// Slot is the machine's, and BootID its boot; empty: none ran.
	Slot   journal.Slot `json:"slot,omitempty"`
	BootID string       `json:"bootID,omitempty"`
	// Invocation of the unit.
	Invocation string `json:"invocation,omitempty"`
	// Told is when it was reported that the host is about to go down.
	Told time.Time `json:"told,omitzero"`
	// Sent is when it was last asked for, and Times how often; zero: never.
	Sent  time.Time `json:"sent,omitzero"`
	Times int       `json:"times,omitempty"`
}

// Outcome is how an operation ended.
type Outcome struct {
	Failed  bool
	Reason  string
	Message string
	Results map[string]string
}

// End returns the record of an operation that has ended. One that is over stays as it is.
func (r Record) End(o Outcome, now time.Time) Record {
	if r.State.Over() {
		return r
	}
	r.State, r.Reason, r.Message, r.Results, r.Ended = Complete, o.Reason, journal.Cut(o.Message), o.Results, now
	r.Parameters = nil // which may be large, and are needed no more
	if o.Failed {
		r.State = Failed
	}
	return r
}

// Begin returns the record of an operation that begins.
func (r Record) Begin(marks Marks, now time.Time) Record {
	r.State, r.Reason, r.Message, r.Began, r.Marks = InProgress, "", "", now, marks
	return r
}

// Send returns the record of an operation that is about to be asked for.
func (r Record) Send(now time.Time) Record {
	r.Marks.Sent = now
	r.Marks.Times++
	return r
}

// Tell returns the record of an operation of which it is reported that the host is about to go down.
func (r Record) Tell(now time.Time) Record {
	r.Marks.Told, r.Reason = now, ReasonHalting
	return r
}

// Bounds of a [Book].
const (
	// Kept is how long an operation that is over is kept.
	Kept = 24 * time.Hour
	// Most operations are kept, however young.
	Most = 256
	// MostWaiting operations may not be over at once.
	MostWaiting = 16
	// MostTold operations that are over are reported.
	MostTold = 16
)

// Book is the record of all operations of a host, in the order in which they came. The zero Book has
// none.
type Book struct {
	V       int      `json:"v"`
	Records []Record `json:"records"`
}

// Version is that of the form of a [Book].
const Version = 1

// Find returns the record of an operation; false: it is not known.
func (b Book) Find(id string) (Record, bool) {
	i := b.index(id)
	if i < 0 {
		return Record{}, false
	}
	return b.Records[i], true
}

func (b Book) index(id string) int {
	return slices.IndexFunc(b.Records, func(r Record) bool { return r.ID == id })
}

// Current is the operation that is carried out, or comes next; false: none is to be.
func (b Book) Current() (Record, bool) {
	i := slices.IndexFunc(b.Records, func(r Record) bool { return !r.State.Over() })
	if i < 0 {
		return Record{}, false
	}
	return b.Records[i], true
}

// Waiting is how many operations are not over.
func (b Book) Waiting() (n int) {
	for _, r := range b.Records {
		if !r.State.Over() {
			n++
		}
	}
	return n
}

// With returns a book in which a record is as given, without those that need not be kept any more.
// It shares nothing with b that is changed.
func (b Book) With(r Record, now time.Time) Book {
	next := Book{V: Version}
	for _, one := range b.Records {
		// One that could be asked for again is kept, however long ago it ended.
		if one.ID != r.ID && one.State.Over() && now.Sub(one.Ended) >= Kept && !now.Before(one.Deadline) {
			continue
		}
		next.Records = append(next.Records, one)
	}
	if i := next.index(r.ID); i >= 0 {
		next.Records[i] = r
	} else {
		next.Records = append(next.Records, r)
	}
	for len(next.Records) > Most {
		i := slices.IndexFunc(next.Records, func(r Record) bool { return r.State.Over() })
		if i < 0 {
			break
		}
		next.Records = slices.Delete(next.Records, i, i+1)
	}
	return next
}

// Told are the operations that are reported: those that are not over, and the last that are.
func (b Book) Told(now time.Time) (all []Record) {
	over := 0
	for _, r := range slices.Backward(b.Records) {
		if r.State.Over() {
			if over++; over > MostTold || now.Sub(r.Ended) >= Kept {
				continue
			}
		}
		all = append(all, r)
	}
	slices.Reverse(all)
	return all
}
