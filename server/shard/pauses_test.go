package shard

import (
	"slices"
	"testing"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// pauseScope pauses a scope of the default tenant; zero until: for good.
func (w *world) pauseScope(scope, group string, until time.Duration) {
	w.t.Helper()
	req := groupfile.Pause{Scope: scope, Group: group, Reason: "somebody works on it"}
	if until > 0 {
		req.Until = &document.Time{Time: time.Now().Add(until)}
	}
	if _, err := w.term().requests.SetPause(w.ctx, "default", req); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) resume(scope, group string) {
	w.t.Helper()
	if err := w.term().requests.ClearPause(w.ctx, "default", scope, group); err != nil {
		w.t.Fatal(err)
	}
}

// changes are the creates and deletes that the cloud was asked for so far.
func (w *world) changes() (n int) {
	for _, c := range w.cloud.Calls() {
		if c.Op == drivertest.OpCreate || c.Op == drivertest.OpDelete {
			n++
		}
	}
	return n
}

// lastDecision is the newest decision about a group, but for its moments.
func (w *world) lastDecision(group fleet.GroupID) explain.Decision {
	all := w.term().planner.cache.Decisions(group)
	if len(all) == 0 {
		return explain.Decision{}
	}
	d := all[len(all)-1]
	d.At, d.NotBefore = time.Time{}, time.Time{}
	return d
}

func TestS23_PausedGroupDecidesAndSendsNothing(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(time.Minute)
		w.pauseScope("group", "web", 0)
		before := w.changes()

		w.scale(web, 5)
		w.settle(time.Minute)
		want := explain.Decision{
			Group: web, Action: "create", Reason: "3 of 5", Cause: "size", Count: 2,
			BlockedBy: fleet.BlockerPaused, BlockedWhy: "the group is paused: somebody works on it",
		}
		if got := w.lastDecision(web); got != want {
			t.Errorf("S23: decided %+v,\nwant %+v", got, want)
		}
		victim := w.vms(web)[0]
		w.cloud.Kill(victim.InstanceID)
		w.settle(10 * time.Minute)
		w.scale(web, 1)
		w.settle(time.Hour)
		if n := w.changes() - before; n != 0 {
			t.Errorf("S23: %d creates and deletes were sent while the group was paused", n)
		}
		if rows := w.members(web); slices.ContainsFunc(rows, func(in cache.Instance) bool { return in.State.Leaving() }) {
			t.Errorf("S20: an end was announced that cannot come: %+v", rows)
		}
		w.scale(other, 1)
		w.settle(time.Minute)
		if n := len(w.vms(other)); n != 1 {
			t.Errorf("L7: another group has %d machines, want 1", n)
		}
		w.scale(other, 0)
		w.resume("group", "web")
		w.settle(time.Minute)
		w.converged(1)
	})
}

func TestS23_PauseOutlivesItsLeaderAndEndsByItself(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		w.pauseScope("shard", "", time.Hour)
		w.stop()
		w.lead()
		before := w.changes()
		w.scale(web, 3)
		w.settle(59 * time.Minute)
		if n := w.changes() - before; n != 0 {
			t.Errorf("S23: %d creates and deletes were sent by the next leader", n)
		}
		for _, g := range w.term().planner.status.ListGroups("default") {
			if g.Pause == nil || g.Pause.Scope != "shard" || g.Pause.Reason != "somebody works on it" || g.Pause.Since == nil {
				t.Errorf("group %s shows the pause %v", g.Key, g.Pause)
			}
		}
		w.settle(2 * time.Minute)
		w.converged(3)
	})
}

// What is under way when the pause comes stops at the provider's door: creates
// in the queue and deletes that are repeated.
func TestS23_PauseStopsWhatIsUnderWay(t *testing.T) {
	inWorld(t, worldOptions{Limits: `{"calls": {"rate": 1, "burst": 1}}`}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		w.cloud.SetFaults(drivertest.Always(drivertest.OpDelete, drivertest.Fail(driver.Transient)))
		w.scale(web, 1)
		w.settle(5 * time.Second)
		w.scale(other, 30)
		w.settle(3 * time.Second)
		w.pauseScope("tenant", "", 0)
		w.settle(time.Second) // for what was sent in the very moment
		before := w.changes()
		w.settle(20 * time.Minute)
		if n := w.changes() - before; n != 0 {
			t.Errorf("S23: %d creates and deletes were sent", n)
		}
		w.cloud.SetFaults(nil)
		w.resume("tenant", "")
		w.settle(10 * time.Minute)
		w.converged(31)
	})
}

// Deletes that wait for the end of a pause do not all go out in the moment in which
// it ends.
func TestS21_S23_DeletesGoOnAtTheRateOfTheBucket(t *testing.T) {
	opts := worldOptions{Limits: `{"deletes": {"rate": 0.5, "burst": 1}}`}
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.scale(web, 12)
		w.settle(time.Minute)
		w.scale(web, 0)
		w.settle(time.Second)
		w.pauseScope("group", "web", 0)
		w.settle(10 * time.Minute)
		before := w.count(drivertest.OpDelete)
		w.resume("group", "web")
		w.settle(8 * time.Second)
		if n := w.count(drivertest.OpDelete) - before; n == 0 || n > 6 {
			t.Errorf("S21: %d deletes in the first 8s after the pause, want one every 2s", n)
		}
		w.settle(time.Minute)
		w.converged(0)
	})
}

func TestPauseRefusesWhatIsAskedForByName(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		w.pauseScope("group", "web", 0)
		id := w.members(web)[0].ID.String()
		r := w.term()
		_, err := r.requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: id})
		if !refusedWith(err, refusal.FailedPrecondition) {
			t.Errorf("delete: %v", err)
		}
		_, err = r.requests.CreateInstance(w.ctx, "default", InstanceRequest{Group: "web"})
		if !refusedWith(err, refusal.FailedPrecondition) {
			t.Errorf("create: %v", err)
		}
		// A smaller size is a wish like any other, with a name to it.
		_, err = r.requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: id, DecrementSize: true, SkipDrain: true})
		if err != nil || w.sizeOf(web) != 1 {
			t.Errorf("decrement: %v, size %d", err, w.sizeOf(web))
		}
		w.settle(time.Minute)
		w.converged(2)
		w.resume("group", "web")
		w.settle(time.Minute)
		w.converged(1)
		if left := w.members(web)[0].ID.String(); left == id {
			t.Error("the one that was named is the one that stayed")
		}
	})
}

func TestPauseRequestsAreChecked(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(theirs, 1)
		past := &document.Time{Time: time.Now()}
		for _, test := range []struct {
			req  groupfile.Pause
			code refusal.Code
		}{
			{groupfile.Pause{Scope: "world", Reason: "r"}, refusal.InvalidArgument},
			{groupfile.Pause{Scope: "shard", Group: "web", Reason: "r"}, refusal.InvalidArgument},
			{groupfile.Pause{Scope: "group", Group: "No!", Reason: "r"}, refusal.InvalidArgument},
			{groupfile.Pause{Scope: "group", Group: "web", Reason: "r"}, refusal.NotFound}, // another tenant's
			{groupfile.Pause{Scope: "tenant", Reason: " "}, refusal.InvalidArgument},
			{groupfile.Pause{Scope: "tenant", Reason: string(make([]byte, 501))}, refusal.InvalidArgument},
			{groupfile.Pause{Scope: "tenant", Reason: "r", Until: past}, refusal.InvalidArgument},
		} {
			if _, err := w.term().requests.SetPause(w.ctx, "default", test.req); !refusedWith(err, test.code) {
				t.Errorf("%v: %v, want %v", test.req, err, test.code)
			}
		}
		w.resume("group", "web") // there is none
		if n := len(w.groupFile().Paused); n != 0 {
			t.Errorf("%d pauses are stored", n)
		}
	})
}

// TestS23_LostGroupFileMayHaveHeldAPause: pauses stand in the group file. A leader who
// finds none cannot know that nothing was paused: it decides, says what it lacks, and
// sends nothing in a group until somebody confirms or changes it, or restores the file.
func TestS23_LostGroupFileMayHaveHeldAPause(t *testing.T) {
	static := fleet.GroupID{Tenant: "default", Name: "fixed"}
	opts := worldOptions{Groups: `{"default": {"fixed": {"template": "bare", "size": 2}}}`}
	for name, lose := range map[string]func(*world){
		"missing":    func(w *world) { w.remove(groupsKey) },
		"unreadable": func(w *world) { w.overwrite(groupsKey, "{") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, opts, func(t *testing.T, w *world) {
				w.settle(time.Minute)
				w.pauseScope("shard", "", 0)
				_ = w.stop()
				lose(w)
				w.lead()
				w.settle(time.Minute)
				before := w.changes()
				w.cloud.Kill(w.vms(static)[0].InstanceID)
				w.settle(time.Hour)
				if n := w.changes() - before; n > 0 {
					t.Errorf("%d creates and deletes are sent in a shard that may be paused", n)
				}
				if d := w.lastDecision(static); d.Action != "create" || d.BlockedBy != fleet.BlockerRebuilt {
					t.Errorf("the last decision is %+v, want a create that is held", d)
				}
				_, err := w.term().requests.CreateInstance(w.ctx, "default", InstanceRequest{Group: static.Name})
				if !refusedWith(err, refusal.FailedPrecondition) {
					t.Errorf("an instance asked for by name: %v, want FailedPrecondition", err)
				}
				w.confirm("default", nil, "fixed")
				w.resume("shard", "")
				w.settle(time.Minute)
				w.converged(2)
			})
		})
	}
}
