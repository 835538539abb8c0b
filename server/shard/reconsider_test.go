package shard

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// condemnedSick brings a group of two to the point where one of its machines was found
// sick and is condemned, its replacement is there, and its delete does not get through.
func (w *world) condemnedSick() identity.ID {
	w.t.Helper()
	w.scale(web, 2)
	w.settle(5 * time.Minute)
	w.cloud.SetFaults(drivertest.Always(drivertest.OpDelete, drivertest.Fail(driver.Transient)))
	id := w.vms(web)[0].InstanceID
	w.machine(id).silence()
	w.settle(10 * time.Minute)
	if d := w.deletionOf(id); d == nil || d.Reason != string(fleet.ReasonUnhealthy) {
		w.t.Fatalf("deletion of the silent machine: %+v, want it condemned as unhealthy", d)
	}
	if n := len(w.vms(web)); n != 3 {
		w.t.Fatalf("%d machines, want the two and a replacement", n)
	}
	return id
}

// deletionOf is what the record of an instance says of its removal; nil: nothing, or
// there is none.
func (w *world) deletionOf(id identity.ID) *layout.Deletion {
	w.t.Helper()
	for _, rec := range w.records() {
		if rec.ID == id {
			return rec.Deletion
		}
	}
	return nil
}

// TestS6_ANewLeaderLooksAgain: an instance that was condemned as unhealthy, and whose
// drain has not begun, is judged again by the next leader. One that is well stays; what
// speaks against the others still does.
func TestS6_ANewLeaderLooksAgain(t *testing.T) {
	ask := func(req RemovalRequest) func(*world, identity.ID) {
		return func(w *world, id identity.ID) {
			w.machine(id).speak()
			req.ID = id.String()
			if _, err := w.term().requests.DeleteInstance(w.ctx, "default", req); err != nil {
				w.t.Error(err)
			}
		}
	}
	for _, c := range []struct {
		name  string
		drain string
		then  func(*world, identity.ID) // before the change of leader
		stays bool
	}{
		{"it is well again", "0s", func(w *world, id identity.ID) { w.machine(id).speak() }, true},
		{"it is as silent as before", "0s", func(*world, identity.ID) {}, false},
		{"its drain has begun", "30m", func(w *world, id identity.ID) { w.machine(id).speak() }, false},
		{"a caller has asked for its end", "0s", ask(RemovalRequest{}), false},
		{"a caller has asked for its replacement", "0s", ask(RemovalRequest{ReplaceFirst: true}), false},
		{"its VM is stopped by now", "0s", func(w *world, id identity.ID) { w.cloud.SetStatus(id, driver.Stopped) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, worldOptions{Drain: c.drain}, func(t *testing.T, w *world) {
				w.coordinate("default")
				id := w.condemnedSick()
				c.then(w, id)
				w.settle(time.Minute)
				w.stop()
				w.cloud.SetFaults(nil)
				w.lead()
				w.settle(time.Hour)
				w.converged(2)
				_, there := w.cloud.Machine(id)
				if there != c.stays {
					t.Errorf("there after the change of leader: %v, want %v", there, c.stays)
				}
				if made := w.cloud.Created(); made != 3 {
					t.Errorf("%d machines were made, want the two and a replacement", made)
				}
			})
		})
	}
}

// TestS6_LookedAgainIsDurable: the removal that was taken back is so under every leader
// after the next, however soon that one ends.
func TestS6_LookedAgainIsDurable(t *testing.T) {
	inWorld(t, worldOptions{Drain: "0s"}, func(t *testing.T, w *world) {
		id := w.condemnedSick()
		w.machine(id).speak()
		w.stop()
		w.cloud.SetFaults(nil)
		w.lead()
		synctest.Wait()
		if d := w.deletionOf(id); d != nil {
			t.Errorf("the new leader serves, and the record says %+v", d)
		}
		if i := slices.IndexFunc(w.members(web), func(in cache.Instance) bool { return in.ID == id && in.State == fleet.Running }); i < 0 {
			t.Error("the instance is not running for the new leader")
		}
		w.stop()
		w.lead()
		w.settle(time.Hour)
		w.converged(2)
		if _, there := w.cloud.Machine(id); !there {
			t.Error("the machine that is well was deleted")
		}
	})
}
