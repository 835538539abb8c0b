package shard

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
)

// Room that a group takes counts from the moment that its change is taken, and not first
// when it is stored: an on-demand machine that is asked for meanwhile does not fit any more.
func TestS12_AGroupThatIsBeingWrittenTakesRoom(t *testing.T) {
	inWorld(t, worldOptions{Server: `"default_quota": {"machines": 5},`}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut && c.Key == layout.GroupsKey(testShard) {
				return memory.Fault{Latency: 2 * time.Second}
			}
			return memory.Fault{}
		})
		done := make(chan error, 1)
		go func() { done <- w.tryScale(web, 5) }()
		time.Sleep(time.Second)
		synctest.Wait()
		create := func() refusal.Code {
			_, err := w.term().requests.CreateInstance(t.Context(), web.Tenant, InstanceRequest{Group: web.Name})
			return refusalCode(err)
		}
		if code := create(); code != refusal.ResourceExhausted {
			t.Errorf("while the group grows: %v", code)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		w.store.SetFaults(nil)
		if code := create(); code != refusal.ResourceExhausted {
			t.Errorf("after it has grown: %v", code)
		}
		w.scale(web, 4)
		w.settle(time.Minute) // until the one that is too many is gone
		if code := create(); code != "" {
			t.Errorf("when there is room: %v", code)
		}
	})
}

// Machines that no group wants any more are there until they are gone.
func TestS12_MachinesOnTheirWayOutCount(t *testing.T) {
	inWorld(t, worldOptions{Server: `"default_quota": {"machines": 5},`, Drain: "5m"}, func(t *testing.T, w *world) {
		w.coordinate(web.Tenant)
		w.scale(web, 4)
		w.settle(time.Minute)
		other := fleet.GroupID{Tenant: web.Tenant, Name: "other"}
		w.scale(web, 0)
		if err := w.tryScale(other, 2); refusalCode(err) != refusal.ResourceExhausted {
			t.Errorf("right after: %v", err)
		}
		time.Sleep(time.Minute)
		if n := len(w.vms(web)); n != 4 {
			t.Fatalf("%d machines are left, and drains take five minutes", n)
		}
		if err := w.tryScale(other, 2); refusalCode(err) != refusal.ResourceExhausted {
			t.Errorf("while they drain: %v", err)
		}
		if err := w.tryScale(other, 1); err != nil {
			t.Errorf("one more has room: %v", err)
		}
		w.settle(10 * time.Minute)
		if err := w.tryScale(other, 5); err != nil {
			t.Errorf("when they are gone: %v", err)
		}
	})
}

// refusalCode is what a caller would be answered, empty for a success.
func refusalCode(err error) refusal.Code {
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) {
		return refused.Code
	}
	if err != nil {
		return refusal.Internal
	}
	return ""
}
