package whatif_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/whatif"
)

// group is one of three machines, changed as a case says.
func group(change func(*effective.Group)) *effective.Group {
	g := &effective.Group{Template: "t", Size: 3, InstanceTypes: []string{"small"}, InfraHash: "i1", RuntimeHash: "r1"}
	if change != nil {
		change(g)
	}
	return g
}

func TestOf(t *testing.T) {
	web := document.GroupKey{Tenant: "default", Group: "web"}
	three := []whatif.Machine{{InfraHash: "i1"}, {InfraHash: "i1"}, {InfraHash: "i1"}, {OnDemand: true, InfraHash: "i0"}}
	for _, test := range []struct {
		name string
		in   whatif.Group
		want []whatif.Plan
	}{
		{"nothing changes", whatif.Group{Before: group(nil), After: group(nil), Actual: 1, Machines: three}, nil},
		{
			"a new group", whatif.Group{After: group(nil)},
			[]whatif.Plan{{Key: web, Change: "added", Creates: 3}},
		},
		{
			"a group that is gone", whatif.Group{Before: group(nil), Actual: 3, Machines: three},
			[]whatif.Plan{{Key: web, Change: "removed", Deletes: 3}},
		},
		{
			"a static group that leaves", whatif.Group{
				Before: group(func(g *effective.Group) { g.Static = true }), After: group(nil), Actual: 3, Machines: three,
			},
			[]whatif.Plan{{Key: web, Change: "changed", Causes: []string{"static"}, Unlocked: true}},
		},
		{
			"a larger size", whatif.Group{Before: group(nil), After: group(func(g *effective.Group) { g.Size = 5 }), Actual: 3, Machines: three},
			[]whatif.Plan{{Key: web, Change: "changed", Creates: 2, Causes: []string{"size"}}},
		},
		{
			"everything at once, and smaller",
			whatif.Group{Before: group(nil), After: group(func(g *effective.Group) {
				g.Size, g.InstanceTypes, g.Vars = 2, []string{"large"}, map[string]string{"a": "b"}
				g.InfraHash, g.RuntimeHash = "i2", "r2"
			}), Actual: 3, Machines: three},
			[]whatif.Plan{{
				Key: web, Change: "changed", Deletes: 1, Rotations: 2, Pushes: 1,
				Causes: []string{"size", "instance_type", "vars"},
			}},
		},
		{
			"a certificate, and one machine that was made from what is to be",
			whatif.Group{Before: group(nil), After: group(func(g *effective.Group) { g.InfraHash, g.RuntimeHash = "i2", "r2" }), Actual: 3,
				Machines: []whatif.Machine{{InfraHash: "i2"}, {InfraHash: "i1"}, {InfraHash: "i1"}}},
			[]whatif.Plan{{Key: web, Change: "changed", Rotations: 2, Pushes: 1, Causes: []string{"certificates"}}},
		},
		{
			"a template that goes away",
			whatif.Group{Before: group(nil), After: &effective.Group{Blocked: "template \"t\" is not configured"}, Actual: 3, Machines: three},
			[]whatif.Plan{{Key: web, Change: "changed", Held: "template \"t\" is not configured"}},
		},
	} {
		test.in.Key = web
		if diff := cmp.Diff(test.want, whatif.Of([]whatif.Group{test.in})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestOfIsSorted(t *testing.T) {
	var groups []whatif.Group
	for _, key := range []document.GroupKey{{Tenant: "b", Group: "a"}, {Tenant: "a", Group: "z"}, {Tenant: "a", Group: "b"}} {
		groups = append(groups, whatif.Group{Key: key, After: group(nil)})
	}
	var got []string
	for _, p := range whatif.Of(groups) {
		got = append(got, p.Key.String())
	}
	if diff := cmp.Diff([]string{"a/b", "a/z", "b/a"}, got); diff != "" {
		t.Error(diff)
	}
}
