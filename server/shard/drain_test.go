package shard

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/instances"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// coordinate lets an operator of the tenant say that it moves work off machines.
func (w *world) coordinate(tenant string) {
	w.t.Helper()
	if err := w.term().requests.CoordinateDrains(identity.Peer{Role: identity.RoleOperator, Tenant: tenant}); err != nil {
		w.t.Fatal(err)
	}
}

// acknowledge says that an instance of the default tenant is drained.
func (w *world) acknowledge(id identity.ID) error {
	r, err := w.shard().Term()
	if err != nil {
		return err
	}
	return r.requests.AcknowledgeDrained("default", Drained{InstanceID: id.String()})
}

// drained says how long the only machine of a group lives on when the size goes to
// 0 and the test acts a second later.
func drained(t *testing.T, drain string, act func(w *world, id identity.ID)) (took time.Duration) {
	inWorld(t, worldOptions{Drain: drain}, func(t *testing.T, w *world) {
		w.coordinate("default")
		w.scale(web, 1)
		w.settle(time.Minute)
		began := time.Now()
		w.scale(web, 0)
		w.settle(time.Second)
		if vms := w.vms(web); len(vms) > 0 {
			act(w, vms[0].InstanceID)
		}
		for len(w.vms(web)) > 0 && time.Since(began) < time.Hour {
			w.settle(time.Second)
		}
		took = time.Since(began).Truncate(time.Second)
	})
	return took
}

func TestS20_L4_DrainIsKept(t *testing.T) {
	ack := func(w *world, id identity.ID) {
		if err := w.acknowledge(id); err != nil {
			w.t.Error(err)
		}
	}
	skip := func(w *world, id identity.ID) {
		_, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: id.String(), SkipDrain: true})
		if err != nil {
			w.t.Error(err)
		}
	}
	change := func(w *world, _ identity.ID) { w.stop(); w.lead() }
	away := func(w *world, _ identity.ID) { w.stop(); w.settle(10 * time.Minute); w.lead() }
	for _, c := range []struct {
		name     string
		drain    string
		act      func(*world, identity.ID)
		from, to time.Duration
	}{
		{"to its time-out", "5m", func(*world, identity.ID) {}, 5 * time.Minute, 5*time.Minute + 5*time.Second},
		{"not without a time-out", "0s", func(*world, identity.ID) {}, 0, 3 * time.Second},
		{"to its acknowledgement", "5m", ack, 0, 3 * time.Second},
		{"to a caller who does not want to wait", "5m", skip, 0, 3 * time.Second},
		{"to the end of its machine", "5m", func(w *world, id identity.ID) { w.cloud.Kill(id) }, 0, 3 * time.Second},
		{"over a change of leader", "5m", change, 5 * time.Minute, 5*time.Minute + 5*time.Second},
		{"while nobody leads", "5m", away, 10 * time.Minute, 10*time.Minute + 5*time.Second},
		{"to an acknowledgement that its leader did not live to act on", "5m", func(w *world, id identity.ID) {
			ack(w, id)
			change(w, id)
		}, 0, 5 * time.Second},
		{"to an acknowledgement that comes twice, of another leader too", "5m", func(w *world, id identity.ID) {
			change(w, id)
			ack(w, id)
			ack(w, id)
		}, 0, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			if took := drained(t, c.drain, c.act); took < c.from || took > c.to {
				t.Errorf("deleted after %v, want %v to %v", took, c.from, c.to)
			}
		})
	}
}

func TestNobodyDrainsNobodyWaits(t *testing.T) {
	inWorld(t, worldOptions{Drain: "5m"}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		w.scale(web, 0)
		w.settle(time.Second)
		w.converged(0)
	})
}

func TestAcknowledgementOfOneThatIsNotLeaving(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		early := w.vms(web)[0].InstanceID
		if err := w.acknowledge(early); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(2)
		if _, there := w.cloud.Machine(early); there {
			t.Error("an acknowledged machine is still there")
		}
	})
}

// TestS20_CrashInEachPhaseOfADrain: a machine that runs falls silent, is replaced,
// drains for twenty seconds and is deleted; and the leader dies at each of the calls
// that this takes. The drain is kept to its acknowledgement, the machine is replaced
// once, and everything ends well.
func TestS20_CrashInEachPhaseOfADrain(t *testing.T) {
	for _, when := range []moment{beforeCall, answerLost, afterAnswer} {
		t.Run(when.String(), func(t *testing.T) {
			n := 1
			for crashWhileDraining(t, n, when) {
				n++
			}
			if n < 8 {
				t.Errorf("the story made %d calls only", n-1)
			}
		})
	}
}

func crashWhileDraining(t *testing.T, n int, when moment) (died bool) {
	t.Run(fmt.Sprint(n), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOptions{Drain: "2m", Collect: "10m"})
			defer w.close()
			w.lead()
			w.coordinate("default")
			w.scale(web, 2)
			w.settle(time.Minute)
			c := &coordinator{w: w, victim: w.vms(web)[0].InstanceID}
			w.machine(c.victim).silence()
			w.life.dieAt(n, when)
			for range 180 {
				if !died && w.life.died() {
					died = true
					if err := w.stop(); err != nil {
						t.Errorf("the dying leader says: %v", err)
					}
					w.lead()
				}
				c.look()
				w.settle(time.Second)
			}
			c.check(t)
			w.converged(2)
			if made := w.cloud.Created(); made != 3 {
				t.Errorf("%d machines were made, want 3", made)
			}
		})
	})
	return died && !t.Failed()
}

// coordinator drains a machine in twenty seconds and says so, and notes what became
// of it in the meantime.
type coordinator struct {
	w      *world
	victim identity.ID

	began, acked, gone time.Time
}

// look does what there is to do at one moment.
func (c *coordinator) look() {
	if _, there := c.w.cloud.Machine(c.victim); !there && c.gone.IsZero() {
		c.gone = time.Now()
	}
	r, err := c.w.shard().Term()
	if err != nil {
		return
	}
	row, ok := r.planner.cache.Instance(c.victim)
	if c.began.IsZero() && ok && row.State == fleet.Draining {
		c.began = time.Now()
	}
	if c.began.IsZero() || !c.acked.IsZero() || time.Since(c.began) < 20*time.Second {
		return
	}
	if err := c.w.acknowledge(c.victim); err == nil {
		c.acked = time.Now()
	}
}

// check holds what happened against what must hold.
func (c *coordinator) check(t *testing.T) {
	t.Helper()
	switch {
	case c.began.IsZero() || c.acked.IsZero() || c.gone.IsZero():
		t.Errorf("drain began %v, acknowledged %v, machine gone %v: something never happened", c.began, c.acked, c.gone)
	case c.gone.Before(c.began.Add(20 * time.Second)):
		t.Errorf("S20: the machine was deleted %v after its drain began, want 20s at least", c.gone.Sub(c.began))
	case c.gone.After(c.acked.Add(10 * time.Second)):
		t.Errorf("L4: the machine was deleted %v after the acknowledgement", c.gone.Sub(c.acked))
	}
}

// TestS7_ReplaceFirst: a caller has a machine replaced, over a change of leader, and
// it stays until the new one reports.
func TestS7_ReplaceFirst(t *testing.T) {
	inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: drivertest.Conditions{BootTime: 30 * time.Second}}}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(2 * time.Minute)
		old := w.vms(web)[0].InstanceID
		req := RemovalRequest{ID: old.String(), ReplaceFirst: true}
		for range 2 { // a repeat changes nothing
			if _, err := w.term().requests.DeleteInstance(w.ctx, "default", req); err != nil {
				t.Fatal(err)
			}
		}
		w.stop()
		w.lead()
		w.settle(20 * time.Second)
		if _, there := w.cloud.Machine(old); !there || len(w.vms(web)) != 3 {
			t.Errorf("while the new machine boots the old one is there: %v, of %d", there, len(w.vms(web)))
		}
		w.stop()
		w.lead()
		w.settle(2 * time.Minute)
		w.converged(2)
		if _, there := w.cloud.Machine(old); there || w.cloud.Created() != 3 {
			t.Errorf("in the end the old machine is there: %v; %d were made, want 3", there, w.cloud.Created())
		}
	})
}

// TestS16_TwoDeletesOfOneInstanceAtOnce: the first decision stands, in storage as in
// the cache, whatever the second one says of the drain; who wants no drain gets none.
func TestS16_TwoDeletesOfOneInstanceAtOnce(t *testing.T) {
	for name, skips := range map[string][2]bool{"with a drain, then without": {false, true}, "without, then with a drain": {true, false}} {
		t.Run(name, func(t *testing.T) {
			opts := worldOptions{Drain: "5m", Cloud: drivertest.Options{Conditions: drivertest.Conditions{DeleteTime: time.Hour}}}
			inWorld(t, opts, func(t *testing.T, w *world) {
				w.coordinate("default")
				w.scale(web, 1)
				w.settle(time.Minute)
				id, key := w.members(web)[0].ID, w.records()[0].Key()
				w.store.SetFaults(func(c memory.Call) memory.Fault {
					if c.Op == memory.OpPut && c.Key == key {
						return memory.Fault{Latency: time.Second}
					}
					return memory.Fault{}
				})
				began := time.Now()
				var all sync.WaitGroup
				for _, skip := range skips {
					all.Go(func() {
						_, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: id.String(), SkipDrain: skip})
						if err != nil {
							t.Error(err)
						}
					})
					w.settle(100 * time.Millisecond)
				}
				all.Wait()
				w.settle(10 * time.Second)
				rec, _ := w.term().planner.instances.Record(id)
				row, _ := w.term().planner.cache.Instance(id)
				if stored := instances.RemovalOf(rec.Deletion); stored != row.Removal {
					t.Errorf("the record says %+v, the leader %+v", stored, row.Removal)
				}
				if at := rec.Deletion.RequestedAt.Time; at.Sub(began) > 50*time.Millisecond {
					t.Errorf("requested at +%v, want the first one's moment", at.Sub(began))
				}
				if row.State != fleet.Deleting {
					t.Errorf("it is %s, want that it does not drain", row.State)
				}
			})
		})
	}
}

// TestS15_AcknowledgementThatIsNotStoredIsRefused: whoever drains has to say it again, for
// the next leader would not know.
func TestS15_AcknowledgementThatIsNotStoredIsRefused(t *testing.T) {
	inWorld(t, worldOptions{Drain: "5m"}, func(t *testing.T, w *world) {
		w.coordinate("default")
		w.scale(web, 1)
		w.settle(time.Minute)
		id := w.vms(web)[0].InstanceID
		w.scale(web, 0)
		w.settle(time.Second)
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut {
				return memory.Fault{Before: objectstore.ErrThrottled}
			}
			return memory.Fault{}
		})
		if err := w.acknowledge(id); err == nil {
			t.Error("a drain is acknowledged that storage knows nothing of")
		}
		w.settle(10 * time.Second)
		if n := w.count(drivertest.OpDelete); n != 0 {
			t.Error("a machine was deleted on an acknowledgement that was refused")
		}
		w.store.SetFaults(nil)
		if err := w.acknowledge(id); err != nil {
			t.Error(err)
		}
		w.settle(5 * time.Second)
		w.converged(0)
	})
}
