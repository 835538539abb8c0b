package instances

import (
	"context"
	"sync"
	"time"

	"nstance.dev/protos/identity"
)

// ledger remembers what this process asked for, where the cloud does not say yet
// or any more: which machines were made, so that one is found before the API shows
// it, and which were to end, so that a late create does not bring them up.
//
// It also lets creates and deletes of one instance id take turns. Its size follows
// the rate of creates and deletes in one retention.
type ledger struct {
	now func() time.Time

	mu     sync.Mutex
	notes  map[identity.ID]*note
	pruned time.Time
}

// note is what is remembered of one instance id.
type note struct {
	turn chan struct{} // holds a token while nobody works on the machine

	// Guarded by the ledger's mutex.
	users      int
	providerID string    // "": not known
	made       time.Time // when it was
	ended      bool      // its end was asked for
	at         time.Time // of the last use
}

// retention is how long the ledger keeps a note: about as long as EC2 itself
// remembers a terminated machine and its token.
const retention = time.Hour

func newLedger(now func() time.Time) *ledger {
	return &ledger{now: now, notes: map[identity.ID]*note{}}
}

// take waits for the turn of an instance id. The caller calls done when it has
// finished.
func (l *ledger) take(ctx context.Context, id identity.ID) (done func(), err error) {
	n := l.use(id)
	select {
	case <-n.turn:
		return func() {
			n.turn <- struct{}{}
			l.leave(n)
		}, nil
	case <-ctx.Done():
		l.leave(n)
		return nil, ctx.Err()
	}
}

func (l *ledger) use(id identity.ID) *note {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.notes[id]
	if n == nil {
		n = &note{turn: make(chan struct{}, 1)}
		n.turn <- struct{}{}
		l.notes[id] = n
	}
	n.users++
	n.at = l.now()
	l.prune()
	return n
}

func (l *ledger) leave(n *note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.users--
}

// prune forgets what is too old, at most once a minute.
func (l *ledger) prune() {
	now := l.now()
	if now.Sub(l.pruned) < time.Minute {
		return
	}
	l.pruned = now
	for id, n := range l.notes {
		if n.users == 0 && now.Sub(n.at) > retention {
			delete(l.notes, id)
		}
	}
}

// made notes the machine that an instance id has.
func (l *ledger) made(id identity.ID, providerID string) {
	l.edit(id, func(n *note) {
		if n.providerID != providerID {
			n.providerID, n.made = providerID, l.now()
		}
	})
}

// end notes that an instance id must have no machine from now on.
func (l *ledger) end(id identity.ID) {
	l.edit(id, func(n *note) { n.ended = true })
}

// edit changes a note, which is there while its turn is taken.
func (l *ledger) edit(id identity.ID, change func(*note)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.notes[id]; n != nil {
		change(n)
	}
}

// look returns the machine of an instance id, if it was made here, and whether its
// end was asked for.
func (l *ledger) look(id identity.ID) (providerID string, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.notes[id]
	if n == nil {
		return "", false
	}
	return n.providerID, n.ended
}

// fresh reports whether a machine was made here so lately that the cloud may not
// show it yet.
func (l *ledger) fresh(id identity.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.notes[id]
	return n != nil && !n.made.IsZero() && l.now().Sub(n.made) < Lag
}
