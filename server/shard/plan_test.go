package shard

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/decisions"
	"nstance.dev/server/fleet"
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
		size := int32(2)
		if _, err := w.reign().UpsertGroup(w.ctx, "default", &nstancev1.UpsertGroupRequest{Key: "kept", Config: &nstancev1.GroupConfig{Size: &size}}); err != nil {
			t.Fatal(err)
		}
		w.settle(5 * time.Minute)
		calls := w.changes()
		kept := fleet.GroupID{Tenant: "default", Name: "kept"}
		if _, err := w.reign().SetPause(w.ctx, "b", &nstancev1.SetPauseRequest{Scope: "tenant", Reason: "work"}); err != nil {
			t.Fatal(err)
		}
		stored := w.groupFile()
		want := &nstancev1.PlanConfigResponse{
			Groups: []*nstancev1.GroupPlan{
				{Tenant: "b", Key: "web", Change: "changed", Pushes: 2, Causes: []string{"vars", "static"}},
				{Tenant: "default", Key: "kept", Change: "changed", Causes: []string{"static"}},
				{Tenant: "default", Key: "new", Change: "added", Creates: 2},
				{Tenant: "default", Key: "other", Change: "changed", Causes: []string{"static"}},
				{Tenant: "default", Key: "web", Change: "changed", Creates: 1, Rotations: 2, Causes: []string{"size", "instance_type"}},
			},
			Warnings: []string{
				"test.jsonc:5:15: server.secrets: secrets are stored in the clear; set encryption_key",
				"group b/web: the tenant is paused: work; nothing is created or deleted before that ends",
				"group default/kept: " + decisions.UnlockedMessage(kept),
				"group default/other: " + decisions.UnlockedMessage(other),
			},
		}
		cfg := testConfig(t, after)
		if got := w.reign().PlanConfig(cfg); !proto.Equal(got, want) {
			t.Errorf("plan\n%v\nwant\n%v", got, want)
		}
		w.settle(5 * time.Minute)
		if n := w.changes() - calls; n != 0 || len(w.members(kept)) != 2 {
			t.Errorf("a plan changed something: %d calls", n)
		}
		if got := w.groupFile(); len(got.Groups) != len(stored.Groups) || len(got.Static) != len(stored.Static) {
			t.Errorf("a plan changed the group file: %+v, before %+v", got, stored)
		}
		// And then it comes so: what was to be created is, and nothing goes.
		if err := w.shard().Apply(w.ctx, Static{Config: cfg}); err != nil {
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
