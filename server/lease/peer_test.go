package lease_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
)

// peerPair is a leader and a standby that asks it.
func peerPair(c *cluster) (a, b *node) {
	a = c.add("a", c.inPeerMode)
	c.until(a, time.Second)
	b = c.add("b", c.inPeerMode)
	c.run(leaseL + 130*time.Millisecond)
	return a, b
}

// The leader crashes at every moment between two renewals, and right after one
// that the standby has not heard of.
func TestL2_PeerModeTakeoverAfterCrash(t *testing.T) {
	for name, gone := range map[string]reach{"the box refuses connections": refuses, "the box is silent": hangs} {
		for _, length := range []time.Duration{5 * time.Second, leaseL, 30 * time.Second} {
			t.Run(name+" "+length.String(), func(t *testing.T) {
				var worst time.Duration
				for after := 10 * time.Millisecond; after < length/3; after += 170 * time.Millisecond {
					bubble(t, func(t *testing.T, c *cluster) {
						slow := func(memory.Call) memory.Fault { return memory.Fault{Latency: 20 * time.Millisecond} }
						c.store.SetFaults(slow)
						settings := func(o *lease.Options) { o.Lease = length; c.inPeerMode(o) }
						a := c.add("a", settings)
						c.until(a, time.Second)
						b := c.add("b", settings)
						c.run(length + after)
						a.peers.set(gone)
						crashed := time.Now()
						a.crash()
						c.until(b, 2*length)
						worst = max(worst, time.Since(crashed))
						stopAll(t, b)
					})
				}
				t.Logf("at most %v after the crash, %.2f leases", worst, worst.Seconds()/length.Seconds())
				if worst > length*12/10 {
					t.Errorf("a takeover took %v, more than 1.2 leases", worst)
				}
			})
		}
	}
}

func TestL2_PeerModeGracefulHandover(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := peerPair(c)
		begin := time.Now()
		stopAll(t, a)
		c.until(b, leaseL)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the handover took %v", took)
		} else {
			t.Logf("%v after the stop", took)
		}
		stopAll(t, b)
	})
}

func TestPeerModeSparesTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := peerPair(c)
		reads := 0
		c.store.SetFaults(func(call memory.Call) memory.Fault {
			if call.Op == memory.OpGet {
				reads++
			}
			return memory.Fault{}
		})
		before := a.peers.asked()
		c.run(10 * time.Minute)
		c.store.SetFaults(nil)
		if asked := a.peers.asked() - before; reads > 20 || asked < 1000 {
			t.Errorf("in ten minutes %d reads of the lock, %d questions to the leader", reads, asked)
		}
		if s := b.Status(); s.LeaderID != "a" || s.Problem != nil || len(c.terms) != 1 {
			t.Errorf("the standby sees %+v", s)
		}
		stopAll(t, a, b)
	})
}

func TestPeerModeWaitsForItsMeans(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		var known atomic.Bool
		a := c.add("a", nil)
		c.until(a, time.Second)
		b := c.add("b", func(o *lease.Options) {
			ask := c.ask(o.LeaderAddr)
			o.Ask = func(ctx context.Context, addr string) (lease.Document, error) {
				if !known.Load() {
					return lease.Document{}, lease.ErrCannotAsk
				}
				return ask(ctx, addr)
			}
		})
		c.run(leaseL)
		known.Store(true)
		c.run(time.Second)
		if a.peers.asked() == 0 {
			t.Error("the leader was not asked as soon as it could be")
		}
		stopAll(t, a, b)
	})
}

func TestRepeatedAnswersProlongNothing(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.add("a", nil)
		c.until(a, time.Second)
		parrot, _ := a.Held() // what a leader says that has lost its mind
		b := c.add("b", func(o *lease.Options) {
			o.Ask = func(context.Context, string) (lease.Document, error) { return parrot, nil }
		})
		c.run(leaseL/3 - time.Second) // until right before a renewal
		a.crash()
		if took := c.until(b, 2*leaseL); took > leaseL {
			t.Errorf("a repeated answer held the takeover up: %v", took)
		}
		stopAll(t, b)
	})
}

func TestImplausibleAnswersAreNotHeard(t *testing.T) {
	for name, forge := range map[string]func(*lease.Document){
		"of an earlier term":              func(d *lease.Document) { d.Term-- },
		"of another leader":               func(d *lease.Document) { d.LeaderID = "x" },
		"of a lock that is released":      func(d *lease.Document) { d.Released = true },
		"in the name of who asks":         func(d *lease.Document) { d.LeaderID, d.Term = "b", d.Term+1 },
		"of a lease that nobody may have": func(d *lease.Document) { d.Term++; d.LeaseSeconds = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *cluster) {
				a := c.add("a", func(o *lease.Options) {
					o.MinTerm = func(context.Context) (uint64, error) { return 7, nil }
				})
				c.until(a, time.Second)
				b := c.add("b", func(o *lease.Options) {
					o.Ask = func(context.Context, string) (lease.Document, error) {
						doc, ok := a.Held()
						if !ok {
							return doc, lease.ErrNotLeader
						}
						doc.LastUpdated = time.Now() // each looks like a renewal
						forge(&doc)
						return doc, nil
					}
				})
				c.run(3 * leaseL)
				if s := b.Status(); s.LeaderID != "a" || s.Term != 8 || b.IsLeader() {
					t.Errorf("the standby believes %+v", s)
				}
				stopAll(t, a, b)
			})
		})
	}
}

func TestF6_FrozenLeaderInPeerMode(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := peerPair(c)
		frozen := time.Now()
		a.net.freeze(frozen.Add(3 * leaseL))
		if took := c.until(b, 2*leaseL); took > leaseL*12/10 {
			t.Errorf("the takeover took %v", took)
		}
		c.run(4 * leaseL)
		if got := leaders(a, b); len(got) != 1 || got[0] != "b" || len(c.terms) != 2 {
			t.Errorf("leaders %q, terms %v", got, c.terms)
		}
		stopAll(t, a, b)
	})
}

func TestL9_OneWayPartitions(t *testing.T) {
	t.Run("the leader can't be asked, and leads on", func(t *testing.T) {
		bubble(t, func(t *testing.T, c *cluster) {
			a, b := peerPair(c)
			b.peers.set(hangs)
			c.run(20 * leaseL)
			if got := leaders(a, b); len(got) != 1 || got[0] != "a" || len(c.terms) != 1 {
				t.Errorf("leaders %q, terms %v", got, c.terms)
			}
			b.peers.set(answers)
			before := a.peers.asked()
			c.run(time.Minute)
			if a.peers.asked() == before {
				t.Error("the leader was never asked again")
			}
			stopAll(t, a, b)
		})
	})
	t.Run("the leader can be asked and can't write the store", func(t *testing.T) {
		bubble(t, func(t *testing.T, c *cluster) {
			a, b := peerPair(c)
			a.net.set(true)
			if took := c.until(b, 2*leaseL); took > leaseL*12/10 {
				t.Errorf("the takeover took %v", took)
			}
			if a.IsLeader() {
				t.Error("the old leader acts")
			}
			a.net.set(false)
			c.run(2 * leaseL)
			stopAll(t, a, b)
		})
	})
}

func TestLockTakenFromALeaderThatAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := peerPair(c)
		doc, etag := storedLock(t, c)
		forged, _ := lease.Document{LeaderID: "x", LeaderAddr: "x:8991", Term: doc.Term + 5, LeaseSeconds: 15}.Encode()
		if _, err := c.store.PutIfMatch(t.Context(), lockKey, forged, etag); err != nil {
			t.Fatal(err)
		}
		c.run(leaseL/3 + time.Second)
		if s := b.Status(); a.IsLeader() || s.LeaderID != "x" || s.Term != doc.Term+5 {
			t.Errorf("a leads: %t, the standby sees %+v", a.IsLeader(), s)
		}
		c.run(2 * leaseL)
		if got := leaders(a, b); len(got) != 1 {
			t.Errorf("leaders %q", got)
		}
		stopAll(t, a, b)
	})
}

func TestF7_WallClocksDecideNothingInPeerMode(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := c.add("a", c.inPeerMode), c.add("b", c.inPeerMode)
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

func TestL9_ResignationHandsOver(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := peerPair(c)
		if err := b.Resign(t.Context(), time.Minute); !errors.Is(err, lease.ErrNotLeader) {
			t.Errorf("a standby resigns: %v", err)
		}
		begin := time.Now()
		if err := a.Resign(t.Context(), 3*leaseL); err != nil {
			t.Fatal(err)
		}
		if doc, _ := storedLock(t, c); !doc.Released || lease.Check(c.tenures[0]) == nil {
			t.Errorf("released: %t, or it still acts", doc.Released)
		}
		if took := c.until(b, leaseL); took > time.Second {
			t.Errorf("the handover took %v", took)
		}
		b.crash()
		c.run(3*leaseL - time.Since(begin) - time.Second)
		if a.IsLeader() {
			t.Errorf("it is back %v after it resigned", time.Since(begin))
		}
		if took := c.until(a, leaseL); took > 2*time.Second {
			t.Errorf("it came back %v after its time was over", took)
		}
		stopAll(t, a)
	})
}

func TestL9_ResignationWhereNobodyElseIs(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.add("a", nil)
		c.until(a, time.Second)
		if err := a.Resign(t.Context(), 3*leaseL); err != nil {
			t.Fatal(err)
		}
		if took := c.until(a, 5*leaseL); took < 3*leaseL || took > 3*leaseL+time.Second {
			t.Errorf("it leads again after %v", took)
		}
		stopAll(t, a)
	})
}
