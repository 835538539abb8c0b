package placement

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Where a provider had no room, it is not tried again for a while: first this
// long, then twice as long each time, up to the longest.
const (
	firstCoolOff   = 5 * time.Minute
	longestCoolOff = 30 * time.Minute
)

// Offering is one thing a provider may have no room for.
type Offering struct {
	Subnet, Type string
}

// Wish is what a group lets its machines be made of, the best first.
type Wish struct {
	Types, Subnets []string
}

// Book is what a provider has said about room. It is safe for concurrent use.
type Book struct {
	checks bool

	mu      sync.Mutex
	cool    map[Offering]*coolOff
	subnets map[string]*subnet
}

type coolOff struct {
	refusals int
	until    time.Time
}

// New makes an empty book. With checks the provider can be asked how much room a
// subnet has; without, every subnet has room until a create is refused.
func New(checks bool) *Book {
	return &Book{checks: checks, cool: map[Offering]*coolOff{}, subnets: map[string]*subnet{}}
}

// Choice is where the next machine is tried, or why it is not.
type Choice struct {
	// Claim is the offering; nil if there is none now.
	Claim *Claim
	// Ask are subnets of which the provider should be asked how much room they
	// have. Without a claim it takes their answers to choose; with one there is
	// no need to wait.
	Ask []string
	// Why says what has no room; Again is when the first of it may be tried
	// again. Both are zero with a claim, or where subnets have to be asked about.
	Why   string
	Again time.Time
}

// Choose claims the first offering of the wish that has room as far as is known:
// every subnet for the first type, then for the next one. One whose last answer
// is too old to count is passed over; one of which nothing was ever heard is not.
func (b *Book) Choose(w Wish, now time.Time) Choice {
	b.mu.Lock()
	defer b.mu.Unlock()
	var c Choice
	var full []string
	unheardOf := false // an earlier subnet of which nothing was ever heard
	for _, instanceType := range w.Types {
		for _, name := range w.Subnets {
			o := Offering{name, instanceType}
			if refused := b.cool[o]; refused != nil && now.Before(refused.until) {
				full = append(full, fmt.Sprintf("%s in %s was refused and cools off until %s", instanceType, name, refused.until.UTC().Format(time.RFC3339)))
				c.Again = earlier(c.Again, refused.until)
				continue
			}
			room, ask := b.room(name, now)
			if ask && !slices.Contains(c.Ask, name) {
				c.Ask = append(c.Ask, name)
			}
			switch {
			case room == unheard:
				unheardOf = true
			case room == open && !unheardOf:
				return Choice{Claim: b.claim(o), Ask: c.Ask}
			case room == closed:
				s := b.subnets[name]
				full = append(full, fmt.Sprintf("%s %s", name, s.says()))
				c.Again = earlier(c.Again, s.answered.Add(fresh))
			}
		}
	}
	if len(c.Ask) > 0 {
		return Choice{Ask: c.Ask}
	}
	c.Why = strings.Join(slices.Compact(full), "; ")
	return c
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// refuse takes an offering out of the choice for a while. The caller holds mu.
func (b *Book) refuse(o Offering, now time.Time) {
	c := b.cool[o]
	if c == nil {
		c = &coolOff{}
		b.cool[o] = c
	}
	if now.Before(c.until) {
		return // one of a burst
	}
	c.until = now.Add(min(firstCoolOff<<min(c.refusals, 8), longestCoolOff))
	c.refusals++
}

// Claim is a machine that is to be made of an offering, and counted until it is
// known what became of it: one of Accepted, Refused and Dropped. Only the first
// call counts. The zero Claim and a nil one stand for nothing.
type Claim struct {
	Offering Offering

	book  *Book
	ended bool // guarded by the book's lock
}

// claim counts a create that is on its way. The caller holds mu.
func (b *Book) claim(o Offering) *Claim {
	if s := b.subnets[o.Subnet]; s != nil {
		s.underway++
	}
	return &Claim{Offering: o, book: b}
}

// Accepted says that the provider has made the machine, or may have.
func (c *Claim) Accepted() {
	c.end(func() {
		delete(c.book.cool, c.Offering)
		if s := c.book.subnets[c.Offering.Subnet]; s != nil {
			s.made++
		}
	})
}

// Refused says that the provider had no room for it.
func (c *Claim) Refused(now time.Time) {
	c.end(func() { c.book.refuse(c.Offering, now) })
}

// Dropped says that there is certainly no machine, for another reason than room.
func (c *Claim) Dropped() { c.end(func() {}) }

func (c *Claim) end(note func()) {
	if c == nil || c.book == nil {
		return
	}
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	if s := c.book.subnets[c.Offering.Subnet]; s != nil {
		s.underway--
	}
	note()
}
