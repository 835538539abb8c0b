// Package calls counts the calls of some operations and keeps how long the last of them took, for people who
// ask how a storage or a provider answers.
//
// It is small and exact where metrics are made to be added up over hours: a [Book] has the
// counts since it was opened and the times of the last calls of each operation. What
// counts as a failure its caller says. Operations are few and named by the program.
package calls

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// kept is how many of the last calls of an operation tell how long one takes.
const kept = 512

// Outcome is how a call went.
type Outcome int

// The outcomes.
const (
	Answered  Outcome = iota // also where the answer is that something does not exist
	Failed                   // anything that went wrong but Throttled
	Throttled                // refused because there were too many
)

// String names the outcome as metrics do.
func (o Outcome) String() string {
	switch o {
	case Answered:
		return "answered"
	case Failed:
		return "failed"
	case Throttled:
		return "throttled"
	default:
		return fmt.Sprintf("outcome %d", int(o))
	}
}

// Stat is what is known of one operation.
type Stat struct {
	Operation string

	Calls     int64 // since the book was opened
	Errors    int64 // among them, Throttled included
	Throttled int64

	Mean, P50, P99 time.Duration // of the last calls
}

// Book is an account of calls; the zero value is open and empty. It is safe for concurrent use.
type Book struct {
	mu  sync.Mutex
	ops map[string]*entry
}

// entry is what a book has of one operation.
type entry struct {
	calls, errors, throttled int64
	last                     []time.Duration // a ring once it is full; the next one goes to calls % kept
}

// Note enters one call.
func (b *Book) Note(op string, took time.Duration, how Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.ops[op]
	if e == nil {
		if b.ops == nil {
			b.ops = map[string]*entry{}
		}
		e = &entry{}
		b.ops[op] = e
	}
	if len(e.last) < kept {
		e.last = append(e.last, took)
	} else {
		e.last[e.calls%kept] = took
	}
	e.calls++
	if how != Answered {
		e.errors++
	}
	if how == Throttled {
		e.throttled++
	}
}

// Open empties the book: it tells of what comes from now on.
func (b *Book) Open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ops = nil
}

// Stats returns what is known, by operation.
func (b *Book) Stats() []Stat {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Stat
	for op, e := range b.ops {
		s := Stat{Operation: op, Calls: e.calls, Errors: e.errors, Throttled: e.throttled}
		s.Mean, s.P50, s.P99 = times(slices.Clone(e.last))
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Stat) int { return cmp.Compare(a.Operation, b.Operation) })
	return all
}

// times are the mean of some durations, at least one, and what half and 99 of 100 of them do not exceed. It sorts
// them.
func times(all []time.Duration) (mean, p50, p99 time.Duration) {
	slices.Sort(all)
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(len(all)), rank(all, 0.5), rank(all, 0.99)
}

// rank is the least of the sorted durations that this part of them does not exceed.
func rank(sorted []time.Duration, part float64) time.Duration {
	return sorted[int(math.Ceil(part*float64(len(sorted))))-1]
}
