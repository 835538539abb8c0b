package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// opKind is a call of the group API.
type opKind string

const (
	opUpsert opKind = "upsert"
	opDelete opKind = "delete"
	opRead   opKind = "read"
)

// reading is a group as a read shows it, and as the model keeps it.
type reading struct {
	there bool
	size  int
}

// same reports whether both say the same: a group that is not there has no size.
func (r reading) same(o reading) bool { return r == o || !r.there && !o.there }

// operation is one call with what came of it.
type operation struct {
	kind  opKind
	size  int // of an upsert
	seen  reading
	start time.Time
	end   time.Time // zero: no answer, so it may take effect at any time from start on, or never
}

func (op *operation) answered() bool { return !op.end.IsZero() }

// history is every call of the group API, group by group.
type history struct {
	mu      sync.Mutex
	ops     map[groupID][]*operation
	blurred map[groupID]bool // changed by calls that the model does not know
}

func newHistory() *history {
	return &history{ops: map[groupID][]*operation{}, blurred: map[groupID]bool{}}
}

// begin notes the start of a call, and returns what notes its end.
func (h *history) begin(g groupID, kind opKind, size int) func(reading, error) {
	op := &operation{kind: kind, size: size, start: time.Now()}
	h.mu.Lock()
	h.ops[g] = append(h.ops[g], op)
	h.mu.Unlock()
	return func(seen reading, err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch {
		case errors.Is(err, errUnknown):
		case err != nil: // a definite refusal: it was not carried out
			h.ops[g] = slices.DeleteFunc(h.ops[g], func(o *operation) bool { return o == op })
		default:
			op.seen, op.end = seen, time.Now()
		}
	}
}

// read notes a read of all groups of a tenant.
func (h *history) read(tenant string) func(map[groupID]reading, error) {
	start := time.Now()
	return func(seen map[groupID]reading, err error) {
		if err != nil {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for g := range h.ops {
			if g.tenant == tenant {
				h.ops[g] = append(h.ops[g], &operation{kind: opRead, seen: seen[g], start: start, end: time.Now()})
			}
		}
	}
}

// blur takes a group out of the check.
func (h *history) blur(g groupID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blurred[g] = true
}

// check returns what is wrong with the history of some group, empty if nothing is.
func (h *history) check() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for g, ops := range h.ops {
		if !h.blurred[g] && !linearizable(ops) {
			return fmt.Sprintf("no order of the calls explains what was read of %s: %s", g, describe(ops))
		}
	}
	return ""
}

func describe(ops []*operation) string {
	first := ops[0].start
	text := ""
	for _, op := range ops {
		end := "no answer"
		if op.answered() {
			end = op.end.Sub(first).String()
		}
		text += fmt.Sprintf("\n  %v to %s: %s", op.start.Sub(first), end, op.kind)
		switch op.kind {
		case opUpsert:
			text += fmt.Sprintf(" %d", op.size)
		case opRead:
			text += fmt.Sprintf(" %+v", op.seen)
		}
	}
	return text
}

// apply is the model: a group is there with a size, or is not.
func (op *operation) apply(s reading) (reading, bool) {
	switch op.kind {
	case opUpsert:
		return reading{there: true, size: op.size}, true
	case opDelete:
		return reading{}, true
	default:
		return s, s.same(op.seen)
	}
}

// linearizable reports whether the calls can be put in an order that explains
// every answer: each call takes its effect at one moment between its start and its
// end. It is the search of Wing and Gong with the memory of Lowe.
//
// A call without an answer may have had its effect at any later moment, or never. To
// try each of them at every step takes for ever where many were not answered. But a
// write says all that there is to a group, so nobody sees one that another write
// follows: such a call matters only right before a read that nothing else explains,
// and of those with the same effect the one that began first does for all.
func linearizable(ops []*operation) bool {
	ops = slices.Clone(ops)
	slices.SortStableFunc(ops, func(a, b *operation) int { return a.start.Compare(b.start) })
	s := search{ops: ops, done: make([]byte, (len(ops)+7)/8), seen: map[string]bool{}}
	for _, op := range ops {
		if op.answered() {
			s.left++
		}
	}
	return s.from(reading{})
}

type search struct {
	ops  []*operation // in the order of their starts
	done []byte       // bits of the operations that have taken effect
	left int          // that were answered and have not
	seen map[string]bool
}

func (s *search) has(i int) bool { return s.done[i/8]&(1<<(i%8)) != 0 }

func (s *search) flip(i int) { s.done[i/8] ^= 1 << (i % 8) }

// from tries every operation that may be the next.
func (s *search) from(state reading) bool {
	if s.left == 0 {
		return true
	}
	key := fmt.Sprintf("%x %v", s.done, state)
	if s.seen[key] {
		return false
	}
	s.seen[key] = true
	first := s.firstEnd()
	for i, op := range s.ops {
		if op.start.After(first) {
			break
		}
		if op.answered() && !s.has(i) && s.take(i, state, first) {
			return true
		}
	}
	return false
}

// take makes an answered operation the next one, after a write without an answer if
// it takes that to explain it, and goes on from there.
func (s *search) take(i int, state reading, first time.Time) bool {
	next, explained := s.ops[i].apply(state)
	if !explained {
		write, found := s.unheard(s.ops[i].seen, first)
		if !found {
			return false
		}
		s.flip(write)
		defer s.flip(write)
		next, _ = s.ops[write].apply(state)
	}
	s.flip(i)
	s.left--
	ok := s.from(next)
	s.flip(i)
	s.left++
	return ok
}

// unheard finds the first write without an answer after which a group is as it was
// read, among those that have begun by a moment.
func (s *search) unheard(read reading, by time.Time) (i int, found bool) {
	for i, op := range s.ops {
		if op.start.After(by) {
			break
		}
		if after, _ := op.apply(reading{}); !op.answered() && !s.has(i) && after.same(read) {
			return i, true
		}
	}
	return 0, false
}

// firstEnd is when the first of the operations left was answered: what began later
// cannot come before it.
func (s *search) firstEnd() time.Time {
	var ends []time.Time
	for i, op := range s.ops {
		if !s.has(i) && op.answered() {
			ends = append(ends, op.end)
		}
	}
	return slices.MinFunc(ends, func(a, b time.Time) int { return cmp.Compare(a.UnixNano(), b.UnixNano()) })
}
