package shard

import (
	"testing"
	"time"

	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
)

// TestF34_OneReplacementForANotice: it comes with every report, to a new leader too,
// late, and after the machine is gone.
func TestF34_OneReplacementForANotice(t *testing.T) {
	for _, c := range []struct {
		name string
		act  func(w *world, m *machine)
	}{
		{"repeated in every report", func(*world, *machine) {}},
		{"repeated to the next leader", func(w *world, _ *machine) { w.stop(); w.lead() }},
		{"carried out before its deadline", func(w *world, m *machine) { w.cloud.Kill(m.id) }},
		{"from a machine that is gone, over a change of leader", func(w *world, m *machine) {
			w.cloud.Kill(m.id)
			w.stop()
			w.lead()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, worldOptions{Drain: "5m"}, func(t *testing.T, w *world) {
				w.coordinate("default")
				w.scale(web, 3)
				w.settle(time.Minute)
				m := w.machine(w.vms(web)[1].InstanceID)
				m.announce("terminate", 2*time.Minute)
				w.settle(15 * time.Second)
				c.act(w, m)
				w.settle(5 * time.Minute)
				w.converged(3)
				if made := w.cloud.Created(); made != 4 {
					t.Errorf("%d machines were made, want 4", made)
				}
			})
		})
	}
}

// TestP16_NoticeIsActedOnAtOnce: the create goes out with the report, and the drain
// lasts until the deadline.
func TestP16_F34_NoticeIsActedOnAtOnce(t *testing.T) {
	inWorld(t, worldOptions{Drain: "5m"}, func(t *testing.T, w *world) {
		w.coordinate("default")
		w.scale(web, 3)
		w.settle(time.Minute)
		id := w.vms(web)[1].InstanceID
		watch := w.watchInstances("default")
		defer watch.cancel()
		before := w.count(drivertest.OpCreate)
		w.term().planner.liveness.Notice(id, fleet.Notice{Action: "stop", Deadline: time.Now().Add(2 * time.Minute)})
		w.settle(time.Millisecond)
		if sent := w.count(drivertest.OpCreate) - before; sent != 1 {
			t.Errorf("%d creates within a millisecond of the notice, want 1", sent)
		}
		last := watch.events[len(watch.events)-1]
		for _, ev := range watch.events {
			if ev.Instance.ID == id {
				last = ev
			}
		}
		if last.Status != "pending_deletion" || last.Instance.Removal.Reason != fleet.ReasonSpotTermination || time.Until(last.Instance.Removal.DeleteAt) > 2*time.Minute {
			t.Errorf("announced %v, want a removal for spot-termination within two minutes", last)
		}
	})
}

// TestF34_NoticeDuringADrain: a machine drains, for another reason, when the provider
// says that it takes it back. The earlier end counts: it is announced, stands in the
// record, and outlives the leader; a later one changes nothing.
func TestF34_NoticeDuringADrain(t *testing.T) {
	inWorld(t, worldOptions{Drain: "10m"}, func(t *testing.T, w *world) {
		w.coordinate("default")
		w.scale(web, 2)
		w.settle(time.Minute)
		id := w.vms(web)[0].InstanceID
		w.deleteInstance(id.String(), false)
		w.settle(time.Minute)
		watch := w.watchInstances("default")
		defer watch.cancel()
		deadline := time.Now().Add(2 * time.Minute)
		w.machine(id).announce("terminate", 2*time.Minute)
		w.settle(11 * time.Second)
		announced := watch.events[len(watch.events)-1]
		if at := announced.Instance.Removal.DeleteAt; announced.Status != "pending_deletion" || at.Sub(deadline).Abs() > time.Second {
			t.Errorf("announced %v, want an end at %v", announced, deadline)
		}
		w.term().planner.liveness.Notice(id, fleet.Notice{Action: "terminate", Deadline: deadline.Add(time.Minute)})
		_ = w.stop()
		w.lead()
		w.settle(time.Until(deadline) - 10*time.Second)
		if vm, ok := w.cloud.Machine(id); !ok || vm.Status.Down() {
			t.Error("S20: the machine is gone before its drain is over")
		}
		w.settle(15 * time.Second)
		if vm, ok := w.cloud.Machine(id); ok && !vm.Status.Down() {
			t.Errorf("the machine is still %s after the end that the provider has set", vm.Status)
		}
		w.settle(time.Minute)
		w.converged(2)
	})
}
