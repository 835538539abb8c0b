package binding_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"nstance.dev/server/binding"
	"nstance.dev/server/demand"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

var moment = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// in is a record of a registered instance whose binding is in a state; a draining one has left if so
// said.
func in(state layout.BindingState, left bool) *layout.InstanceRecord {
	rec := &layout.InstanceRecord{ID: "knc1", Status: layout.StatusRegistered, RegisteredAt: layout.At(moment)}
	if state == binding.None {
		return rec
	}
	rec.Binding = binding.Intent("acme", demand.Stamp{Priority: 7}, 42, moment)
	rec.Binding.State = state
	if state == layout.BindingDraining {
		rec.Binding.Drain = &layout.Drain{Instruction: "rcl-1"}
		if left {
			rec.Binding.Drain.LeftAt = layout.At(moment)
		}
	}
	return rec
}

// TestE2_EveryMoveOfABinding is the whole table: what each verb does in each state, and that a refused
// one leaves the record alone.
func TestE2_EveryMoveOfABinding(t *testing.T) {
	later := moment.Add(time.Hour)
	verbs := map[string]func(*layout.InstanceRecord) error{
		"intend": func(r *layout.InstanceRecord) error { return binding.Intend(r, "acme", demand.Stamp{}, 1, later) },
		"configure": func(r *layout.InstanceRecord) error {
			return binding.Configure(r, "b1", later)
		},
		"return": func(r *layout.InstanceRecord) error { return binding.Return(r, later) },
		"join":   func(r *layout.InstanceRecord) error { return binding.Join(r, later) },
		"found":  func(r *layout.InstanceRecord) error { return binding.Found(r, "acme", 1, later) },
		"drain":  func(r *layout.InstanceRecord) error { return binding.StartDrain(r, layout.Drain{}, later) },
		"keep":   func(r *layout.InstanceRecord) error { return binding.Keep(r, later) },
		"leave":  func(r *layout.InstanceRecord) error { return binding.Leave(r, later) },
		"free":   binding.Free,
	}
	allowed := map[string]layout.BindingState{
		"none/intend":      layout.BindingIntent,
		"none/found":       layout.BindingBound,
		"intent/configure": layout.BindingConfiguring, "intent/free": binding.None,
		"configuring/join": layout.BindingBound, "configuring/return": layout.BindingIntent, "configuring/free": binding.None,
		"bound/drain":    layout.BindingDraining,
		"draining/keep":  layout.BindingBound,
		"draining/leave": layout.BindingDraining,
		"left/leave":     layout.BindingDraining, "left/free": binding.None,
	}
	seen := 0
	for _, state := range append(binding.States(), "left") {
		for verb, do := range verbs {
			key := fmt.Sprintf("%s/%s", state, verb)
			rec := in(state, false)
			switch state {
			case binding.None:
				key = "none/" + verb
			case "left":
				rec = in(layout.BindingDraining, true)
			}
			before := rec.Binding
			err := do(rec)
			want, ok := allowed[key]
			switch {
			case ok && err != nil:
				t.Errorf("%s: %v", key, err)
			case ok:
				seen++
				if got := stateOf(rec); got != want {
					t.Errorf("%s leads to %q, want %q", key, got, want)
				}
			case !errors.Is(err, binding.ErrMove) || rec.Binding != before:
				t.Errorf("%s: error %v, the binding changed is %t", key, err, rec.Binding != before)
			}
		}
	}
	if seen != len(allowed) {
		t.Errorf("%d of %d moves were made", seen, len(allowed))
	}
}

func stateOf(rec *layout.InstanceRecord) layout.BindingState {
	if rec.Binding == nil {
		return binding.None
	}
	return rec.Binding.State
}

func TestEveryMoveThatIsNotInTheTableIsRefused(t *testing.T) {
	legal := []string{
		"/intent", "/bound", "intent/configuring", "intent/", "configuring/bound", "configuring/intent", "configuring/",
		"bound/draining", "bound/", "draining/bound", "draining/",
	}
	for _, from := range binding.States() {
		for _, to := range binding.States() {
			err := binding.Move(from, to)
			if want := slices.Contains(legal, string(from)+"/"+string(to)); want != (err == nil) || err != nil && !errors.Is(err, binding.ErrMove) {
				t.Errorf("%q to %q: %v", from, to, err)
			}
		}
	}
}

// TestS6_NothingIsBoundThatIsToGo: a condemned or failed instance takes no move.
func TestS6_NothingIsBoundThatIsToGo(t *testing.T) {
	for name, end := range map[string]func(*layout.InstanceRecord){
		"condemned": func(r *layout.InstanceRecord) { r.Deletion = &layout.Deletion{Reason: "unhealthy"} },
		"failed":    func(r *layout.InstanceRecord) { r.Failed = &layout.Failure{Reason: "JoinTimeout"} },
	} {
		for state, do := range map[layout.BindingState]func(*layout.InstanceRecord) error{
			binding.None:              func(r *layout.InstanceRecord) error { return binding.Intend(r, "acme", demand.Stamp{}, 1, moment) },
			layout.BindingIntent:      func(r *layout.InstanceRecord) error { return binding.Configure(r, "b", moment) },
			layout.BindingConfiguring: func(r *layout.InstanceRecord) error { return binding.Join(r, moment) },
			layout.BindingBound:       func(r *layout.InstanceRecord) error { return binding.StartDrain(r, layout.Drain{}, moment) },
			layout.BindingDraining:    func(r *layout.InstanceRecord) error { return binding.Leave(r, moment) },
		} {
			rec := in(state, false)
			end(rec)
			if err := do(rec); !errors.Is(err, binding.ErrMove) {
				t.Errorf("%s and %q: %v", name, state, err)
			}
		}
	}
}

// TestE7_WhatAMachineJoinedStaysKnown when the binding is over, and one that has not registered joins
// nothing.
func TestE7_WhatAMachineJoinedStaysKnown(t *testing.T) {
	rec := in(layout.BindingIntent, false)
	rec.RegisteredAt = layout.Time{}
	if err := binding.Configure(rec, "b1", moment); !errors.Is(err, binding.ErrMove) || rec.Served != "" {
		t.Fatalf("error %v, it served %q", err, rec.Served)
	}
	rec.RegisteredAt = layout.At(moment)
	for _, step := range []func() error{
		func() error { return binding.Configure(rec, "b1", moment) },
		func() error { return binding.Join(rec, moment) },
		func() error { return binding.StartDrain(rec, layout.Drain{Instruction: "rcl"}, moment) },
		func() error { return binding.Leave(rec, moment) },
		func() error { return binding.Free(rec) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if rec.Served != "acme" || rec.Binding != nil {
		t.Errorf("it served %q and has the binding %v", rec.Served, rec.Binding)
	}
}

func TestFailKeepsTheFirstReason(t *testing.T) {
	rec := in(layout.BindingBound, false)
	binding.Fail(rec, "Lost", "", moment)
	binding.Fail(rec, "Other", "", moment)
	if rec.Failed.Reason != "Lost" || rec.Binding != nil {
		t.Errorf("failed for %q with the binding %v", rec.Failed.Reason, rec.Binding)
	}
}

// TestStampsOutliveARestart: what is written is what the next leader reads, and what makes no sense is
// left out alone.
func TestStampsOutliveARestart(t *testing.T) {
	want := demand.Stamp{Need: demand.Key{1, 2, 15: 9}, Group: "g", Priority: -5, Interruption: 4, Reclamation: demand.Pinned}
	b := binding.Intent("acme", want, 7, moment)
	binding.Replace(b, "one,two")
	if got := binding.Replaces(b); got != "one,two" || binding.Replaces(nil) != "" || binding.Replaces(&layout.Binding{}) != "" {
		t.Errorf("it replaces %q", got)
	}
	if got := binding.StampOf(b); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	b.Stamps = b.Stamps.Set("need", "0a").Set("interruption", 200).Set("priority", "much").Set("reclamation", -1)
	if got := binding.StampOf(b); got != (demand.Stamp{Group: "g"}) {
		t.Errorf("%+v out of values that make no sense", got)
	}
	if got := binding.StampOf(nil); got != (demand.Stamp{}) {
		t.Errorf("%+v out of nothing", got)
	}
}

// TestStationOfLifeAndBinding is the table of what both are together.
func TestStationOfLifeAndBinding(t *testing.T) {
	unregistered := func(s layout.BindingState) *layout.InstanceRecord {
		rec := in(s, false)
		rec.RegisteredAt = layout.Time{}
		return rec
	}
	failed := in(layout.BindingBound, false)
	binding.Fail(failed, "JoinTimeout", "", moment)
	gone := in(layout.BindingBound, false)
	gone.Deletion = &layout.Deletion{}
	for _, c := range []struct {
		life fleet.State
		rec  *layout.InstanceRecord
		want binding.Station
	}{
		{fleet.Pending, unregistered(binding.None), binding.Station{State: demand.Creating}},
		{fleet.Provisioning, unregistered(layout.BindingIntent), binding.Station{State: demand.Creating}},
		{fleet.Running, in(binding.None, false), binding.Station{State: demand.Idle}},
		{fleet.Suspect, in(layout.BindingIntent, false), binding.Station{State: demand.Idle}},
		{fleet.Running, in(layout.BindingConfiguring, false), binding.Station{State: demand.Configuring}},
		{fleet.Suspect, in(layout.BindingBound, false), binding.Station{State: demand.Configured}},
		{fleet.Running, in(layout.BindingDraining, true), binding.Station{State: demand.Draining}},
		{fleet.Unhealthy, in(layout.BindingBound, false), binding.Station{State: demand.Configured, Leaving: true}},
		{fleet.Condemned, gone, binding.Station{State: demand.Configured, Leaving: true}},
		{fleet.Deleting, unregistered(layout.BindingIntent), binding.Station{State: demand.Creating, Leaving: true}},
		{fleet.Running, failed, binding.Station{State: demand.Failed}},
		{fleet.Draining, failed, binding.Station{State: demand.Failed, Leaving: true}},
		{fleet.Deleted, gone, binding.Station{State: demand.Speculative}},
	} {
		if got := binding.Of(c.life, c.rec); got != c.want {
			t.Errorf("%s and %q: %+v, want %+v", c.life, stateOf(c.rec), got, c.want)
		}
	}
}
