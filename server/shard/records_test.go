package shard

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/instances"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

func TestF4_RecordChangedByAnotherHandIsMerged(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, _ identity.ID, nonce string) {
		rec := w.records()[0]
		o, err := w.store.Get(w.ctx, rec.Key())
		if err != nil {
			t.Fatal(err)
		}
		w.overwrite(rec.Key(), strings.Replace(string(o.Data), "{", `{"note": "by hand",`, 1))
		if _, err := register(w.term(), nonce, newKey(t)); err != nil {
			t.Fatal(err)
		}
		o, err = w.store.Get(w.ctx, rec.Key())
		if err != nil || !strings.Contains(string(o.Data), "by hand") || !strings.Contains(string(o.Data), "PUBLIC KEY") {
			t.Errorf("the record is %s, %v, want both changes", o.Data, err)
		}
	})
}

func TestS1_LaterTermInARecordEndsTheTerm(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, _ identity.ID, nonce string) {
		rec := w.records()[0]
		rec.Term = 9
		data, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		w.overwrite(rec.Key(), string(data))
		if _, err := register(w.term(), nonce, newKey(t)); err == nil {
			t.Error("a certificate was issued under a past term")
		}
		synctest.Wait()
		if err := w.ended(); !errors.Is(err, lease.ErrSuperseded) {
			t.Errorf("Lead returned %v, want that it is superseded", err)
		}
	})
}

// TestL1_ARecordThatALateWriteReachedIsRemoved: a write whose answer was lost may take
// effect after the leader has given it up. The record is then looked at again, and removed
// if nothing in it speaks against that.
func TestL1_ARecordThatALateWriteReachedIsRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		late    func(*layout.InstanceRecord) // nil: it is deleted
		remove  func(*instances.Store, context.Context, identity.ID) error
		refused error
	}{
		"the same once more": {func(*layout.InstanceRecord) {}, (*instances.Store).Remove, nil},
		"gone":               {nil, (*instances.Store).Remove, nil},
		"it is condemned there, and is to be withdrawn": {
			func(rec *layout.InstanceRecord) {
				rec.Deletion = &layout.Deletion{Reason: string(fleet.ReasonRequested)}
			}, (*instances.Store).Withdraw, instances.ErrCondemned,
		},
		"a later leader wrote": {func(rec *layout.InstanceRecord) { rec.Term = 9 }, (*instances.Store).Remove, lease.ErrSuperseded},
	} {
		t.Run(name, func(t *testing.T) {
			withMachine(t, func(t *testing.T, w *world, id identity.ID, _ string) {
				rec, rs := w.records()[0], w.term().planner.instances
				key := rec.Key()
				if c.late == nil {
					w.remove(key)
				} else {
					c.late(&rec)
					data, err := rec.Encode()
					if err != nil {
						t.Fatal(err)
					}
					w.overwrite(key, string(data))
				}
				if err := c.remove(rs, w.term().leadership.ctx, id); !errors.Is(err, c.refused) {
					t.Errorf("got %v, want %v", err, c.refused)
				}
				if _, err := w.store.Get(w.ctx, key); (err == nil) != (c.refused != nil) {
					t.Errorf("the record: %v", err)
				}
			})
		})
	}
}

// TestS1_RecordOfALaterTermIsFound: a leader finds a record that a later one wrote
// by comparing what is stored, though it writes nothing itself.
func TestS1_RecordOfALaterTermIsFound(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, _ identity.ID, _ string) {
		rec := w.records()[0]
		id, err := w.ids.NewID(rec.Kind)
		if err != nil {
			t.Fatal(err)
		}
		rec.ID, rec.Term = id, 9
		data, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.PutIfAbsent(w.ctx, rec.Key(), data); err != nil {
			t.Fatal(err)
		}
		w.settle(auditInterval + time.Minute)
		var superseded *lease.SupersededError
		if err := w.ended(); !errors.As(err, &superseded) || superseded.Term != 9 {
			t.Errorf("Lead returned %v, want that term 9 has superseded it", err)
		}
	})
}

// TestL5_MachineOfATombstoneIsDeleted: a machine comes back whose instance was
// deleted, and whose record still says so.
func TestL5_MachineOfATombstoneIsDeleted(t *testing.T) {
	lag := drivertest.Conditions{ListLag: time.Minute, GetLag: time.Minute}
	inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: lag}}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(3 * time.Minute)
		id := w.vms(web)[0].InstanceID
		w.scale(web, 0)
		w.settle(3 * time.Minute)
		orphan := w.cloud.Plant(testOwner, id.String())
		sent := func() (n int) {
			for _, call := range w.cloud.Calls() {
				if call.Op == drivertest.OpDelete && call.Ref.ProviderID == orphan {
					n++
				}
			}
			return n
		}
		w.settle(85 * time.Second) // shown for less than one interval
		if n := sent(); n != 0 {
			t.Errorf("%d deletes at the first sight of it", n)
		}
		w.settle(time.Minute)
		if n := sent(); n == 0 {
			t.Error("the orphan is not deleted after two listings")
		}
	})
}

func TestRecordThatComesBackIsTakenIn(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		rec := w.records()[0]
		data, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		w.stop()
		w.remove(rec.Key())
		w.lead()
		w.settle(time.Minute)
		if held := w.term().Unmanaged(); len(held) != 1 {
			t.Fatalf("held: %v, want the machine without a record", held)
		}
		if _, err := w.store.PutIfAbsent(w.ctx, rec.Key(), data); err != nil {
			t.Fatal(err)
		}
		w.settle(5 * time.Minute)
		w.converged(2)
	})
}

func TestApplyPutsAConfigurationInForce(t *testing.T) {
	groups := func(size string) string {
		return `{"default": {"fixed": {"template": "plain", "size": ` + size + `}}}`
	}
	inWorld(t, worldOptions{Groups: groups("2")}, func(t *testing.T, w *world) {
		w.settle(time.Minute)
		w.converged(2)
		next := config.Version{Config: testConfig(t, worldOptions{Groups: groups("3")})}
		if err := w.shard().Apply(w.ctx, next); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(3)
		// A static group with an override that leaves the configuration lives on.
		size := 4
		if _, err := w.term().requests.UpsertGroup(w.ctx, "default", "fixed", requests.GroupChange{Size: &size}, nil); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(4)
		if err := w.shard().Apply(w.ctx, config.Version{Config: testConfig(t, worldOptions{})}); err != nil {
			t.Fatal(err)
		}
		w.settle(5 * time.Minute)
		w.converged(4)
	})
}

// TestS6_RecordOfACondemnedInstanceIsNotWithdrawn: an instance that was condemned while its
// create was given up keeps its record until it is deleted.
func TestS6_RecordOfACondemnedInstanceIsNotWithdrawn(t *testing.T) {
	slow := drivertest.Conditions{DeleteTime: time.Minute}
	inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: slow}}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		id := w.records()[0].ID
		w.scale(web, 0)
		w.settle(time.Second)
		if err := w.term().planner.instances.Withdraw(w.ctx, id); !errors.Is(err, instances.ErrCondemned) {
			t.Errorf("withdraw: %v, want %v", err, instances.ErrCondemned)
		}
		if got := w.remainsOf(id); got != "deleting" {
			t.Errorf("the record is %q, want deleting", got)
		}
		w.settle(5 * time.Minute)
		w.converged(0)
	})
}

func TestSnapshotIsWrittenAfterManyChangesAndNotOften(t *testing.T) {
	inWorld(t, worldOptions{DeadAgents: true, Timeout: "2h", Collect: "10m"}, func(t *testing.T, w *world) {
		var times []time.Time
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut && strings.HasPrefix(c.Key, "snapshot/") {
				times = append(times, time.Now())
			}
			return memory.Fault{}
		})
		w.settle(2 * time.Minute)
		w.scale(web, 50) // two writes each: a hundred changes
		w.settle(10 * time.Minute)
		if len(times) > 0 {
			t.Fatalf("%d snapshots after a hundred changes", len(times))
		}
		w.scale(web, 51)
		w.settle(10 * time.Minute)
		if len(times) != 1 {
			t.Fatalf("%d snapshots after more than a hundred changes, want 1", len(times))
		}
		for n := 60; n < 800; n += 60 { // 60 s of changes, more than a hundred every 10 s
			w.scale(web, n)
			w.settle(10 * time.Second)
		}
		w.settle(10 * time.Minute)
		if n := len(times) - 1; n < 2 || n > 4 {
			t.Errorf("%d snapshots in two minutes of changes", n)
		}
		for i := range times[1:] {
			if times[i+1].Sub(times[i]) < time.Minute {
				t.Errorf("snapshots at %v", times)
			}
		}
	})
}
