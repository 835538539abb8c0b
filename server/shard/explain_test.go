package shard

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
	"nstance.dev/server/refusal"
)

// asked is an explanation of a group.
func (w *world) asked(group fleet.GroupID) Explanation {
	w.t.Helper()
	out, err := w.term().requests.ExplainGroup(group.Tenant, group.Name)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// essence is what a decision is about, whenever it is made and whatever holds it.
func essence(all []explain.Decision) []string {
	out := make([]string, len(all))
	for i, d := range all {
		out[i] = strings.Join([]string{d.Action, d.Instance.String(), d.Why()}, "|")
	}
	return out
}

func types(all []explain.Condition) []string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.Type
	}
	return out
}

// What an explanation says would be next is what the server then does: it is
// held by a pause here, so that there is time to ask, and then let go.
func TestS23_ExplainedNextIsWhatIsDoneNext(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*world)
		want   []string // conditions, those of instances left out
	}{
		{"more", func(w *world) { w.scale(web, 5) }, []string{"paused", "scaling"}},
		{"fewer", func(w *world) { w.scale(web, 1) }, []string{"paused", "scaling"}},
		{"one is dead", func(w *world) { w.cloud.Kill(w.vms(web)[0].InstanceID) }, []string{"paused", "scaling", "sick"}},
		{"one is dead, and more", func(w *world) {
			w.cloud.Kill(w.vms(web)[1].InstanceID)
			w.scale(web, 4)
		}, []string{"paused", "scaling", "sick"}},
		{"the group is deleted", func(w *world) {
			if err := w.term().requests.DeleteGroup(w.ctx, web.Tenant, web.Name, groups.Manager{}); err != nil {
				w.t.Error(err)
			}
		}, []string{"paused", "scaling", "deleting"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				// Deletes take a while, so that a group that goes can still be asked about.
				w.cloud.SetFaults(drivertest.Always(drivertest.OpDelete, drivertest.Fault{Latency: time.Second}))
				w.scale(web, 3)
				w.settle(5 * time.Minute)
				w.pauseScope("group", "web", 0)
				test.change(w)
				w.settle(5 * time.Minute)
				told := w.asked(web)
				if got := types(told.Group.Conditions); !slices.Equal(got, test.want) {
					t.Errorf("conditions %q, want %q", got, test.want)
				}
				for _, d := range told.Next {
					if d.BlockedBy != fleet.BlockerPaused || d.BlockedWhy != "the group is paused: somebody works on it" {
						t.Errorf("next %v is held by %s: %q", d, d.BlockedBy, d.BlockedWhy)
					}
				}
				if len(told.Next) == 0 || !slices.Equal(essence(told.Next[:1]), essence(told.Decisions[:1])) && len(told.Next) == 1 {
					t.Errorf("next %q, last shown %q", essence(told.Next), essence(told.Decisions))
				}
				before := len(told.Decisions)
				w.resume("group", "web")
				w.settle(10 * time.Millisecond)
				done := w.asked(web).Decisions
				slices.Reverse(done) // the oldest first
				done = done[before:]
				if len(done) < len(told.Next) || !slices.Equal(essence(done[:len(told.Next)]), essence(told.Next)) {
					t.Errorf("done %q,\ntold %q", essence(done), essence(told.Next))
				}
			})
		})
	}
}

func TestExplainOfAQuietGroup(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(5 * time.Minute)
		began := time.Now()
		w.settle(time.Hour)
		told := w.asked(web)
		if len(told.Next) != 0 || len(told.Conditions) != 1 || told.Conditions[0].Type != "at-size" || told.Conditions[0].Message != "2 of 2 run" {
			t.Errorf("next %v, conditions %v", told.Next, told.Conditions)
		}
		if since := told.Conditions[0].Since; !since.Before(began) {
			t.Errorf("at size since %v, which was before %v", since, began)
		}
		if len(told.Decisions) != 1 || told.Decisions[0].Why() != "0 of 2; 2 at once" {
			t.Errorf("decisions %v", told.Decisions)
		}
		for _, g := range w.term().planner.status.ListGroups("default") {
			if got := types(g.Conditions); !slices.Equal(got, []string{"at-size"}) {
				t.Errorf("listed conditions %q", got)
			}
		}
	})
}

func TestExplainOfAnInstance(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(5 * time.Minute)
		w.pauseScope("shard", "", 0)
		dead, fine := w.members(web)[0].ID, w.members(web)[1].ID
		w.cloud.Kill(dead)
		w.settle(5 * time.Minute)
		ask := func(id string) Explanation {
			out, err := w.term().requests.ExplainInstance("default", id)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		told := ask(dead.String())
		if got := types(told.Conditions); !slices.Equal(got, []string{"paused", "scaling", "sick", "unhealthy"}) {
			t.Errorf("conditions %q", got)
		}
		if len(told.Next) != 1 || told.Next[0].Action != "create" || told.Next[0].Instance != dead {
			t.Errorf("next %v", told.Next)
		}
		told = ask(fine.String())
		if told.Instance.Status != "running" || len(told.Next) != 0 || len(told.Decisions) != 0 {
			t.Errorf("the other: %v", told)
		}
	})
}

func TestS12_ExplainKnowsNoOtherTenant(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(theirs, 1)
		w.settle(time.Minute)
		id := w.members(theirs)[0].ID.String()
		if _, err := w.term().requests.ExplainGroup("default", theirs.Name); !refusedWith(err, refusal.NotFound) {
			t.Errorf("S12: the group: %v", err)
		}
		if _, err := w.term().requests.ExplainInstance("default", id); !refusedWith(err, refusal.NotFound) {
			t.Errorf("S12: the instance: %v", err)
		}
	})
}
