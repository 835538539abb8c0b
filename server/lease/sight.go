package lease

import (
	"errors"
	"fmt"
	"time"
)

// sight is what a standby has seen of the lock, and since when: what it decides by. It
// does nothing by itself, and times are by the clock that leases age by.
type sight struct {
	id      string        // of this server
	poll    time.Duration // between two looks
	recheck time.Duration // see Options.Recheck

	any   bool          // a version was seen
	seen  observation   // the last one
	since time.Duration // when it was first seen
	peer  peer
}

// peer is what is known about asking the leader.
type peer struct {
	read   time.Duration // when the stored lock was last looked at
	silent int           // questions in a row that were not answered
	term   uint64        // under which the leader was silent
	again  time.Duration // not before this is a silent leader asked again
}

// patience is how long a question may take, however short the interval is. It
// is far less than a call to the store may take: a leader that crashed right
// after a renewal leaves a version that only storage shows, and the lease counts
// from when it is seen.
const patience = 125 * time.Millisecond

// note takes note of a version that was not seen before.
func (s *sight) note(o observation, now time.Duration) { s.any, s.seen, s.since = true, o, now }

// untilNextLook is the interval, or less where the seen lock is stale before.
func (s *sight) untilNextLook(now time.Duration) time.Duration {
	left := s.seen.doc.Lease() - (now - s.since)
	if left <= 0 {
		return s.poll
	}
	return min(left, s.poll)
}

// mayAsk reports whether to ask the leader instead of looking at the stored
// lock, and how long the question may take: it must not delay a take-over.
func (s *sight) mayAsk(now time.Duration) (limit time.Duration, ok bool) {
	if !s.any || s.seen.absent() || s.seen.broken != nil {
		return 0, false
	}
	doc := s.seen.doc
	switch {
	case doc.Released, doc.LeaderID == s.id, doc.LeaderAddr == "":
		return 0, false
	case now-s.peer.read >= s.recheck:
		return 0, false
	case s.peer.silent > 0 && doc.Term == s.peer.term && now < s.peer.again:
		return 0, false
	}
	left := doc.Lease() - (now - s.since)
	return min(left, max(s.poll/2, patience)), left > 0
}

// plausible refuses an answer that can't be about the lock as it was seen, or
// as it became since. What is true then, storage says.
func (s *sight) plausible(doc Document) error {
	seen := s.seen.doc
	switch {
	case doc.Released || doc.LeaderID == s.id,
		doc.Term < seen.Term,
		doc.Term == seen.Term && doc.LeaderID != seen.LeaderID:
		return fmt.Errorf("answer of leader %q, term %d, does not follow leader %q, term %d",
			doc.LeaderID, doc.Term, seen.LeaderID, seen.Term)
	default:
		return doc.validate()
	}
}

// answered notes that the leader was heard, and reports whether it was silent before.
func (s *sight) answered() (wasSilent bool) {
	wasSilent = s.peer.silent > 0
	s.peer.silent = 0
	return wasSilent
}

// unanswered leaves a leader alone that did not answer: for one interval, then
// with exponential back-off. One that only can't be asked yet is asked again at once. It
// reports whether this is the first time.
func (s *sight) unanswered(err error, now time.Duration) (first bool) {
	if errors.Is(err, ErrCannotAsk) {
		return false
	}
	if s.peer.silent == 0 || s.peer.term != s.seen.doc.Term {
		s.peer.silent, s.peer.term = 0, s.seen.doc.Term
		first = true
	}
	pause := min(s.poll<<min(s.peer.silent, 10), s.recheck)
	s.peer.silent++
	s.peer.again = now + pause
	return first
}
