package lease

import (
	"bytes"
	"time"
)

// observation is what a standby saw of the lock, in storage or by the leader's
// own word.
type observation struct {
	etag   string // "" where the lock is absent, or heard of
	data   []byte // nil where it was heard of
	heard  bool   // the leader said so: to take the lock, look at it in storage first
	doc    Document
	broken error // why doc is quarantined; nil where it could be read
}

func (o observation) absent() bool { return o.etag == "" && !o.heard }

// same reports whether o, seen in storage, is the version that was seen before.
func (o observation) same(before observation) bool {
	if before.heard {
		return !o.absent() && o.broken == nil && o.doc.SameVersion(before.doc)
	}
	return o.etag == before.etag && bytes.Equal(o.data, before.data)
}

// standing is what a standby knows about the lock it sees, beside its content.
type standing struct {
	out       bool          // this server stays out of elections
	fresh     bool          // nothing was ever stored below the lock
	unchanged time.Duration // since it first saw this version
	ours      bool          // this process wrote the version as leader, and leads no more
	reclaimed bool          // its former process wrote the version and is gone
}

// move is what a standby may do about the lock.
type move uint8

const (
	moveWait  move = iota // leave it alone, and look again
	moveTake              // write it, and lead
	moveClaim             // write it, and lead a lease later: a leader may still act
)

// decide says what a standby does about the lock that it sees, and why. An absent lock
// may always be created; but a leader whose lock was deleted by hand acts until it
// notices. So unless there can't be one, the lock is only a claim, which refuses that
// leader's next renewal, and a lease passes before it counts. To watch the absence for
// a lease instead would not do: it has no versions, so a lock created and deleted
// between two looks would go unseen.
func decide(o observation, s standing) (m move, why string) {
	switch {
	case s.out:
		return moveWait, "this server stays out of elections"
	case o.heard:
		return moveWait, "the leader answers"
	case o.absent() && s.fresh:
		return moveTake, "first start"
	case o.absent():
		return moveClaim, "absent"
	case o.broken != nil:
		return moveWait, "quarantined"
	case o.doc.Released:
		return moveTake, "released"
	case s.ours:
		return moveTake, "written by this process"
	case s.reclaimed:
		return moveTake, "held by this server before it restarted"
	case s.unchanged >= o.doc.Lease():
		return moveTake, "unchanged for its lease"
	default:
		return moveWait, "held by another server"
	}
}
