package preview_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/config"
	"nstance.dev/server/preview"
)

// group is one of three machines, changed as a case says.
func group(change func(*config.EffectiveGroup)) *config.EffectiveGroup {
	g := &config.EffectiveGroup{Template: "t", Size: 3, InstanceTypes: []string{"small"}, InfraHash: "i1", RuntimeHash: "r1"}
	if change != nil {
		change(g)
	}
	return g
}

func TestOf(t *testing.T) {
	web := config.GroupKey{Tenant: "default", Group: "web"}
	three := []preview.Machine{{InfraHash: "i1"}, {InfraHash: "i1"}, {InfraHash: "i1"}, {OnDemand: true, InfraHash: "i0"}}
	for _, test := range []struct {
		name string
		in   preview.Group
		want []preview.Plan
	}{
		{"nothing changes", preview.Group{Before: group(nil), After: group(nil), Actual: 1, Machines: three}, nil},
		{
			"a new group", preview.Group{After: group(nil)},
			[]preview.Plan{{Key: web, Change: "added", Creates: 3}},
		},
		{
			"a group that is gone", preview.Group{Before: group(nil), Actual: 3, Machines: three},
			[]preview.Plan{{Key: web, Change: "removed", Deletes: 3}},
		},
		{
			"a static group that leaves", preview.Group{
				Before: group(func(g *config.EffectiveGroup) { g.Static = true }), After: group(nil), Actual: 3, Machines: three,
			},
			[]preview.Plan{{Key: web, Change: "changed", Causes: []string{"static"}, Unlocked: true}},
		},
		{
			"a larger size", preview.Group{Before: group(nil), After: group(func(g *config.EffectiveGroup) { g.Size = 5 }), Actual: 3, Machines: three},
			[]preview.Plan{{Key: web, Change: "changed", Creates: 2, Causes: []string{"size"}}},
		},
		{
			"everything at once, and smaller",
			preview.Group{Before: group(nil), After: group(func(g *config.EffectiveGroup) {
				g.Size, g.InstanceTypes, g.Vars = 2, []string{"large"}, map[string]string{"a": "b"}
				g.InfraHash, g.RuntimeHash = "i2", "r2"
			}), Actual: 3, Machines: three},
			[]preview.Plan{{
				Key: web, Change: "changed", Deletes: 1, Rotations: 2, Pushes: 1,
				Causes: []string{"size", "instance_type", "vars"},
			}},
		},
		{
			"a certificate, and one machine that was made from what is to be",
			preview.Group{Before: group(nil), After: group(func(g *config.EffectiveGroup) { g.InfraHash, g.RuntimeHash = "i2", "r2" }), Actual: 3,
				Machines: []preview.Machine{{InfraHash: "i2"}, {InfraHash: "i1"}, {InfraHash: "i1"}}},
			[]preview.Plan{{Key: web, Change: "changed", Rotations: 2, Pushes: 1, Causes: []string{"certificates"}}},
		},
		{
			"a template that goes away",
			preview.Group{Before: group(nil), After: &config.EffectiveGroup{Held: "template \"t\" is not configured"}, Actual: 3, Machines: three},
			[]preview.Plan{{Key: web, Change: "changed", Held: "template \"t\" is not configured"}},
		},
	} {
		test.in.Key = web
		if diff := cmp.Diff(test.want, preview.Of([]preview.Group{test.in})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestOfIsSorted(t *testing.T) {
	var groups []preview.Group
	for _, key := range []config.GroupKey{{Tenant: "b", Group: "a"}, {Tenant: "a", Group: "z"}, {Tenant: "a", Group: "b"}} {
		groups = append(groups, preview.Group{Key: key, After: group(nil)})
	}
	var got []string
	for _, p := range preview.Of(groups) {
		got = append(got, p.Key.String())
	}
	if diff := cmp.Diff([]string{"a/b", "a/z", "b/a"}, got); diff != "" {
		t.Error(diff)
	}
}
