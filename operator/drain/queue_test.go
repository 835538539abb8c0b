package drain

import (
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Turns is the source of the drains whose turn has come.
func (r *Reconciler) Turns() source.Source { return r.queue.source() }

// Changed is told that the shards have news.
func (r *Reconciler) Changed() { r.requestsChanged() }

// Hundreds of drains that wait look at all instances once in a second, and not each for itself.
func TestTheQueueIsLookedAtOnceInASecond(t *testing.T) {
	var q queue
	looks := 0
	look := func() []QueueEntry {
		looks++
		return make([]QueueEntry, looks)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 500 {
		if all, changed := q.get(now.Add(queueAge-1), look); len(all) != 1 || changed != (i == 0) {
			t.Fatalf("%d drains, changed %t", len(all), changed)
		}
	}
	if all, changed := q.get(now.Add(2*queueAge-1), look); looks != 2 || len(all) != 2 || !changed {
		t.Errorf("%d looks in two seconds, %d drains, changed %t", looks, len(all), changed)
	}
	q.expire()
	if all, _ := q.get(now.Add(2*queueAge-1), look); len(all) != 3 {
		t.Errorf("after news of a shard it is not looked at: %d drains", len(all))
	}
	var r Reconciler
	r.Now = func() time.Time { return now }
	r.queue.requested, r.queue.at = []QueueEntry{{Request: Request{Instance: "i1"}}}, now
	r.memory.put("i1", entry{request: Request{Instance: "i1"}})
	if all, _ := r.queueEntries(); len(all) != 1 {
		t.Errorf("a drain that this process works on is counted twice: %v", all)
	}
}

// What a drain does changes the turn of others when it takes up a place or leaves one, or
// becomes more or less urgent, and at no other time: they are not woken for nothing.
func TestO10_WhatChangesTheTurnOfOthers(t *testing.T) {
	in := func(phase Phase, left time.Duration) entry {
		return entry{request: Request{Instance: "a", Deadline: start.Add(left)}, state: State{Phase: phase}}
	}
	for _, tt := range []struct {
		name       string
		before, is entry
		want       bool
	}{
		{"it waits", in(None, time.Hour), in(infrav1.DrainCordoned, time.Hour), true},
		{"it waits on", in(infrav1.DrainCordoned, time.Hour), in(infrav1.DrainCordoned, time.Hour), false},
		{"it may wait longer", in(infrav1.DrainCordoned, time.Hour), in(infrav1.DrainCordoned, 2*time.Hour), true},
		{"it begins", in(infrav1.DrainCordoned, time.Hour), in(infrav1.DrainEvicting, time.Hour), true},
		{"it goes on", in(infrav1.DrainEvicting, time.Hour), in(infrav1.DrainDetaching, time.Hour), false},
		{"it is done", in(infrav1.DrainDetaching, time.Hour), in(infrav1.DrainDone, time.Hour), true},
		{"it is cancelled", in(infrav1.DrainEvicting, time.Hour), in(None, time.Hour), true},
	} {
		var m memory
		m.put("a", tt.before)
		if got := m.put("a", tt.is); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
		if got, want := m.forget("a"), tt.is.turn() != None; got != want {
			t.Errorf("%s, and is forgotten: %t", tt.name, got)
		}
	}
}

func TestO10_Next(t *testing.T) {
	now := start
	all := []QueueEntry{
		{Request{Instance: "never"}, infrav1.DrainCordoned, now},
		{Request{Instance: "soon", Deadline: now.Add(time.Hour)}, infrav1.DrainCordoned, now},
		{Request{Instance: "late", Deadline: now.Add(10 * time.Second)}, infrav1.DrainCordoned, now.Add(-time.Hour)},
		{Request{Instance: "goes"}, infrav1.DrainEvicting, now},
	}
	for limit, want := range [][]string{{"late"}, {"late"}, {"late"}, {"late", "soon"}, {"late", "soon", "never"}} {
		if got := Next(all, limit, now); !slices.Equal(got, want) {
			t.Errorf("%d at once: %v, want %v", limit, got, want)
		}
	}
}
