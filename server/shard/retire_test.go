package shard

import (
	"testing"
	"time"

	"nstance.dev/protos/identity"
)

// name has a caller lower the size of a group and name the instance that goes.
func (w *world) name(id identity.ID, skipDrain bool) {
	w.t.Helper()
	_, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{
		ID: id.String(), DecrementSize: true, SkipDrain: skipDrain,
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestA3_SkippedDrainIsDurable: the leader dies with its answer, and the next one
// knows that this machine has no work to move.
func TestA3_SkippedDrainIsDurable(t *testing.T) {
	inWorld(t, worldOptions{Drain: "5m"}, func(t *testing.T, w *world) {
		w.coordinate("default")
		w.scale(web, 3)
		w.settle(time.Minute)
		first, second := w.vms(web)[0].InstanceID, w.vms(web)[1].InstanceID
		w.name(first, false)
		w.name(second, false)
		w.name(second, true) // on second thoughts
		w.stop()
		w.lead()
		w.settle(10 * time.Second)
		if _, there := w.cloud.Machine(second); there {
			t.Error("the one that nobody waits for is still there")
		}
		if _, there := w.cloud.Machine(first); !there {
			t.Error("S20: the other one did not wait for its drain")
		}
		w.settle(5 * time.Minute)
		w.converged(1)
	})
}

// TestA3_NamedWhileItLeaves: a machine that leaves for a reason of its own takes its
// place along if a caller wants that; one that a size has cost already does not take
// another.
func TestA3_NamedWhileItLeaves(t *testing.T) {
	inWorld(t, worldOptions{Drain: "5m"}, func(t *testing.T, w *world) {
		w.coordinate("default")
		w.scale(web, 3)
		w.settle(time.Minute)
		leaving := w.vms(web)[0].InstanceID
		w.deleteInstance(leaving.String(), false)
		w.settle(time.Minute)
		w.name(leaving, false)
		w.name(leaving, true)
		w.settle(time.Minute)
		if got := w.sizeOf(web); got != 2 {
			t.Errorf("size %d, want 2", got)
		}
		w.scale(web, 1)
		w.settle(time.Second)
		for _, in := range w.members(web) {
			if in.State.Leaving() {
				w.name(in.ID, true)
			}
		}
		w.settle(6 * time.Minute)
		w.converged(1)
		if got := w.sizeOf(web); got != 1 {
			t.Errorf("size %d, want 1", got)
		}
	})
}

// TestS5_NamedInTheMiddleOfARotation: the machine goes, and so does the replacement
// that is still on its way.
func TestS5_NamedInTheMiddleOfARotation(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(time.Minute)
		w.dead.Store(true) // for now nobody registers
		w.reconfigure(large(w.opts))
		w.settle(30 * time.Second)
		oldest := w.vms(web)[0].InstanceID
		w.name(oldest, false)
		w.settle(10 * time.Second)
		if _, there := w.cloud.Machine(oldest); there {
			t.Error("the named machine is still there")
		}
		if n := len(w.vms(web)); n > 3 || w.sizeOf(web) != 2 {
			t.Errorf("%d machines, size %d", n, w.sizeOf(web))
		}
		w.dead.Store(false)
		w.settle(10 * time.Minute)
		w.wantTypes("large", "large")
		w.converged(2)
	})
}

// TestS20_SkippedDrainDoesNotOutliveAPause: that a machine has no work is true when it is
// said. A Node that joins while the group is paused is drained.
func TestS20_SkippedDrainDoesNotOutliveAPause(t *testing.T) {
	for _, c := range []struct {
		name   string
		paused time.Duration
		stays  bool
	}{
		{"a pause that is over soon", 30 * time.Second, false},
		{"a long one", time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, worldOptions{Drain: "5m"}, func(t *testing.T, w *world) {
				w.coordinate("default")
				w.scale(web, 2)
				w.settle(time.Minute)
				id := w.vms(web)[0].InstanceID
				w.pauseScope("group", "web", 0)
				w.name(id, true)
				w.settle(c.paused)
				w.resume("group", "web")
				w.settle(time.Minute)
				if _, there := w.cloud.Machine(id); there != c.stays {
					t.Errorf("there a minute after the pause: %v, want %v", there, c.stays)
				}
				if c.stays {
					w.name(id, true) // said again, it counts again
					w.settle(10 * time.Second)
				}
				w.converged(1)
			})
		})
	}
}
