package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrCannotAsk says that this server has no means yet to ask any other, such as
// the certificate of the authority by which it would know it. It is no sign
// that the leader is gone.
var ErrCannotAsk = errors.New("other servers can't be asked yet")

// Held returns the document under which this server leads at this very moment:
// the answer to a standby that asks. It is false while this server does not
// lead. The document was stored before it is returned.
func (e *Elector) Held() (Document, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.doc == nil || !e.leading() {
		return Document{}, false
	}
	return *e.doc, true
}

// peer is what the goroutine of Run knows about asking the leader.
type peer struct {
	read   time.Duration // when the stored lock was last looked at, by opts.Elapsed
	silent int           // questions in a row that were not answered
	term   uint64        // under which the leader was silent
	again  time.Duration // not before this is a silent leader asked again
}

// patience is how long a question may take, however short the interval is. It
// is far less than a call to the store may take: a leader that crashed right
// after a renewal leaves a version that only storage shows, and the lease counts
// from when it is seen.
const patience = 250 * time.Millisecond

// mayAsk reports whether to ask the leader instead of looking at the stored
// lock, and how long the question may take: it must not delay a take-over.
func (e *Elector) mayAsk() (limit time.Duration, ok bool) {
	if e.opts.Ask == nil || e.first || e.seen.absent() || e.seen.broken != nil {
		return 0, false
	}
	doc, now := e.seen.doc, e.opts.Elapsed()
	switch {
	case doc.Released, doc.LeaderID == e.opts.ID, doc.LeaderAddr == "":
		return 0, false
	case now-e.peer.read >= e.opts.Recheck:
		return 0, false
	case e.peer.silent > 0 && doc.Term == e.peer.term && now < e.peer.again:
		return 0, false
	}
	left := doc.Lease() - (now - e.since)
	return min(left, max(e.opts.Poll/2, patience)), left > 0
}

// ask observes the lock by what the leader says of it. A version that was not
// seen before counts as one that is seen in storage: the leader had stored it
// before it answered. One that was seen before prolongs nothing.
func (e *Elector) ask(ctx context.Context, limit time.Duration) error {
	callCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	doc, err := e.opts.Ask(callCtx, e.seen.doc.LeaderAddr)
	if err == nil {
		err = e.plausible(doc)
	}
	if err != nil {
		e.unanswered(ctx, err)
		return err
	}
	if e.peer.silent > 0 {
		e.peer.silent = 0
		e.opts.Log.InfoContext(ctx, "leader answers", "leader", doc.LeaderID, "address", doc.LeaderAddr)
	}
	if doc.Term > e.seen.doc.Term || doc.LastUpdated.After(e.seen.doc.LastUpdated) {
		e.see(ctx, observation{doc: doc, heard: true})
		return nil
	}
	e.setProblem(nil)
	return nil
}

// plausible refuses an answer that can't be about the lock as it was seen, or
// as it became since. What is true then, storage says.
func (e *Elector) plausible(doc Document) error {
	seen := e.seen.doc
	switch {
	case doc.Released || doc.LeaderID == e.opts.ID,
		doc.Term < seen.Term,
		doc.Term == seen.Term && doc.LeaderID != seen.LeaderID:
		return fmt.Errorf("answer of leader %q, term %d, does not follow leader %q, term %d",
			doc.LeaderID, doc.Term, seen.LeaderID, seen.Term)
	default:
		return doc.validate()
	}
}

// unanswered leaves a leader alone that did not answer: for one interval, then
// for longer and longer. One that only can't be asked yet is asked again at once.
func (e *Elector) unanswered(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, ErrCannotAsk) {
		return
	}
	if e.peer.silent == 0 || e.peer.term != e.seen.doc.Term {
		e.peer.silent, e.peer.term = 0, e.seen.doc.Term
		e.opts.Log.InfoContext(ctx, "leader does not answer, the lock is read from storage",
			"leader", e.seen.doc.LeaderID, "address", e.seen.doc.LeaderAddr, "error", err)
	}
	pause := min(e.opts.Poll<<min(e.peer.silent, 10), e.opts.Recheck)
	e.peer.silent++
	e.peer.again = e.opts.Elapsed() + pause
}
