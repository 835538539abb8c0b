package shard

import (
	"slices"
	"testing"
	"time"

	"nstance.dev/server/config/requests"
	"nstance.dev/server/fleet"
)

const previousKey = "groups/" + testShard + ".previous.jsonc"

var fixed = fleet.GroupID{Tenant: "default", Name: "fixed"}

// losses are the ways in which a group file is lost.
var losses = map[string]func(*world){
	"missing":                 func(w *world) { w.remove(groupsKey) },
	"missing with its copy":   func(w *world) { w.remove(groupsKey); w.remove(previousKey) },
	"unreadable":              func(w *world) { w.overwrite(groupsKey, `{"v": 1, "groups`) },
	"unreadable, and no copy": func(w *world) { w.overwrite(groupsKey, ""); w.remove(previousKey) },
	"a copy of a lost file":   func(w *world) { w.overwrite(groupsKey, "{"); w.overwrite(previousKey, "}") },
}

// TestF11_LostGroupFileIsRebuilt: from what is left, with type, pool, vars, args and
// sizes, static ones too. Each group waits until its own tenant confirms it; another
// tenant's change does nothing to it, nor does the next leader.
func TestF11_LostGroupFileIsRebuilt(t *testing.T) {
	opts := worldOptions{Groups: `{"default": {"fixed": {"template": "plain", "size": 2}}}`}
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			inWorld(t, opts, func(t *testing.T, w *world) {
				size := 3
				change := requests.GroupChange{
					Template: "plain", Size: &size, InstanceType: "huge", Manager: "uid",
					Vars: map[string]string{"a": "1"}, Args: map[string]any{"k": map[string]any{"n": []any{1.0, true}}},
				}
				if _, err := w.term().requests.UpsertGroup(w.ctx, "default", "web", change, nil); err != nil {
					t.Fatal(err)
				}
				w.resize(fixed, 4)
				w.scale(theirs, 1)
				w.settle(2 * time.Minute)
				w.scale(theirs, 2)
				w.settle(2 * time.Minute)
				before, file := w.vms(web), w.groupFile()
				w.stop()
				lose(w)
				w.lead()
				changes := w.changes()
				w.scale(fleet.GroupID{Tenant: "b", Name: "new"}, 1)
				for range 2 {
					w.settle(time.Hour)
					w.stop()
					w.lead()
				}
				if n := w.changes() - changes; n != 1 {
					t.Errorf("%d creates and deletes, want the one of the new group", n)
				}
				w.cloud.Kill(before[0].InstanceID)
				w.settle(time.Hour)
				if n := w.changes() - changes; n != 1 {
					t.Errorf("%d creates and deletes in groups that nobody has confirmed", n-1)
				}
				for _, id := range []fleet.GroupID{web, fixed, theirs} {
					want, _ := file.Group(id.Tenant, id.Name)
					got, _ := w.groupFile().Group(id.Tenant, id.Name)
					if got.Rebuilt == nil || !w.group(id).Rebuilt {
						t.Errorf("%s: nothing says that it was rebuilt", id)
					}
					if d := w.lastDecision(web); d.BlockedBy != fleet.BlockerRebuilt {
						t.Errorf("the last decision is %+v, want one that waits", d)
					}
					if got.Rebuilt = nil; !got.Equal(want) {
						t.Errorf("%s is rebuilt as %+v, want %+v", id, got, want)
					}
				}
				if _, err := w.term().requests.UpsertGroup(w.ctx, "default", "web", change, nil); err != nil {
					t.Fatal(err)
				}
				w.confirm("default", nil, "fixed")
				w.confirm("b", []string{"web"}, "web")
				w.confirm("b", nil)
				w.settle(5 * time.Minute)
				w.converged(10)
				if got, _ := w.groupFile().Group("default", "web"); got.Rebuilt != nil {
					t.Error("a change by its tenant did not confirm the group")
				}
			})
		})
	}
}

// confirm lets groups go on, and checks which had waited.
func (w *world) confirm(tenant string, keys []string, want ...string) {
	w.t.Helper()
	if got, err := w.term().requests.ConfirmGroups(w.ctx, tenant, keys); err != nil || !slices.Equal(got, want) {
		w.t.Errorf("confirm %s %v: %v, %v, want %v", tenant, keys, got, err, want)
	}
}
