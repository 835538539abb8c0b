package shard

import (
	"testing"
	"time"

	"nstance.dev/server/driver/drivertest"
)

// Many creates whose answers are lost are cleared up by one listing and one Get
// for each, not by listing over and over.
func TestS21_ManyDoubtfulCreatesCostFewQuestions(t *testing.T) {
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
