package requests_test

import (
	"errors"
	"testing"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
)

func TestUpsertOfDemandGroups(t *testing.T) {
	cfg := configtest.LoadFull(t)
	size, most := configtest.Size, func(n int) *document.Demand { return &document.Demand{Max: &n} }
	cpus := int64(2)
	needs := &document.InstanceRequirements{VCPU: &document.Range{Min: &cpus}}
	file := configtest.FileWith("prod", "fixed", groupfile.Entry{Template: "wrk", Size: size(3)})
	file.Set("prod", "demand", groupfile.Entry{Template: "wrk", Mode: "demand", Demand: most(9), InstanceRequirements: needs})
	batch := cfg.Groups["prod"]["batch"]
	for name, c := range map[string]struct {
		key    string
		change requests.GroupChange
		want   string // "" or the error's beginning
		entry  groupfile.Entry
	}{
		"new": {"new", requests.GroupChange{Template: "wrk", Mode: "demand", Demand: most(5)}, "", groupfile.Entry{Template: "wrk", Mode: "demand", Demand: most(5)}},
		"by requirements": {"new", requests.GroupChange{Template: "wrk", Mode: "demand", Requirements: needs}, "",
			groupfile.Entry{Template: "wrk", Mode: "demand", InstanceRequirements: needs}},
		"with a size":                {"new", requests.GroupChange{Template: "wrk", Mode: "demand", Size: size(1)}, "size: group new is of mode demand and has none", groupfile.Entry{}},
		"of another mode":            {"new", requests.GroupChange{Template: "wrk", Mode: "auto"}, "mode: must be fixed or demand", groupfile.Entry{}},
		"a size for one":             {"demand", requests.GroupChange{Size: size(1)}, "size: group demand is of mode demand and has none", groupfile.Entry{}},
		"of the configuration":       {"batch", requests.GroupChange{Size: size(0)}, "size: group batch is of mode demand and has none", groupfile.Entry{}},
		"switched to demand":         {"fixed", requests.GroupChange{Mode: "demand"}, "", groupfile.Entry{Template: "wrk", Mode: "demand"}},
		"switched with a size":       {"fixed", requests.GroupChange{Mode: "demand", Size: size(3)}, "size: group fixed is of mode demand", groupfile.Entry{}},
		"back without a size":        {"demand", requests.GroupChange{Mode: "fixed"}, "size: required, because a group of mode demand has none: say how many machines it keeps", groupfile.Entry{}},
		"back":                       {"demand", requests.GroupChange{Mode: "fixed", Size: size(7)}, "", groupfile.Entry{Template: "wrk", Size: size(7)}},
		"back with a block":          {"demand", requests.GroupChange{Mode: "fixed", Size: size(7), Demand: most(2)}, "demand: only groups of mode demand have it", groupfile.Entry{}},
		"a block of a fixed one":     {"fixed", requests.GroupChange{Demand: most(2)}, "demand: only groups of mode demand have it", groupfile.Entry{}},
		"requirements of it":         {"fixed", requests.GroupChange{Requirements: needs}, "instance_requirements: only groups of mode demand have them", groupfile.Entry{}},
		"types and requirements":     {"demand", requests.GroupChange{InstanceType: "t4g.large", Requirements: needs}, "instance_requirements: the group has either", groupfile.Entry{}},
		"types instead":              {"demand", requests.GroupChange{InstanceType: "t4g.large"}, "", groupfile.Entry{Template: "wrk", Mode: "demand", Demand: most(9), InstanceType: "t4g.large"}},
		"requirements taken off":     {"demand", requests.GroupChange{Clear: []string{"instance_requirements"}}, "", groupfile.Entry{Template: "wrk", Mode: "demand", Demand: most(9)}},
		"of another arch":            {"new", requests.GroupChange{Template: "wrk", Mode: "demand", Requirements: &document.InstanceRequirements{Arch: []string{"amd64"}}}, "instance_requirements.arch: the template is arm64", groupfile.Entry{}},
		"a block with a mistake":     {"demand", requests.GroupChange{Demand: most(-1)}, "demand.max: -1 is out of range", groupfile.Entry{}},
		"a Node with a mistake":      {"fixed", requests.GroupChange{Node: &document.Node{Taints: []document.Taint{{Key: "k", Effect: "x"}}}}, "node.taints[0].effect: \"x\" is not an effect", groupfile.Entry{}},
		"a Node":                     {"fixed", requests.GroupChange{Node: &document.Node{MaxPods: size(9)}}, "", groupfile.Entry{Template: "wrk", Size: size(3), Node: &document.Node{MaxPods: size(9)}}},
		"static, the same":           {"batch", requests.GroupChange{Mode: "demand", Demand: batch.Demand, Node: batch.Node, Requirements: batch.InstanceRequirements}, "", groupfile.Entry{}},
		"static, mode":               {"batch", requests.GroupChange{Mode: "fixed"}, "mode: locked", groupfile.Entry{}},
		"static, another block":      {"batch", requests.GroupChange{Demand: most(1)}, "demand: locked", groupfile.Entry{}},
		"static, another Node":       {"batch", requests.GroupChange{Node: &document.Node{}}, "node: locked", groupfile.Entry{}},
		"static, other requirements": {"batch", requests.GroupChange{Requirements: needs}, "instance_requirements: locked", groupfile.Entry{}},
	} {
		t.Run(name, func(t *testing.T) {
			entry, err := requests.CheckUpsert(cfg, file, "prod", c.key, c.change)
			switch {
			case c.want == "" && err != nil, c.want != "" && (err == nil || len(err.Error()) < len(c.want) || err.Error()[:len(c.want)] != c.want):
				t.Fatalf("CheckUpsert = %v, want %q", err, c.want)
			case c.want == "" && !entry.Equal(c.entry):
				t.Errorf("entry %+v, want %+v", entry, c.entry)
			}
			if refused := new(requests.DemandGroupError); c.want != "" && c.want[:10] == "size: grou" && !errors.As(err, &refused) {
				t.Errorf("%T is not a refusal that says so", err)
			}
		})
	}
}

// TestDemandGroupsTakeNoSizeOfTheQuota: what they may have is bounded where it is bought.
func TestDemandGroupsTakeNoSizeOfTheQuota(t *testing.T) {
	cfg := configtest.LoadFull(t)
	file := configtest.FileWith("prod", "demand", groupfile.Entry{Template: "wrk", Mode: "demand", Size: configtest.Size(9)})
	if sizes := cfg.SizesOf(file, "prod"); sizes["demand"] != 0 || sizes["batch"] != 0 {
		t.Errorf("sizes %v", sizes)
	}
	g, _ := cfg.Group(file, document.GroupKey{Tenant: "prod", Group: "demand"})
	if g.Size != 0 || g.Demand == nil || *g.Demand.Max != document.NoMax {
		t.Errorf("group %+v", g)
	}
}

// TestSwitchOfModeOutdatesNoMachine: neither way, nor another choice of types in mode demand.
func TestSwitchOfModeOutdatesNoMachine(t *testing.T) {
	cfg := configtest.LoadFull(t)
	group := func(entry groupfile.Entry) *effective.Group {
		entry.Template = "wrk"
		g, _ := cfg.Group(configtest.FileWith("prod", "g", entry), document.GroupKey{Tenant: "prod", Group: "g"})
		return g
	}
	fixed, large := group(groupfile.Entry{}), group(groupfile.Entry{InstanceType: "t4g.large"})
	demand := group(groupfile.Entry{Mode: "demand"})
	wider := group(groupfile.Entry{Mode: "demand", InstanceTypes: []string{"t4g.large", "t4g.xlarge", "t4g.2xlarge"}})
	other := group(groupfile.Entry{Mode: "demand", Args: map[string]any{"KeyName": "x"}})
	for name, c := range map[string]struct {
		now, made *effective.Group
		typ       string
		want      bool
	}{
		"fixed, then demand":                 {demand, fixed, "t4g.large", true},
		"fixed of one type, then demand":     {demand, large, "t4g.large", true},
		"demand, then fixed":                 {fixed, demand, "t4g.large", true},
		"demand, then fixed without it":      {fixed, wider, "t4g.2xlarge", false},
		"other types of mode demand":         {wider, demand, "t4g.large", true},
		"a type that is no longer listed":    {demand, wider, "t4g.2xlarge", true},
		"other args":                         {demand, other, "t4g.large", false},
		"other args, of a fixed one":         {other, large, "t4g.large", false},
		"fixed, made for another type alone": {fixed, large, "t4g.large", false},
	} {
		if got := c.now.MadeLike()(c.made.InfraHash, c.typ); got != c.want {
			t.Errorf("%s: alike %t, want %t", name, got, c.want)
		}
	}
}
