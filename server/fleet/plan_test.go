package fleet_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

const poolSize = 12

// Ages of the worlds that are drawn: what is new stays young until the end.
const (
	eligibleAge = 150 * time.Minute
	forcedAge   = 270 * time.Minute
)

func poolID(i int) identity.ID { return identity.ID(fmt.Sprintf("i%02d", i)) }

// drawInstance draws any instance at all, sensible or not.
func drawInstance(t *rapid.T, id identity.ID) fleet.Instance {
	in := fleet.Instance{
		ID:       id,
		Group:    web,
		OnDemand: rapid.IntRange(0, 5).Draw(t, "on demand") == 0,
		State:    rapid.SampledFrom(fleet.States()).Draw(t, "state"),
		Power:    fleet.Power(rapid.IntRange(0, 4).Draw(t, "power")),
		Created:  epoch.Add(-time.Duration(rapid.IntRange(0, 5).Draw(t, "age")) * time.Hour),

		InfraHash: rapid.SampledFrom([]string{"new", "old", ""}).Draw(t, "hash"),
	}
	if rapid.Bool().Draw(t, "replaced") {
		in.Replacement = poolID(rapid.IntRange(0, poolSize).Draw(t, "replacement"))
	}
	reasons := []fleet.Reason{
		fleet.ReasonUnhealthy, fleet.ReasonNotFound, fleet.ReasonRegistrationTimeout, fleet.ReasonAbandoned, fleet.ReasonScaleDown,
	}
	if in.State.Registered() {
		drawNews(t, &in)
	}
	if rapid.IntRange(0, 5).Draw(t, "condemning") == 0 {
		in.Condemning = rapid.SampledFrom(append(reasons, fleet.ReasonExpired, fleet.ReasonForcedExpiry, fleet.ReasonGroupDeleted)).Draw(t, "for")
		in.Writing = rapid.Bool().Draw(t, "writing")
	}
	switch {
	case in.State.Sick():
		in.Verdict = rapid.SampledFrom(reasons[:4]).Draw(t, "verdict")
	case in.State.Leaving():
		in.Removal.Reason = rapid.SampledFrom(reasons).Draw(t, "reason")
		if in.State == fleet.Draining || rapid.Bool().Draw(t, "drains") {
			in.Removal.DeleteAt = epoch.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "delete at")) * time.Minute)
			in.Removal.Acked = rapid.Bool().Draw(t, "acked")
		}
	}
	return in
}

// drawNews draws what was heard of a registered instance, and of what is wanted of it.
func drawNews(t *rapid.T, in *fleet.Instance) {
	in.Reported = rapid.Bool().Draw(t, "proved")
	in.ReplaceFirst = !in.OnDemand && rapid.IntRange(0, 5).Draw(t, "replace first") == 0
	if in.Reported && rapid.IntRange(0, 3).Draw(t, "taken back") == 0 {
		in.Notice = fleet.Notice{Action: "stop", Deadline: epoch.Add(time.Duration(rapid.IntRange(-1, 3).Draw(t, "deadline")) * time.Minute)}
	}
}

func drawWorld(t *rapid.T) *world {
	w := &world{now: epoch, view: fleet.View{
		Group: fleet.Group{
			ID:           web,
			Size:         rapid.IntRange(0, 8).Draw(t, "size"),
			Deleted:      rapid.IntRange(0, 4).Draw(t, "deleted") == 0,
			DrainTimeout: time.Duration(rapid.IntRange(0, 2).Draw(t, "drain")) * time.Minute,
			InfraHash:    "new",
		},
		Aging:            fleet.Aging{Eligible: eligibleAge, Forced: forcedAge, OnDemand: 24 * time.Hour},
		DrainCoordinated: rapid.Bool().Draw(t, "coordinated"),
		Deletes:          rapid.IntRange(-1, 3).Draw(t, "deletes"),
		MaxRepairs:       rapid.IntRange(0, 3).Draw(t, "repairs"),
	}}
	for i := range rapid.IntRange(0, poolSize).Draw(t, "instances") {
		w.view.Instances = append(w.view.Instances, drawInstance(t, poolID(i)))
	}
	if rapid.Bool().Draw(t, "named") {
		w.view.Group.Retired = []fleet.Retired{{ID: poolID(rapid.IntRange(0, poolSize).Draw(t, "retired"))}}
	}
	return w
}

func drawGate(t *rapid.T, v *fleet.View) {
	if rapid.Bool().Draw(t, "blocked") {
		v.CreatesBlocked = fleet.Block{Why: "back-off", Until: epoch.Add(time.Minute)}
	}
	if rapid.Bool().Draw(t, "losses bound") {
		v.Losses = fleet.Budget{Limited: true, Left: rapid.IntRange(0, 2).Draw(t, "losses")}
	}
}

func TestPlanIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		drawGate(t, &w.view)
		before := slices.Clone(w.view.Instances)
		want := w.plan()
		if diff := cmp.Diff(before, w.view.Instances); diff != "" {
			t.Fatalf("the plan changed its input:\n%s", diff)
		}
		w.view.Instances = rapid.Permutation(w.view.Instances).Draw(t, "order")
		if diff := cmp.Diff(want, w.plan()); diff != "" {
			t.Fatalf("the order of the instances shows:\n%s", diff)
		}
	})
}

// TestL1_Converges: from any state, an executor that never fails brings the
// group to its size, and then there is nothing to do. Nothing that a plan may
// not do happens on the way.
func TestL1_Converges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range 400 {
			d := w.plan()
			check(t, w, d)
			// F13: the executor may die after any action.
			done := d.Actions
			if len(done) > 0 && rapid.IntRange(0, 3).Draw(t, "crash") == 0 {
				done = done[:rapid.IntRange(1, len(done)).Draw(t, "done")]
			}
			for _, a := range done {
				w.carryOut(t, a)
			}
			if len(done) == 0 {
				if w.settled() {
					return
				}
				w.progress()
				w.now = w.now.Add(time.Minute)
				w.view.Deletes = max(1, w.view.Deletes)
			}
		}
		t.Fatalf("no end: %+v\n%+v", w.view, w.plan())
	})
}

// settled reports whether the group is as it should be, for good.
func (w *world) settled() bool {
	d := w.plan()
	if len(d.Actions) > 0 || len(d.Notes) > 0 {
		return false
	}
	if d.Wake.Before(w.now.Add(time.Minute)) && !d.Wake.IsZero() {
		return false
	}
	running := 0
	for _, in := range w.view.Instances {
		switch {
		case in.State.Leaving() || in.State.Sick():
			return false
		case !in.OnDemand && in.State == fleet.Running:
			running++
		case in.State.Live() && in.State != fleet.Running:
			return false
		}
	}
	return running == w.view.Group.Desired()
}

// check holds a plan against the rules that no plan may break.
func check(t *rapid.T, w *world, d fleet.Decision) {
	g := w.view.Group
	live, repairs := w.live(), 0
	for _, a := range d.Actions {
		switch a := a.(type) {
		case fleet.Create:
			checkCreate(t, w, a)
			live++
		case fleet.Condemn:
			in := w.find(a.ID)
			if in.State.Live() && !in.OnDemand {
				live--
			}
			if checkCondemn(t, w, in, a) {
				repairs++
			}
		case fleet.Delete:
			in := w.find(a.ID)
			skipped := slices.Contains(w.view.Group.Retired, fleet.Retired{ID: in.ID, SkipDrain: true})
			early := in.Power == fleet.Up && !in.Removal.Acked && !skipped && w.now.Before(in.Removal.DeleteAt)
			if in.State != fleet.Condemned && in.State != fleet.Draining || early {
				t.Fatalf("S20: %s of %+v", a, in)
			}
		}
	}
	if limit := max(1, g.Size/10, w.view.MaxRepairs); repairs > limit {
		t.Fatalf("S8: %d repairs at once, at most %d", repairs, limit)
	}
	if live > max(g.Desired()+w.making(), w.live()) {
		t.Fatalf("S5: %d live after the plan, desired %d: %v", live, g.Desired(), d.Actions)
	}
}

// making counts the machines that a group may have beyond its size: one for each that
// makes room while it still runs.
func (w *world) making() int {
	n := 0
	for _, in := range w.view.Instances {
		if in.State.Live() && (in.Notice.Given() || in.ReplaceFirst || !in.Reported || w.tooOld(&in) || in.Replacement != "" && w.outdated(&in)) {
			n++
		}
	}
	return n + 1 // for rotation
}

func (w *world) tooOld(in *fleet.Instance) bool { return !w.now.Before(in.Created.Add(forcedAge)) }

// outdated reports whether in may be replaced at a good moment.
func (w *world) outdated(in *fleet.Instance) bool {
	return in.InfraHash == "old" || !w.now.Before(in.Created.Add(eligibleAge))
}

// quiet reports whether the group has what it should have, and nothing else.
func (w *world) quiet() bool {
	running := 0
	for _, in := range w.view.Instances {
		switch {
		case in.OnDemand || in.State == fleet.Deleted:
		case in.State != fleet.Running || !in.Reported || in.Notice.Given() || in.ReplaceFirst:
			return false
		default:
			running++
		}
	}
	return running == w.view.Group.Desired()
}

func checkCreate(t *rapid.T, w *world, a fleet.Create) {
	if w.view.Group.Deleted {
		t.Fatalf("create in a deleted group: %s", a)
	}
	if a.Replaces == "" {
		return
	}
	switch in := w.find(a.Replaces); {
	case in.OnDemand:
		t.Fatalf("%s, which is on demand", a)
	case in.State.Sick(), in.Notice.Given(), in.ReplaceFirst:
	case !w.outdated(in):
		t.Fatalf("%s, which is %s", a, in.State)
	case !w.tooOld(in) && !w.quiet():
		t.Fatalf("S8: %s, in a group that is not settled", a)
	}
}

// checkCondemn reports whether a is the repair of a machine that still runs.
func checkCondemn(t *rapid.T, w *world, in *fleet.Instance, a fleet.Condemn) bool {
	bySize := a.Reason == fleet.ReasonScaleDown || a.Reason == fleet.ReasonGroupDeleted || a.Reason == fleet.ReasonRequested
	switch {
	case in.State.Leaving() || in.State == fleet.Deleted:
		t.Fatalf("%s is %s already", a, in.State)
	case in.Condemning != "" && a.Reason != in.Condemning:
		t.Fatalf("S6: %s, which may be condemned as %s", a, in.Condemning)
	case in.Condemning != "":
		return false // it was checked when it was decided
	case bySize && in.OnDemand:
		t.Fatalf("an on-demand instance pays for a size: %s", a)
	case in.State.Live() && a.Why == "its replacement is there" && !in.Notice.Given() && !w.followed(in):
		t.Fatalf("S7: %s before its replacement has reported", a)
	case bySize:
		return false
	case a.Reason == fleet.ReasonConfigDrift || a.Reason == fleet.ReasonExpired || a.Reason == fleet.ReasonForcedExpiry:
		if !w.outdated(in) || !w.followed(in) {
			t.Fatalf("S6, S7: %s, which is not outdated or has no replacement that works", a)
		}
		return false
	case a.Reason == fleet.ReasonSpotTermination:
		if !in.Notice.Given() {
			t.Fatalf("S6: nobody takes it back: %s", a)
		}
		return false
	case !in.State.Sick():
		t.Fatalf("a well instance is condemned: %s", a)
	case a.Reason == fleet.ReasonRegistrationTimeout || a.Reason == fleet.ReasonAbandoned || in.Power != fleet.Up:
		return false
	case !in.OnDemand && !w.replaced(in):
		t.Fatalf("S7: %s before its replacement exists", a)
	}
	return true
}

// followed reports whether a replacement of in has reported.
func (w *world) followed(in *fleet.Instance) bool {
	for range w.view.Instances {
		if in = w.find(in.Replacement); in == nil {
			return false
		}
		if in.State.Registered() && in.Reported {
			return true
		}
	}
	return false
}

// replaced reports whether a live instance that has a VM stands among the
// replacements of in.
func (w *world) replaced(in *fleet.Instance) bool {
	for range w.view.Instances {
		if in = w.find(in.Replacement); in == nil {
			return false
		}
		if in.State.Live() && in.State != fleet.Pending {
			return true
		}
	}
	return false
}

// TestS8_DeletedGroupWithinBound: of a deleted group no more machines that may run
// are condemned than the shard and the group itself allow, on-demand ones never.
func TestS8_DeletedGroupWithinBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.view.Group.Deleted, w.view.Group.Retired = true, nil
		w.view.Deletes = rapid.IntRange(0, 3).Draw(t, "deletes")
		most := w.view.Deletes
		if rapid.Bool().Draw(t, "a bound of its own") {
			w.view.OwnDeletes = fleet.Budget{Limited: true, Left: rapid.IntRange(0, 3).Draw(t, "own deletes")}
			most = min(most, w.view.OwnDeletes.Left)
		}
		n := 0
		for _, a := range w.plan().Actions {
			if c, ok := a.(fleet.Condemn); ok && c.Reason == fleet.ReasonGroupDeleted && w.find(c.ID).MayRun() {
				n++
			}
		}
		if n > most {
			t.Fatalf("%d condemned, %d allowed", n, most)
		}
	})
}

func TestHeldGroupKeepsStill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.view.Group.Blocked = "paused"
		for _, a := range w.plan().Actions {
			if _, ok := a.(fleet.Delete); !ok {
				t.Fatalf("a held group does %s", a)
			}
		}
	})
}

func TestS20_NewRemoval(t *testing.T) {
	up := fleet.Instance{Power: fleet.Up}
	g := fleet.Group{DrainTimeout: time.Minute}
	for _, c := range []struct {
		name        string
		g           fleet.Group
		coordinated bool
		in          fleet.Instance
		reason      fleet.Reason
		drains      bool
	}{
		{"a running machine of a group that drains", g, true, up, fleet.ReasonUnhealthy, true},
		{"no drain timeout", fleet.Group{}, true, up, fleet.ReasonUnhealthy, false},
		{"nobody to drain", g, false, up, fleet.ReasonUnhealthy, false},
		{"a stopped machine", g, true, fleet.Instance{Power: fleet.Down}, fleet.ReasonUnhealthy, false},
		{"a machine that is gone", g, true, fleet.Instance{Power: fleet.Gone}, fleet.ReasonNotFound, false},
		{"no machine yet", g, true, fleet.Instance{}, fleet.ReasonScaleDown, false},
		{"never joined", g, true, up, fleet.ReasonRegistrationTimeout, false},
		{"asked for by a caller", g, true, up, fleet.ReasonRequested, true},
		{"taken back later than the drain would end", g, true, takenBack(2 * time.Minute), fleet.ReasonSpotTermination, true},
		{"taken back, nobody knows when", g, true, fleet.Instance{Power: fleet.Up, Notice: fleet.Notice{Action: "stop"}}, fleet.ReasonSpotTermination, true},
		{"to be taken back some time ago", g, true, takenBack(-time.Second), fleet.ReasonSpotTermination, false},
	} {
		want := fleet.Removal{Reason: c.reason, RequestedAt: epoch}
		if c.drains {
			want.DrainStarted, want.DeleteAt = epoch, epoch.Add(time.Minute)
		}
		if got := fleet.NewRemoval(c.g, c.coordinated, c.in, c.reason, epoch); got != want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, want)
		}
	}
}

func takenBack(in time.Duration) fleet.Instance {
	return fleet.Instance{Power: fleet.Up, Notice: fleet.Notice{Action: "terminate", Deadline: epoch.Add(in)}}
}

// TestF34_DrainEndsWithTheMachine: there is nothing to wait for once the provider
// has taken the VM.
func TestF34_DrainEndsWithTheMachine(t *testing.T) {
	g := fleet.Group{DrainTimeout: time.Minute}
	want := fleet.Removal{Reason: fleet.ReasonSpotTermination, RequestedAt: epoch, DrainStarted: epoch, DeleteAt: epoch.Add(20 * time.Second)}
	if got := fleet.NewRemoval(g, true, takenBack(20*time.Second), fleet.ReasonSpotTermination, epoch); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestS20_DrainSurvivesTakeOver: to a new leader every VM is unknown for a
// moment; that ends no drain.
func TestS20_DrainSurvivesTakeOver(t *testing.T) {
	for _, state := range []fleet.State{fleet.Condemned, fleet.Draining} {
		end := epoch.Add(time.Minute)
		v := fleet.View{Group: fleet.Group{ID: web}, Instances: []fleet.Instance{{
			ID: "a", Group: web, State: state, Power: fleet.NoVM,
			Removal: fleet.Removal{Reason: fleet.ReasonScaleDown, DeleteAt: end},
		}}}
		if d := fleet.Plan(v, epoch); len(d.Actions) != 0 || !d.Wake.Equal(end) {
			t.Errorf("%s: before its end %+v", state, d)
		}
		want := []fleet.Action{fleet.Delete{ID: "a", Reason: fleet.ReasonScaleDown, Why: "the drain has timed out"}}
		if d := fleet.Plan(v, end); !slices.Equal(d.Actions, want) {
			t.Errorf("%s: at its end %v", state, d.Actions)
		}
	}
}

// TestS20_SkippedLater: a caller who does not want to wait may say so when the drain
// has begun, at the same moment too.
func TestS20_SkippedLater(t *testing.T) {
	leaving := fleet.Instance{
		ID: "a", Group: web, State: fleet.Draining, Power: fleet.Up,
		Removal: fleet.Removal{Reason: fleet.ReasonRequested, DeleteAt: epoch.Add(time.Minute)},
	}
	skipped := leaving
	skipped.SkipDrain = true
	named := []fleet.Retired{{ID: "a", SkipDrain: true}}
	for _, c := range []struct {
		name    string
		in      fleet.Instance
		retired []fleet.Retired
		want    int
	}{
		{"nobody skips it", leaving, []fleet.Retired{{ID: "a"}, {ID: "b", SkipDrain: true}}, 0},
		{"with a smaller size", leaving, named, 1},
		{"with a replacement", skipped, nil, 1},
	} {
		v := fleet.View{Group: fleet.Group{ID: web, Retired: c.retired}, Instances: []fleet.Instance{c.in}}
		if d := fleet.Plan(v, epoch); len(d.Actions) != c.want {
			t.Errorf("%s: %v, want %d deletes", c.name, d.Actions, c.want)
		}
	}
}

func TestPlanOverlooksOtherGroups(t *testing.T) {
	v := fleet.View{Group: fleet.Group{ID: web}, Instances: []fleet.Instance{
		{ID: "a", Group: fleet.GroupID{Tenant: "other", Name: "web"}, State: fleet.Running, Power: fleet.Up},
	}}
	if d := fleet.Plan(v, epoch); len(d.Actions) != 0 || d.Counts != (fleet.Counts{}) {
		t.Errorf("%+v", d)
	}
}
