package crash

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
)

// The servers of an exercise. Either may lead.
const (
	one = "one"
	two = "two"
)

func other(id string) string {
	if id == one {
		return two
	}
	return one
}

// begin is a world in which the group has its size, the first server leads, and the
// second stands by.
func begin(t *testing.T, storage Storage, size int) *World {
	t.Helper()
	w := New(t, storage, size)
	w.StartServer(one)
	w.Await("the first server leads", func() error { return w.Leads(one) })
	w.StartServer(two)
	w.Settle(size, time.Time{})
	return w
}

// unharmed checks that nothing came or went, and that the same machines run.
func (w *World) unharmed(before []box.Machine, seen box.Sightings) {
	w.t.Helper()
	w.sound(len(before), seen)
	for _, change := range seen.Changes {
		w.t.Errorf("%s, and nothing should have", change)
	}
	if now := w.Machines(); !slices.Equal(now, before) {
		w.t.Errorf("machines are %v, were %v", now, before)
	}
	if err := w.Settled(Group, len(before), time.Time{}); err != nil {
		w.t.Error(err)
	}
}

// sound checks what must hold at every moment: not more machines than that, none
// twice, none that came back.
func (w *World) sound(most int, seen box.Sightings) {
	w.t.Helper()
	if seen.Most > most {
		w.t.Errorf("%d processes at a time, and must be %d at most", seen.Most, most)
	}
	for _, wrong := range seen.Wrong {
		w.t.Error(wrong)
	}
}

// recorded waits until that many instances have a record.
func (w *World) recorded(n int) {
	w.t.Helper()
	w.Await(fmt.Sprintf("%d instances have a record", n), func() error {
		ids, err := w.ListRecords()
		if err == nil && len(ids) < n {
			err = fmt.Errorf("%d have", len(ids))
		}
		return err
	})
}
