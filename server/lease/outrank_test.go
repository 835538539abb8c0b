package lease_test

import (
	"testing"
	"time"

	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
)

// putBack replaces the lock by an old copy of it, as somebody with access to the
// bucket would.
func (c *cluster) putBack(doc lease.Document) {
	c.t.Helper()
	_, etag := storedLock(c.t, c)
	if err := c.store.DeleteIfMatch(c.t.Context(), lockKey, etag); err != nil {
		c.t.Fatal(err)
	}
	data, err := doc.Encode()
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := objectstore.Put(c.t.Context(), c.store, lockKey, data, "", objectstore.RetryPolicy{}); err != nil {
		c.t.Fatal(err)
	}
}

// TestF11_AnOldLockIsPutBack: whoever leads then does so under a term above every
// one that was, though the lock that it takes says otherwise.
func TestF11_AnOldLockIsPutBack(t *testing.T) {
	for name, mine := range map[string]bool{"of another server": false, "of the leader itself": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *cluster) {
				a := c.add("a", nil)
				c.until(a, time.Second)
				old, _ := storedLock(t, c)
				b := c.add("b", nil)
				if mine {
					c.run(time.Hour) // long enough for the leader to forget what it wrote
				} else {
					stopAll(t, a)
					c.until(b, leaseL)
					a = c.add("a2", nil)
					c.run(time.Minute)
				}
				before := c.terms[len(c.terms)-1]
				c.putBack(old)
				c.run(leaseL / 2)
				if got := leaders(a, b); len(got) != 0 {
					t.Errorf("%q leads under a lock that was replaced", got)
				}
				c.run(2 * leaseL)
				if got, now := leaders(a, b), c.terms[len(c.terms)-1]; len(got) != 1 || now <= before {
					t.Errorf("leaders %q, terms %v; want one, above %d", got, c.terms, before)
				}
				stopAll(t, a, b)
			})
		})
	}
}

// TestS1_OutrankedLeaderStepsBack: a leader finds a document of a later term. It
// gives the lock up at once, and leads again only above that term.
func TestS1_OutrankedLeaderStepsBack(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.add("a", nil)
		c.until(a, time.Second)
		a.Outranked(41)
		if lease.Check(c.tenures[0]) == nil {
			t.Error("it goes on under a term that was outranked")
		}
		c.until(a, 2*time.Second)
		if got := c.terms[len(c.terms)-1]; got != 42 {
			t.Errorf("it leads again under term %d, want 42", got)
		}
		b := c.add("b", nil)
		c.run(time.Second)
		a.Outranked(41) // of long ago
		b.Outranked(60) // a standby may have heard of more
		c.run(time.Minute)
		if got := leaders(a, b); len(got) != 1 || got[0] != "a" || len(c.terms) != 2 {
			t.Errorf("leaders %q, terms %v: old news or a standby's word unseated the leader", got, c.terms)
		}
		stopAll(t, a)
		c.until(b, leaseL)
		if got := c.terms[len(c.terms)-1]; got != 61 {
			t.Errorf("the next leader's term is %d, want 61", got)
		}
		stopAll(t, b)
	})
}

// TestOnFollow: a server is told who else leads, of each version once, and never
// that it leads itself.
func TestOnFollow(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		var followed []string
		note := func(o *lease.Options) {
			id := o.ID
			o.OnFollow = func(doc lease.Document) { followed = append(followed, id+" follows "+doc.LeaderID) }
		}
		a := c.add("a", note)
		c.run(time.Second)
		b := c.add("b", note)
		c.run(leaseL / 6) // before the next renewal
		if len(followed) != 1 || followed[0] != "b follows a" {
			t.Errorf("%q", followed)
		}
		stopAll(t, a, b)
	})
}

// TestALeaderDoesNotMissItsStandby: whatever becomes of those that wait.
func TestALeaderDoesNotMissItsStandby(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.add("a", nil)
		c.until(a, time.Second)
		killed, stopped := c.add("b", nil), c.add("c", nil)
		c.run(leaseL)
		killed.crash()
		stopAll(t, stopped)
		c.run(time.Hour)
		if len(c.tenures) != 1 || lease.Check(c.tenures[0]) != nil {
			t.Errorf("terms %v; want the one leadership, unbroken", c.terms)
		}
		stopAll(t, a)
	})
}
