package shard

import (
	"testing"
	"time"

	"nstance.dev/server/driver/drivertest"
)

// Many creates whose answers are lost are cleared up by one listing and one Get
// for each, not by listing over and over.
func TestS21_ManyUnclearCreatesCostFewQuestions(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		const size = 40
		w.cloud.SetFaults(drivertest.Times(size, drivertest.OpCreate, drivertest.Fault{Before: drivertest.LostAnswer().After}))
		w.scale(web, size)
		w.settle(10 * time.Minute)
		w.converged(size)
		if lists, most := w.count(drivertest.OpList), 60; lists > most {
			t.Errorf("%d listings in ten minutes, want at most %d", lists, most)
		}
		if gets, most := w.count(drivertest.OpGet), 4*size; gets > most {
			t.Errorf("%d Gets for %d instances, want at most %d", gets, size, most)
		}
	})
}

// TestS6_AnAbsenceCountsAsOfItsQuestion: a Get and a listing that are asked while the create
// is under way lack the machine, and the Get is answered long after that. The machine is
// there all the same.
func TestS6_AnAbsenceCountsAsOfItsQuestion(t *testing.T) {
	rows := map[string]drivertest.Faults{
		"a slow Get": drivertest.Any(
			drivertest.Always(drivertest.OpGet, drivertest.Fault{Linger: 4 * time.Second}),
			drivertest.Always(drivertest.OpCreate, drivertest.Fault{Latency: 4 * time.Second}),
		),
		"a slow listing": drivertest.Any(
			drivertest.Always(drivertest.OpList, drivertest.Fault{Linger: 4 * time.Second}),
			drivertest.Always(drivertest.OpCreate, drivertest.Fault{Latency: 4 * time.Second}),
		),
		"a slow create": drivertest.Always(drivertest.OpCreate, drivertest.Fault{Latency: 4 * time.Second}),
	}
	for name, faults := range rows {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: drivertest.Conditions{BootTime: time.Minute}}}, func(t *testing.T, w *world) {
				w.cloud.SetFaults(faults)
				w.scale(web, 1)
				w.settle(2 * time.Second)
				id := w.members(web)[0].ID
				w.term().planner.liveness.AskSoon(id)
				w.term().planner.collector.Soon()
				w.settle(30 * time.Second)
				w.cloud.SetFaults(nil)
				w.settle(10 * time.Minute)
				w.converged(1)
				if n := w.cloud.Created(); n != 1 {
					t.Errorf("%d machines were made, want 1: the first was there all the time", n)
				}
			})
		})
	}
}
