package fleet_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var web = fleet.GroupID{Tenant: "default", Name: "web"}

// world is a group with an executor and a cloud that never fail. What it does
// between two plans is up to the test.
type world struct {
	t    testing.TB
	view fleet.View
	now  time.Time
	made int
}

// fataler is what rapid's T and testing's TB have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func (w *world) find(id identity.ID) *fleet.Instance {
	for i := range w.view.Instances {
		if w.view.Instances[i].ID == id {
			return &w.view.Instances[i]
		}
	}
	return nil
}

// carryOut does one action as an executor would.
func (w *world) carryOut(t fataler, a fleet.Action) {
	t.Helper()
	switch a := a.(type) {
	case fleet.Create:
		w.made++
		id := identity.ID(fmt.Sprintf("new%d", w.made))
		w.view.Instances = append(w.view.Instances, fleet.Instance{
			ID: id, Group: a.Group, State: fleet.Pending, Created: w.now, InfraHash: w.view.Group.InfraHash,
		})
		if a.Replaces != "" {
			w.find(a.Replaces).Replacement = id
		}
	case fleet.Condemn:
		in := w.find(a.ID)
		w.move(t, in, fleet.EventCondemned)
		in.Removal = fleet.Removal{Reason: a.Reason, RequestedAt: w.now, DeleteAt: a.DeleteAt}
		if a.Drain {
			in.Removal.DrainStarted = w.now
			w.move(t, in, fleet.EventDrainStarted)
		}
	case fleet.ShortenDrain:
		w.find(a.ID).Removal.DeleteAt = a.DeleteAt
	case fleet.Delete:
		w.move(t, w.find(a.ID), fleet.EventDeleteSent)
	default:
		t.Fatalf("unknown action %T", a)
	}
}

func (w *world) move(t fataler, in *fleet.Instance, e fleet.Event) {
	t.Helper()
	next, err := in.State.On(e)
	if err != nil {
		t.Fatalf("%s: %v", in.ID, err)
	}
	in.State = next
}

// progress lets the cloud and the agents catch up: VMs appear, agents register,
// deleted machines go, and writes end: those of condemnations without an answer.
func (w *world) progress() {
	w.view.Instances = slices.DeleteFunc(w.view.Instances, func(in fleet.Instance) bool {
		return in.State == fleet.Deleting
	})
	for i := range w.view.Instances {
		in := &w.view.Instances[i]
		in.Writing = false
		switch in.State {
		case fleet.Pending:
			in.State, in.Power = fleet.Provisioning, fleet.Up
		case fleet.Provisioning, fleet.Running, fleet.Suspect:
			in.State, in.Power, in.Reported = fleet.Running, fleet.Up, true
			if in.RegisteredAt.IsZero() {
				in.RegisteredAt = w.now
			}
		}
	}
}

// live counts the managed instances that are live.
func (w *world) live() int {
	n := 0
	for _, in := range w.view.Instances {
		if in.Group == w.view.Group.ID && !in.OnDemand && in.State.Live() {
			n++
		}
	}
	return n
}

func (w *world) plan() fleet.Decision { return fleet.Plan(w.view, w.now) }
