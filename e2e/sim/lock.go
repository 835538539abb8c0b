package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
)

// lockModel is a lease as a sequential machine: who holds it, in which term, and since
// when the document stands. The store has put the writes of the lock in an order; this
// says whether that order is one of a lease. The zero model has seen nothing.
//
// Where somebody has deleted the lock, nobody can know of a term that stood in it
// alone. Then the order goes on above the terms of all other documents (F11), and
// begins with a claim: a lock in whose term nobody acts, until the leader that was
// there has to have stopped.
type lockModel struct {
	seen    bool
	lost    time.Time // when somebody has deleted the document; zero: it stands
	empty   bool      // the shard has nothing that a leader could have acted on
	doc     lease.Document
	at      time.Time // when the store accepted it
	written uint64    // the highest term in any other document
	claims  time.Time // when the lock was lost that it claims; zero: it is no claim
}

// acting is the highest term in which somebody may write.
func (m lockModel) acting() uint64 {
	if !m.claims.IsZero() {
		return m.written
	}
	return max(m.written, m.doc.Term)
}

// follow returns the model after a document that was accepted at a moment, and what is
// wrong about it; empty: nothing.
func (m lockModel) follow(doc lease.Document, at time.Time) (next lockModel, wrong string) {
	next = lockModel{seen: true, empty: m.empty, doc: doc, at: at, written: m.written}
	switch {
	case m.seen && !m.lost.IsZero() && !m.empty:
		next.claims = m.lost
	case doc.Term == m.doc.Term:
		next.claims = m.claims
	}
	before := m.doc
	switch {
	case !m.seen:
	case !m.lost.IsZero() && doc.Term <= m.written:
		wrong = fmt.Sprintf("after its loss in term %d the lock begins with term %d, and term %d has written", before.Term, doc.Term, m.written)
	case !m.lost.IsZero():
	case doc.Term < before.Term:
		wrong = fmt.Sprintf("term %d follows term %d", doc.Term, before.Term)
	case doc.Term == before.Term && doc.LeaderID != before.LeaderID:
		wrong = fmt.Sprintf("%s and %s hold the lock in term %d", before.LeaderID, doc.LeaderID, doc.Term)
	case doc.Term == before.Term && before.Released && !doc.Released:
		wrong = fmt.Sprintf("%s goes on in term %d, which it has given up", doc.LeaderID, doc.Term)
	case doc.Term > before.Term && !m.claims.IsZero() && at.Sub(m.claims) < before.Lease()-leaseMargin:
		wrong = fmt.Sprintf("%s acts %v after the lock was lost", doc.LeaderID, at.Sub(m.claims))
	case doc.Term == before.Term, before.Released, doc.LeaderID == before.LeaderID:
	case at.Sub(m.at) < before.Lease():
		wrong = fmt.Sprintf("%s takes the lock %v after %s has renewed it", doc.LeaderID, at.Sub(m.at), before.LeaderID)
	}
	return next, wrong
}

// lock takes note of a write of the lock (S1).
func (t *truth) lock(write memory.Write) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if write.Deleted {
		t.held.lost = time.Now()
		return
	}
	var doc lease.Document
	if err := json.Unmarshal(write.Data, &doc); err != nil {
		t.w.violate("S1", "the lock: %v", err)
		return
	}
	var wrong string
	t.held.empty = !t.snapshots && !t.stands()
	if t.held, wrong = t.held.follow(doc, time.Now()); wrong != "" && !t.way[write.Key].late() {
		t.w.violate("S1", "no lease: %s", wrong)
	}
}
