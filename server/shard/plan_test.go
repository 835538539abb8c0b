package shard

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
	"nstance.dev/server/whatif"
)

func TestPlanConfigSaysWhatAConfigurationDoes(t *testing.T) {
	before := worldOptions{Groups: `{
		"default": {
			"web": {"template": "plain", "size": 2}, "other": {"template": "plain", "size": 3},
			"same": {"template": "plain", "size": 1}, "kept": {"template": "plain", "size": 1},
		},
	}`}
	after := before
	after.Groups = `{
		"default": {
			"web": {"template": "plain", "size": 3, "instance_type": "large"},
			"same": {"template": "plain", "size": 1}, "new": {"template": "plain", "size": 2},
		},
		"b": {"web": {"template": "plain", "vars": {"a": "b"}}},
	}`
	inWorld(t, before, func(t *testing.T, w *world) {
		w.scale(theirs, 2)
		w.settle(time.Minute)
		size := 2
		if _, err := w.term().requests.UpsertGroup(w.ctx, "default", "kept", requests.GroupChange{Size: &size}, nil); err != nil {
			t.Fatal(err)
		}
		w.settle(5 * time.Minute)
		calls := w.changes()
		kept := fleet.GroupID{Tenant: "default", Name: "kept"}
		if _, err := w.term().requests.SetPause(w.ctx, "b", groupfile.Pause{Scope: "tenant", Reason: "work"}); err != nil {
			t.Fatal(err)
		}
		stored := w.groupFile()
		key := func(tenant, group string) document.GroupKey { return document.GroupKey{Tenant: tenant, Group: group} }
		want := ConfigPlan{
			Groups: []whatif.Plan{
				{Key: key("b", "web"), Change: "changed", Pushes: 2, Causes: []string{"vars", "static"}},
				{Key: key("default", "kept"), Change: "changed", Causes: []string{"static"}, Unlocked: true},
				{Key: key("default", "new"), Change: "added", Creates: 2},
				{Key: key("default", "other"), Change: "changed", Causes: []string{"static"}, Unlocked: true},
				{Key: key("default", "web"), Change: "changed", Creates: 1, Rotations: 2, Causes: []string{"size", "instance_type"}},
			},
			Warnings: []string{
				"test.jsonc:5:15: server.secrets: secrets are stored in the clear; set encryption_key",
				"group b/web: the tenant is paused: work; nothing is created or deleted before that ends",
				"group default/kept: " + explain.UnlockedMessage(kept),
				"group default/other: " + explain.UnlockedMessage(other),
			},
		}
		cfg := testConfig(t, after)
		if diff := cmp.Diff(want, w.term().requests.PlanConfig(cfg)); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
		w.settle(5 * time.Minute)
		if n := w.changes() - calls; n != 0 || len(w.members(kept)) != 2 {
			t.Errorf("a plan changed something: %d calls", n)
		}
		if got := w.groupFile(); len(got.Groups) != len(stored.Groups) || len(got.Static) != len(stored.Static) {
			t.Errorf("a plan changed the group file: %+v, before %+v", got, stored)
		}
		// And then it comes so: what was to be created is, and nothing goes.
		if err := w.shard().Apply(w.ctx, config.Version{Config: cfg}); err != nil {
			t.Fatal(err)
		}
		w.settle(10 * time.Second)
		for name, n := range map[string]int{"kept": 2, "new": 2, "other": 3} {
			if got := len(w.members(fleet.GroupID{Tenant: "default", Name: name})); got != n {
				t.Errorf("group %s has %d members, want %d", name, got, n)
			}
		}
	})
}
