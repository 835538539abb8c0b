package placement

import (
	"fmt"
	"time"
)

// An answer about a subnet that is younger than fresh is not asked for again; one
// that says that there is room serves until it is stale.
const (
	fresh = 10 * time.Second
	stale = 10 * time.Minute
)

// subnet is what is known of the room in one subnet.
type subnet struct {
	free     int       // machines that fitted when it was asked; negative: any number
	answered time.Time // zero: never
	fault    string    // why nothing can be made there at all; empty: nothing of the kind

	asking   bool
	made     int // machines made since it was last asked
	underway int // creates that were claimed and did not end
}

// room is what is known of a subnet's room.
type room int

const (
	unheard room = iota // never asked about, or not answered yet
	unknown             // what was heard is too old
	open
	closed
)

// room says whether a machine is to be tried in a subnet, and whether the
// provider should be asked. The caller holds mu.
func (b *Book) room(name string, now time.Time) (room, bool) {
	if !b.checks {
		return open, false
	}
	s := b.subnets[name]
	if s == nil {
		s = &subnet{}
		b.subnets[name] = s
	}
	age := now.Sub(s.answered)
	switch {
	case s.answered.IsZero():
		return unheard, true
	case age >= stale:
		return unknown, true
	case s.left() != 0:
		return open, age >= fresh
	case age >= fresh:
		return unknown, true
	}
	return closed, false
}

// left is how many more machines fit as far as is known; negative: any number.
func (s *subnet) left() int {
	if s.free < 0 {
		return -1
	}
	return max(s.free-s.made-s.underway, 0)
}

// says is why a closed subnet is closed.
func (s *subnet) says() string {
	if s.fault != "" {
		return s.fault
	}
	return fmt.Sprintf("is full (%d free, %d on their way)", s.free, s.made+s.underway)
}

// Asking notes that the provider is going to be asked about a subnet. It returns
// false, and the caller need not ask, while another question is under way.
func (b *Book) Asking(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subnets[name]
	if s == nil {
		s = &subnet{}
		b.subnets[name] = s
	}
	if s.asking {
		return false
	}
	// What is made from here on may or may not be in the answer, and counts.
	s.asking, s.made = true, 0
	return true
}

// Answer notes how many machines fit into a subnet; negative: any number. Who
// could not find out says so with a negative one: trying shows.
func (b *Book) Answer(name string, free int, now time.Time) { b.answer(name, free, "", now) }

// Missing notes why no machine can be made in a subnet, such as that it does not
// exist.
func (b *Book) Missing(name, why string, now time.Time) { b.answer(name, 0, why, now) }

func (b *Book) answer(name string, free int, fault string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.subnets[name]; s != nil {
		s.free, s.fault, s.answered, s.asking = free, fault, now, false
	}
}
