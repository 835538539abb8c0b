package provisioning

import (
	"testing"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
)

// TestL3_AMachineThatLastsForgivesItsGroup, also when it is gone.
func TestL3_AMachineThatLastsForgivesItsGroup(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		failed, _ := w.launch(web)
		row, _ := w.rows.Instance(failed)
		w.FoundSick(row, "it never registered", time.Now())
		id, _ := w.launch(web)
		if _, err := w.instances.Note(id, func(in *cache.Instance) error {
			in.State, in.RegisteredAt = fleet.Running, time.Now()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		w.gate(web)
		if w.FailedLaunch(web) == "" {
			t.Error("a failed launch is forgotten at once")
		}
		pass(5 * time.Minute)
		w.gate(web)
		if _, err := w.instances.Note(id, func(in *cache.Instance) error { in.State = fleet.Deleted; return nil }); err != nil {
			t.Fatal(err)
		}
		w.gate(web)
		if why := w.FailedLaunch(web); why != "" {
			t.Errorf("the last launch failed still: %q", why)
		}
	})
}

// TestL3_WhatAnEditForgetsIsNotTold: an edit comes between a failed launch and
// its report.
func TestL3_WhatAnEditForgetsIsNotTold(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		old, _ := w.launch(web)
		id, _ := w.launch(web)
		if _, err := w.instances.Note(old, func(in *cache.Instance) error {
			in.State, in.Replacement = fleet.Running, id
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		row, _ := w.rows.Instance(id)
		w.FoundSick(row, "it never registered", time.Now())
		w.ReportSick(row, "")
		wantSaid(t, w.said(), "rotation-stopped: ")
		w.FoundSick(row, "it never registered", time.Now())
		w.Edited(web)
		w.ReportSick(row, "")
		wantSaid(t, w.said())
	})
}
