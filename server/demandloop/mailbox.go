package demandloop

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	agentbinding "nstance.dev/protos/binding"
	"nstance.dev/protos/identity"
	"nstance.dev/server/demand"
)

// mailboxRoom bounds what operators have said and the loop has not taken in.
const mailboxRoom = 256

// errTermOver says that the term is over, and the loop with it.
var errTermOver = errors.New("the leader's term is over")

// mailbox is what the loop is to look at. Letters wait in a queue that is bounded; notes are sets, of
// one entry for each machine at the most.
type mailbox struct {
	letters chan letter
	done    chan struct{} // closed when letters are no longer taken
	wake    chan struct{} // has room for one

	mu    sync.Mutex
	notes notes
}

// letter is something that a session says, a [connect], a [disconnect] or a [posted], or what is asked for people: an [inspect] or a [counted].
type letter interface{ letter() }

type (
	connect struct {
		cluster string
		hello   Hello
		session Session
		reply   chan Snapshot // has room for one
	}
	disconnect struct {
		cluster string
		session Session
	}
	posted struct {
		cluster string
		session Session
		message Inbound
	}
)

func (connect) letter()    {}
func (disconnect) letter() {}
func (posted) letter()     {}

// notes are what was noted since they were last taken.
type notes struct {
	machines map[identity.ID]bool
	supply   bool
	refused  map[identity.ID]demand.Failure
	greeted  map[identity.ID]bool // able to join
	reported map[identity.ID]agentbinding.Report
}

func newMailbox() *mailbox {
	return &mailbox{letters: make(chan letter, mailboxRoom), done: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// send puts a letter in, and waits for room until ctx or the loop ends.
func (b *mailbox) send(ctx context.Context, l letter) error {
	select {
	case <-b.done:
		return errTermOver
	default:
	}
	select {
	case b.letters <- l:
		return nil
	case <-b.done:
		return errTermOver
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note adds to the notes, and wakes the loop up.
func (b *mailbox) note(add func(*notes)) {
	b.mu.Lock()
	add(&b.notes)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take takes the notes.
func (b *mailbox) take() notes {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.notes
	b.notes = notes{}
	return n
}

// sorted are the keys of a set of machines in order: a loop that is told the same does the same.
func sorted[V any](set map[identity.ID]V) []identity.ID { return slices.Sorted(maps.Keys(set)) }

func put[V any](set *map[identity.ID]V, id identity.ID, v V) {
	if *set == nil {
		*set = map[identity.ID]V{}
	}
	(*set)[id] = v
}
