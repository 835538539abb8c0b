package shard

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// auditInterval is how often the records are compared with storage.
const auditInterval = time.Hour

// A record that disappears under a leader is noticed at the next look, at the
// latest; its machine is left alone and its group filled up.
func TestF11_RecordDeletedUnderALeader(t *testing.T) {
	for name, look := range map[string]func(w *world){
		"found by the hourly look": func(w *world) { w.settle(auditInterval + time.Minute) },
		"found when the instance is to go": func(w *world) {
			w.scale(web, 0)
			w.settle(time.Minute)
			w.scale(web, 2)
			w.settle(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				w.scale(web, 2)
				w.settle(time.Minute)
				rec := w.records()[0]
				w.remove(rec.Key())
				look(w)
				if _, there := w.cloud.Machine(rec.ID); !there {
					t.Error("a machine without a record was deleted")
				}
				if held := w.term().Unmanaged(); len(held) != 1 || held[0].VM.ID != rec.ID {
					t.Errorf("held: %v, want %s", held, rec.ID)
				}
				if n := len(w.members(web)); n != 2 {
					t.Errorf("the group has %d instances, want 2 beside the held machine", n)
				}
			})
		})
	}
}

// TestF11_NothingIsLeftOfAVanishedInstance: what is said of a group speaks of its instances
// alone.
func TestF11_NothingIsLeftOfAVanishedInstance(t *testing.T) {
	inWorld(t, worldOptions{Files: `{"none": {"kind": "secret", "source": "none"}}`}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(5 * time.Minute)
		if n := len(w.term().planner.files.Undelivered(web)); n != 2 {
			t.Fatalf("%d machines lack files, want both", n)
		}
		rec := w.records()[0]
		w.remove(rec.Key())
		w.settle(auditInterval + time.Minute)
		for _, u := range w.term().planner.files.Undelivered(web) {
			if u.Instance == rec.ID {
				t.Errorf("%s is none of the group's any more, and is said to lack files", u.Instance)
			}
		}
	})
}

// TestF6S4_LateRecordOfAStoppedLeader: the leader before was stopped when it was about
// to create a record, and creates it when it goes on, after this one has read them all.
// Nobody will ever make its machine: it is found soon, and the group has its size.
func TestF6S4_LateRecordOfAStoppedLeader(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(10 * time.Second)
		late := w.records()[0]
		id, err := w.ids.NewID(late.Kind)
		if err != nil {
			t.Fatal(err)
		}
		late.ID, late.Status, late.ProviderID = id, layout.StatusPending, ""
		late.RegisteredAt, late.PublicKeyPEM, late.Certificate = layout.Time{}, "", layout.Certificate{}
		text, err := late.Encode()
		if err != nil {
			t.Fatal(err)
		}
		w.write(late.Key(), string(text))
		w.settle(time.Minute)
		w.converged(2)
	})
}

func TestRecordPutBackIsTakenIn(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		rec := w.records()[0]
		text, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		w.remove(rec.Key())
		w.settle(auditInterval + time.Minute)
		w.write(rec.Key(), string(text))
		w.settle(auditInterval + time.Minute)
		if len(w.term().Unmanaged()) != 0 {
			t.Errorf("held: %v", w.term().Unmanaged())
		}
		w.converged(2)
	})
}

// TestS4_TakenInWhileItsWriteFails: the look at storage finds the record of an instance
// whose write then ends without an answer. The record is taken back, and the instance
// with it: the group is filled up without waiting for an agent that nobody made.
func TestS4_TakenInWhileItsWriteFails(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		var tries atomic.Int64
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			switch {
			case c.Op != memory.OpPut || !strings.HasPrefix(c.Key, layout.InstancePrefix(testShard)):
				return memory.Fault{}
			case tries.Add(1) == 1:
				return memory.Fault{Late: time.Millisecond}
			default:
				return memory.Fault{Latency: 2 * time.Second, Before: objectstore.ErrUnavailable}
			}
		})
		w.cloud.SetFaults(func(c drivertest.Call) (f drivertest.Fault) {
			if c.Op == drivertest.OpGet || c.Op == drivertest.OpList { // else it is found abandoned
				f.Before = driver.Fail(driver.Transient, "look", errors.New("away"))
			}
			return f
		})
		w.scale(web, 2)
		w.settle(time.Second)
		if err := w.term().planner.instances.Audit(w.ctx); err != nil {
			t.Fatal(err)
		}
		if n := len(w.members(web)); n != 2 {
			t.Fatalf("%d instances are known, want 2", n)
		}
		w.settle(20 * time.Second) // the last try has failed
		w.store.SetFaults(nil)
		w.settle(10 * time.Minute)
		w.cloud.SetFaults(nil)
		w.settle(time.Minute)
		w.converged(2)
	})
}
