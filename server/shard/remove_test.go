package shard

import (
	"slices"
	"sync"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// hangWrites has the nth write of each record that does not stand yet take so long.
func (w *world) hangWrites(n int, d time.Duration) {
	old, writes := map[identity.ID]bool{}, map[identity.ID]int{}
	for _, rec := range w.records() {
		old[rec.ID] = true
	}
	w.store.SetFaults(func(c memory.Call) memory.Fault {
		_, _, id, err := layout.ParseInstanceKey(c.Key)
		if c.Op != memory.OpPut || err != nil || old[id] {
			return memory.Fault{}
		}
		if writes[id]++; writes[id] == n {
			return memory.Fault{Latency: d}
		}
		return memory.Fault{}
	})
}

// hideCondemnations has the answer to each write be lost that condemns an instance, and
// its record not be readable from then on: it stands, and the leader does not know. It
// returns what tells how many there are.
func (w *world) hideCondemnations() func() int {
	hidden := &sync.Map{}
	w.store.SetFaults(func(c memory.Call) memory.Fault {
		if _, yes := hidden.Load(c.Key); yes {
			return memory.Fault{Before: objectstore.ErrUnavailable}
		}
		rec, err := layout.DecodeInstanceRecord(c.Key, c.Data)
		if c.Op != memory.OpPut || err != nil || rec.Deletion == nil {
			return memory.Fault{}
		}
		hidden.Store(c.Key, true)
		return memory.Fault{After: objectstore.ErrUnavailable}
	})
	return func() (n int) {
		hidden.Range(func(any, any) bool { n++; return true })
		return n
	}
}

// TestS6_SizeThatWaitedIsLookedAtAgain: the condemnation of a machine that is one too
// many waits for an earlier write of its record, and by then another one has gone, as its
// owner asked for.
func TestS6_SizeThatWaitedIsLookedAtAgain(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 4)
		w.settle(time.Minute)
		asked := w.vms(web)[0].InstanceID
		w.hangWrites(2, 20*time.Second) // that of the provider's id
		w.scale(web, 5)
		w.settle(2 * time.Second)
		w.scale(web, 4)
		w.settle(time.Second)
		if _, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: asked.String()}); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(4)
		if n := w.cloud.Created(); n != 5 {
			t.Errorf("%d machines were made, want 5: the fifth was needed again when its condemnation could be written", n)
		}
	})
}

// TestS4_RemovalWaitsForTheCreate: no delete goes out while the create of the same
// machine is under way, for it might be answered before the machine exists.
func TestS4_RemovalWaitsForTheCreate(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		const takes = 4 * time.Second
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fault{Latency: takes}))
		w.scale(web, 1)
		w.settle(time.Second)
		w.scale(web, 0)
		w.settle(time.Minute)
		var asked time.Time
		for _, c := range w.cloud.Calls() {
			switch c.Op {
			case drivertest.OpCreate:
				asked = c.At
			case drivertest.OpDelete:
				if after := c.At.Sub(asked); after < takes {
					t.Errorf("a delete was sent %v after the create, whose answer came after %v", after, takes)
				}
			}
		}
		if n := w.count(drivertest.OpDelete); n == 0 {
			t.Error("no delete was sent")
		}
		w.converged(0)
	})
}

// TestS4_F20_NotFoundTooSoonIsNoEnd: who removes an instance whose VM does not show yet
// does not take "not found" for its end before the provider would show it.
func TestS4_F20_NotFoundTooSoonIsNoEnd(t *testing.T) {
	const lag = time.Minute
	slow := drivertest.Conditions{ListLag: lag, GetLag: lag}
	inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: slow}}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Times(1, drivertest.OpCreate, drivertest.Fault{Late: 40 * time.Second}))
		w.scale(web, 1)
		w.settle(100 * time.Millisecond)
		id := w.records()[0].ID
		w.scale(web, 0)
		w.settle(lag - time.Second)
		if got := w.remainsOf(id); got != "deleting" {
			t.Errorf("the record is %q before the provider shows anything of that age, want deleting", got)
		}
		w.settle(time.Hour)
		w.converged(0)
	})
}

// TestS4_MissingReferenceIsNoEnd: an answer that something else does not exist says
// nothing of the machine.
func TestS4_MissingReferenceIsNoEnd(t *testing.T) {
	slow := drivertest.Conditions{DeleteTime: 2 * time.Minute}
	inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: slow}}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		id := w.vms(web)[0].InstanceID
		w.cloud.SetFaults(drivertest.Always(drivertest.OpGet, drivertest.Fail(driver.MissingRef)))
		w.scale(web, 0)
		w.settle(time.Minute)
		if got := w.remainsOf(id); got != "deleting" {
			t.Errorf("the record is %q while the machine goes, want deleting", got)
		}
		w.cloud.SetFaults(nil)
		w.settle(5 * time.Minute)
		w.converged(0)
	})
}

// TestS6_CondemnationWithoutAnswerIsRepeated: the condemnation of a machine that is one too
// many is recorded, and the leader does not hear of it. It has to find out and go on, also
// where the size asks for the machine again.
func TestS6_CondemnationWithoutAnswerIsRepeated(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(time.Minute)
		condemned := w.hideCondemnations()
		w.scale(web, 2)
		w.settle(10 * time.Second)
		w.scale(web, 3)
		w.settle(10 * time.Second)
		if n := condemned(); n != 1 {
			t.Fatalf("%d machines are condemned, want 1", n)
		}
		w.store.SetFaults(nil)
		w.settle(time.Minute)
		w.converged(3)
		if n := w.cloud.Created(); n != 4 {
			t.Errorf("%d machines were made, want 4: one goes whose condemnation stood", n)
		}
	})
}

// TestS6_WhatMayBeCondemnedIsNotLeft: a replaced machine is condemned and the leader does
// not hear of it. Its replacement is not one too many because the reason to replace it
// is taken back.
func TestS6_WhatMayBeCondemnedIsNotLeft(t *testing.T) {
	aging := worldOptions{Server: `"expiry": {"eligible_age": "5m"}`}
	inWorld(t, aging, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(5*time.Minute - time.Second)
		condemned := w.hideCondemnations()
		w.settle(time.Minute)
		if n := condemned(); n != 1 {
			t.Fatalf("%d machines are condemned, want the first one", n)
		}
		w.reconfigure(worldOptions{})
		w.settle(30 * time.Second)
		if n := condemned(); n != 1 {
			t.Errorf("%d machines of a group of 1 are condemned, want the first one alone", n)
		}
		w.store.SetFaults(nil)
		w.settle(time.Minute)
		w.converged(1)
	})
}

// TestS6_WhatIsBeingCondemnedIsNotLeft: the size goes down while the condemnation of a
// machine that a caller named is on its way to the record. That machine is one of those
// that are too many.
func TestS6_WhatIsBeingCondemnedIsNotLeft(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 4)
		w.settle(time.Minute)
		named := w.vms(web)[2].InstanceID
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if _, _, id, _ := layout.ParseInstanceKey(c.Key); c.Op == memory.OpPut && id == named {
				return memory.Fault{Linger: 10 * time.Second}
			}
			return memory.Fault{}
		})
		asked := make(chan error, 1)
		go func() {
			_, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: named.String()})
			asked <- err
		}()
		w.settle(time.Second)
		w.scale(web, 2)
		w.settle(time.Minute)
		if err := <-asked; err != nil {
			t.Error(err)
		}
		w.store.SetFaults(nil)
		w.settle(time.Minute)
		w.converged(2)
		if n := w.cloud.Created(); n != 4 {
			t.Errorf("%d machines were made, want 4: no other one had to go in place of the one that was named", n)
		}
	})
}

// TestS6_WhatIsGivenUpIsNotLeft: a machine is given up, for the group has become smaller
// before it was asked for. While its record goes, the size costs no other one in its place.
func TestS6_WhatIsGivenUpIsNotLeft(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fault{Latency: 4 * time.Second}))
		w.scale(web, 2)
		w.settle(time.Second)
		first, late := map[identity.ID]bool{}, time.Duration(0)
		for _, rec := range w.records() {
			first[rec.ID] = true
		}
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			switch _, _, id, err := layout.ParseInstanceKey(c.Key); {
			case err != nil || first[id]:
				return memory.Fault{}
			case c.Op == memory.OpDelete:
				return memory.Fault{Latency: 2 * time.Second}
			default:
				late += time.Second
				return memory.Fault{Latency: late} // the plan waits for the slower one
			}
		})
		w.scale(web, 4)
		w.settle(500 * time.Millisecond)
		w.scale(web, 2)
		w.settle(time.Minute)
		w.store.SetFaults(nil)
		w.settle(time.Minute)
		w.converged(2)
		if !slices.ContainsFunc(w.members(web), func(in cache.Instance) bool { return first[in.ID] }) {
			t.Error("both of the first machines went, and one of the others had been given up")
		}
	})
}

// TestS6_F13_ALateCondemnationOfTheLastLeader: it lands after its leader's end, when the next
// one has chosen another machine for the same size.
func TestS6_F13_ALateCondemnationOfTheLastLeader(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(time.Minute)
		sent := 0
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			rec, err := layout.DecodeInstanceRecord(c.Key, c.Data)
			if c.Op != memory.OpPut || err != nil || rec.Deletion == nil {
				return memory.Fault{}
			}
			if sent++; sent > 1 {
				return memory.Fault{Before: objectstore.ErrUnavailable}
			}
			return memory.Fault{Late: 20 * time.Second}
		})
		w.scale(web, 2)
		w.settle(100 * time.Millisecond)
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		if sent == 0 {
			t.Fatal("nothing was condemned")
		}
		w.store.SetFaults(nil)
		w.cloud.Kill(w.vms(web)[2].InstanceID) // the next leader's choice
		w.lead()
		for range 120 {
			w.settle(time.Second)
			left := 0
			for _, rec := range w.records() {
				if rec.Deletion == nil {
					left++
				}
			}
			if left < 2 {
				t.Fatalf("%d machines are left, want 2", left)
			}
		}
		w.converged(2)
	})
}

// TestF11_NewLeaderFindsInstancesOfAGroupThatStandsNowhere: somebody has taken its entry out of
// the group file. Whoever leads next begins to lead, and takes the group as deleted.
func TestF11_NewLeaderFindsInstancesOfAGroupThatStandsNowhere(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		file := w.groupFile()
		file.Remove(web.Tenant, web.Name)
		data, err := groupfile.Encode(file)
		if err != nil {
			t.Fatal(err)
		}
		w.overwrite(groupsKey, string(data))
		w.lead()
		w.settle(3 * time.Minute)
		w.converged(0)
	})
}
