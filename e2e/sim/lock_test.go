package sim

import (
	"testing"
	"time"

	"nstance.dev/server/lease"
)

// The model of the lock takes what a lease may do, and nothing else.
func TestS1_ModelOfTheLock(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	doc := func(id string, term uint64, released bool) lease.Document {
		return lease.Document{LeaderID: id, Term: term, LeaseSeconds: 15, Released: released}
	}
	stands := lockModel{seen: true, doc: doc("a", 3, false), at: start}
	released := lockModel{seen: true, doc: doc("a", 3, true), at: start}
	lost := stands
	lost.lost, lost.written = start, 3
	unwritten := lost
	unwritten.written = 2
	claimed := stands
	claimed.claims = start
	for _, c := range []struct {
		name   string
		before lockModel
		doc    lease.Document
		after  time.Duration
		fine   bool
	}{
		{"the first one", lockModel{}, doc("a", 1, false), 0, true},
		{"a renewal", stands, doc("a", 3, false), time.Second, true},
		{"it is given up", stands, doc("a", 3, true), time.Second, true},
		{"the holder takes it again", stands, doc("a", 4, false), time.Second, true},
		{"another one, after a lease", stands, doc("b", 4, false), 15 * time.Second, true},
		{"another one, too soon", stands, doc("b", 4, false), 14 * time.Second, false},
		{"another one in the same term", stands, doc("b", 3, false), time.Minute, false},
		{"an older term", stands, doc("b", 2, false), time.Minute, false},
		{"another one, when it was given up", released, doc("b", 4, false), time.Millisecond, true},
		{"a renewal after it was given up", released, doc("a", 3, false), time.Second, false},
		{"a higher term after its loss", lost, doc("b", 4, false), time.Second, true},
		{"the same term after its loss", lost, doc("a", 3, false), time.Second, false},
		{"the same term after its loss, in which nobody wrote", unwritten, doc("b", 3, false), time.Second, true},
		{"a term after its loss that has written", unwritten, doc("b", 2, false), time.Second, false},
		{"a claim that becomes a lock", claimed, doc("a", 4, false), 12 * time.Second, true},
		{"a claim that becomes one too soon", claimed, doc("a", 4, false), 11 * time.Second, false},
	} {
		next, wrong := c.before.follow(c.doc, start.Add(c.after))
		if want := !c.before.lost.IsZero() || !c.before.claims.IsZero() && c.doc.Term == 3; next.claims.IsZero() == want {
			t.Errorf("%s: claims what was lost at %v, want a claim: %t", c.name, next.claims, want)
		}
		if (wrong == "") != c.fine || next.doc != c.doc || !next.lost.IsZero() || next.written != c.before.written {
			t.Errorf("%s: %q, then %+v", c.name, wrong, next)
		}
	}
}
