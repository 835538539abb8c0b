package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

func TestF8_BothStartAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := c.add("a", nil), c.add("b", nil)
		c.run(time.Second)
		if got := leaders(a, b); len(got) != 1 {
			t.Fatalf("leaders %q, want one", got)
		}
		c.run(3 * leaseL)
		if len(c.terms) != 1 || c.terms[0] != 1 {
			t.Errorf("terms %v, want [1]", c.terms)
		}
		want := "a"
		if b.IsLeader() {
			want = "b"
		}
		for _, n := range []*node{a, b} {
			doc, ok := n.Observed()
			if s := n.Status(); !ok || n.LeaderID() != want || doc.LeaderAddr != want+":8991" || s.Term != 1 || s.Leading != (n.id == want) {
				t.Errorf("%s sees %+v, %+v", n.id, doc, s)
			}
		}
		stopAll(t, a, b)
	})
}

func TestL2_TakeoverAfterCrash(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.add("a", nil)
		c.until(a, time.Second)
		b := c.add("b", nil)
		c.run(leaseL + 100*time.Millisecond)
		a.crash()
		if took := c.until(b, 2*leaseL); took > leaseL*12/10 {
			t.Errorf("the takeover took %v, more than 1.2 leases", took)
		}
		stopAll(t, b)
	})
}

func TestL2_GracefulHandover(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		var order []string
		a := c.add("a", func(o *lease.Options) {
			o.OnLose = func() {
				doc, _ := storedLock(t, c)
				order = append(order, "lose", map[bool]string{true: "after release", false: "before release"}[doc.Released])
			}
		})
		c.until(a, time.Second)
		b := c.add("b", nil)
		c.run(7 * time.Second)
		stopAll(t, a)
		if took := c.until(b, leaseL); took > time.Second {
			t.Errorf("the handover took %v", took)
		}
		if len(order) != 2 || order[1] != "before release" {
			t.Errorf("OnLose: %q", order)
		}
		if len(c.terms) != 2 || c.terms[1] != 2 {
			t.Errorf("terms %v", c.terms)
		}
		stopAll(t, b)
	})
}

func TestReleaseWaitsForTheWork(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.add("a", func(o *lease.Options) {
			o.OnAcquire = func(ctx context.Context, _ uint64) {
				<-ctx.Done()
				time.Sleep(10 * time.Second) // far more than it may take
			}
		})
		c.until(a, time.Second)
		begin := time.Now()
		stopAll(t, a)
		if doc, _ := storedLock(t, c); doc.Released || time.Since(begin) != 10*time.Second {
			t.Errorf("after %v released is %t: the work had not stopped in time", time.Since(begin), doc.Released)
		}
	})
}

func TestF1_StoreDownForTenLeases(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.add("a", nil)
		c.until(a, time.Second)
		b := c.add("b", nil)
		c.run(leaseL)
		c.store.Down(true)
		c.run(leaseL - time.Second)
		if got := leaders(a, b); len(got) != 0 {
			t.Errorf("%q leads without a lease", got)
		}
		if err := b.Status().Problem; !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("the standby's problem: %v", err)
		}
		c.run(9 * leaseL)
		c.store.Down(false)
		c.run(leaseL + 2*time.Second)
		if got := leaders(a, b); len(got) != 1 {
			t.Errorf("leaders %q after the store came back", got)
		}
		stopAll(t, a, b)
	})
}

// A store that is emptied for a while, such as a file system that is not mounted,
// has in the end the version again that this server wrote before many others were
// tried in vain. That is no other server with its id.
func TestF1_OwnVersionComesBackAfterLong(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.add("a", nil)
		c.until(a, time.Second)
		a.net.answer(objectstore.ErrNotFound)
		c.run(20 * leaseL)
		if got := leaders(a); len(got) != 0 {
			t.Errorf("%q leads without a lease", got)
		}
		a.net.answer(nil)
		c.run(2 * time.Second)
		if got := leaders(a); len(got) != 1 {
			t.Errorf("leaders %q after the store came back", got)
		}
		stopAll(t, a)
	})
}

func TestRenewalFaultsDoNotCostLeadership(t *testing.T) {
	once := func(f memory.Fault) func(n int) memory.Fault {
		return func(n int) memory.Fault {
			if n == 1 {
				return f
			}
			return memory.Fault{}
		}
	}
	tests := []struct {
		name  string
		fault func(n int) memory.Fault // of the nth write
	}{
		{"F3 the answer is lost", once(memory.Fault{After: objectstore.ErrUnavailable})},
		{"F3 the answer comes too late", once(memory.Fault{Linger: time.Minute})},
		{"F3 the write lands late", once(memory.Fault{Late: 500 * time.Millisecond})},
		{"F3 the write lands in a later round", once(memory.Fault{Late: 50 * time.Millisecond, Latency: time.Second})},
		{"F3 answers are lost for a whole round", func(n int) memory.Fault {
			if n <= 3 {
				return memory.Fault{After: objectstore.ErrUnavailable}
			}
			return memory.Fault{}
		}},
		{"F5 conflict", once(memory.Fault{Before: objectstore.ErrConflict})},
		{"F5 slow down", once(memory.Fault{Before: objectstore.ErrThrottled})},
		{"F5 conflicts for five tries", func(n int) memory.Fault {
			if n <= 5 {
				return memory.Fault{Before: objectstore.ErrConflict}
			}
			return memory.Fault{}
		}},
		{"a refusal though the condition holds", once(memory.Fault{Before: objectstore.ErrPrecondition})},
		{"each answer is lost", func(int) memory.Fault { return memory.Fault{After: objectstore.ErrUnavailable} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *cluster) {
				a := c.add("a", nil)
				c.until(a, time.Second)
				b := c.add("b", nil)
				c.run(time.Second)
				writes := 0
				c.store.SetFaults(func(call memory.Call) memory.Fault {
					if call.Op != memory.OpPut {
						return memory.Fault{}
					}
					writes++
					return tt.fault(writes)
				})
				c.run(3 * leaseL)
				c.store.SetFaults(nil)
				if !a.IsLeader() || len(c.terms) != 1 {
					t.Errorf("a leads: %t, terms %v", a.IsLeader(), c.terms)
				}
				stopAll(t, a, b)
			})
		})
	}
}

func TestF7_WallClocksDecideNothing(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := c.add("a", nil), c.add("b", nil)
		a.shift(0, time.Hour)
		b.shift(0, -time.Hour)
		c.run(2 * leaseL)
		for _, jump := range []time.Duration{-3 * time.Hour, 5 * time.Hour, -time.Minute} {
			a.shift(0, jump)
			b.shift(0, -jump)
			c.run(2 * leaseL)
		}
		if len(leaders(a, b)) != 1 || len(c.terms) != 1 {
			t.Errorf("leaders %q, terms %v: want one throughout", leaders(a, b), c.terms)
		}
		stopAll(t, a, b)
	})
}

func TestF6_PausedLeaderDoesNotAct(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.add("a", nil)
		c.until(a, time.Second)
		leading := c.tenures[0]
		call, cancel := context.WithTimeout(context.WithoutCancel(leading), time.Hour)
		defer cancel()
		if err := lease.Check(call); err != nil {
			t.Fatalf("a derived context: %v", err)
		}
		a.shift(leaseL, 0) // stopped for a lease: no timer has fired yet
		if err := lease.Check(call); !errors.Is(err, lease.ErrNotLeader) {
			t.Errorf("S2: after the pause a check says %v", err)
		}
		if leading.Err() == nil || !errors.Is(context.Cause(leading), lease.ErrNotLeader) || a.IsLeader() {
			t.Errorf("S2: after the pause the context says %v, cause %v", leading.Err(), context.Cause(leading))
		}
		// Nobody else took the lock: the server takes its own back, with a new term.
		c.until(a, time.Second)
		if len(c.terms) != 2 || lease.Check(call) == nil {
			t.Errorf("terms %v; the old context must stay ended", c.terms)
		}
		stopAll(t, a)
	})
}

func TestS2_LeaseCountsFromTheStartOfTheRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.add("a", nil)
		c.until(a, time.Second)
		c.run(5*time.Second - 50*time.Millisecond)
		c.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Linger: 2 * time.Second} })
		c.run(3 * time.Second) // renewed at 5s, answered at 7s
		c.store.Down(true)
		c.run(9*time.Second - 100*time.Millisecond)
		if !a.IsLeader() {
			t.Error("the leader resigned before its margin")
		}
		c.run(200 * time.Millisecond)
		if a.IsLeader() {
			t.Error("the leader acts after its margin")
		}
		a.crash()
	})
}

func TestF11_LockDeletedUnderTheLeader(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		stale := func(o *lease.Options) {
			o.NothingStored = func(context.Context) (bool, error) { return time.Since(c.start) < time.Second, nil }
			o.MinTerm = func(context.Context) (uint64, error) { return 41, nil }
		}
		a, b := c.add("a", stale), c.add("b", stale)
		c.run(2 * time.Second)
		deleted := time.Now()
		_, etag := storedLock(t, c)
		if err := c.store.DeleteIfMatch(t.Context(), lockKey, etag); err != nil {
			t.Fatal(err)
		}
		c.run(leaseL - time.Second)
		if got := leaders(a, b); len(got) != 0 {
			t.Errorf("%q leads %v after the lock was deleted", got, time.Since(deleted))
		}
		c.run(leaseL)
		if got := leaders(a, b); len(got) != 1 || len(c.terms) != 2 || c.terms[0] != 42 || c.terms[1] <= 42 {
			t.Errorf("leaders %q, terms %v; want one, growing from 42", got, c.terms)
		}
		stopAll(t, a, b)
	})
}

func TestF10_QuarantinedLockIsNotTaken(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "truncated": `{"v":1,"leaderID":"x"`, "not JSON": "hello", "newer": `{"v":2,"leaderID":"x","term":9,"leaseSeconds":15}`,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *cluster) {
				if _, err := c.store.PutIfAbsent(t.Context(), lockKey, []byte(content)); err != nil {
					t.Fatal(err)
				}
				a := c.add("a", nil)
				c.run(5 * leaseL)
				if err := a.Status().Problem; a.IsLeader() || !errors.Is(err, lease.ErrQuarantined) {
					t.Errorf("leads: %t, problem %v", a.IsLeader(), err)
				}
				stopAll(t, a)
			})
		})
	}
}

func TestReclaim(t *testing.T) {
	for name, proof := range map[string]struct {
		term uint64
		ok   bool
		wait bool
	}{
		"F18 the old process is proved gone": {term: 1, ok: true},
		"another term":                       {term: 7, ok: true, wait: true},
		"no proof":                           {term: 1, wait: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *cluster) {
				a := c.add("a", nil)
				c.until(a, time.Second)
				a.crash()
				again := c.add("a", func(o *lease.Options) {
					o.Reclaim = func() (uint64, bool) { return proof.term, proof.ok }
				})
				took := c.until(again, 2*leaseL)
				if waited := took >= leaseL; waited != proof.wait {
					t.Errorf("it took %v", took)
				}
				stopAll(t, again)
			})
		})
	}
}

func TestDuplicateIDIsFatal(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.add("same", nil)
		c.until(a, time.Second)
		b := c.add("same", nil)
		c.run(leaseL)
		if err := <-b.done; !errors.Is(err, lease.ErrDuplicateID) {
			t.Errorf("the second server ends with %v", err)
		}
		_, etag := storedLock(t, c)
		forged, _ := lease.Document{LeaderID: "same", Term: 9, LeaseSeconds: 15}.Encode()
		if _, err := c.store.PutIfMatch(t.Context(), lockKey, forged, etag); err != nil {
			t.Fatal(err)
		}
		c.run(leaseL / 2)
		if err := <-a.done; !errors.Is(err, lease.ErrDuplicateID) || lease.Check(c.tenures[0]) == nil {
			t.Errorf("the leader ends with %v", err)
		}
	})
}

// A server that starts again without its folder sees the last renewal of the process
// before it land: that is no other server, and the lock is taken when it is stale.
func TestLateWriteOfTheProcessBefore(t *testing.T) {
	for name, wait := range map[string]time.Duration{
		"while the lock is watched": leaseL / 2,
		"while the lock is taken":   leaseL + 10*time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *cluster) {
				a := c.add("a", nil)
				c.until(a, time.Second)
				a.crash()
				c.store.SetFaults(func(call memory.Call) (f memory.Fault) {
					if call.Op == memory.OpPut {
						f.Latency = 50 * time.Millisecond
					}
					return f
				})
				again := c.add("a", nil)
				c.run(wait)
				c.store.SetFaults(nil)
				late, etag := storedLock(t, c)
				late.LastUpdated = late.LastUpdated.Add(leaseL / 3)
				data, _ := late.Encode()
				if _, err := c.store.PutIfMatch(t.Context(), lockKey, data, etag); err != nil {
					t.Fatal(err)
				}
				if took := c.until(again, 2*leaseL); took < leaseL {
					t.Errorf("the lock is taken %v after it was renewed", took)
				}
				stopAll(t, again)
			})
		})
	}
}

func TestMinTermErrorKeepsTheLockFree(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		broken := true
		a := c.add("a", func(o *lease.Options) {
			o.MinTerm = func(context.Context) (uint64, error) {
				if broken {
					return 0, errors.New("unreadable")
				}
				return 5, nil
			}
		})
		c.run(2 * leaseL)
		if a.IsLeader() || a.Status().Problem == nil {
			t.Errorf("leads: %t, problem %v", a.IsLeader(), a.Status().Problem)
		}
		broken = false
		c.until(a, time.Second)
		synctest.Wait()
		if c.terms[0] != 6 {
			t.Errorf("terms %v", c.terms)
		}
		stopAll(t, a)
	})
}

func storedLock(t *testing.T, c *cluster) (lease.Document, string) {
	t.Helper()
	o, err := c.store.Get(t.Context(), lockKey)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := lease.Decode(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	return doc, o.ETag
}
