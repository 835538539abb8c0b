package config

import (
	"slices"
	"testing"

	"nstance.dev/server/driver"
)

// The higher layer counts of an instance type and an argument that says the same, and
// within one layer the argument.
func TestEffective_typesAndSizeArguments(t *testing.T) {
	args := func(names ...string) map[string]any {
		made := map[string]any{"Other": "x"}
		for _, name := range names {
			made[name] = "1"
		}
		return made
	}
	small := InstanceTypes{"small"}
	for name, c := range map[string]struct {
		defaults, template map[string]any
		static             *Group
		dynamic            *DynamicGroup
		request            *InstanceRequest
		want               []string
	}{
		"one layer":                         {template: args("Cores"), want: nil},
		"the type above the argument":       {defaults: args("Cores", "Memory"), template: args("Memory"), want: []string{"Cores"}},
		"a group sets the type":             {template: args("Memory", "Cores"), static: &Group{InstanceType: small}, want: []string{"Cores", "Memory"}},
		"and an argument":                   {template: args("Memory", "Cores"), static: &Group{InstanceType: small, Args: args("Cores")}, want: []string{"Memory"}},
		"an argument alone":                 {template: args("Memory"), static: &Group{Args: args("Cores")}},
		"the API sets the type":             {static: &Group{Args: args("Cores")}, dynamic: &DynamicGroup{InstanceType: "small"}, want: []string{"Cores"}},
		"what it may not set":               {template: args("Cores"), static: &Group{InstanceType: small}, dynamic: &DynamicGroup{Args: args("Cores")}, want: []string{"Cores"}},
		"the API sets both":                 {template: args("Cores"), dynamic: &DynamicGroup{InstanceTypes: small, Args: args("Cores")}},
		"an instance asks for a type":       {dynamic: &DynamicGroup{Args: args("Memory")}, request: &InstanceRequest{InstanceType: "small"}, want: []string{"Memory"}},
		"no argument of a size is anywhere": {template: args(), static: &Group{InstanceType: small}},
	} {
		cfg := loadFull(t)
		cfg.rules = rules{&driver.Rules{SizeArgs: []string{"Memory", "Cores"}}}
		cfg.Defaults.Args = c.defaults
		setIn(cfg.Templates, "knc", func(x *Template) { x.Args, x.InstanceType = c.template, InstanceTypes{"big"} })
		l := layers{tenant: "default", key: "g", template: "knc", static: c.static, dynamic: c.dynamic, request: c.request}
		got := cfg.merge(l)
		if !slices.Equal(got.Outranked, c.want) {
			t.Errorf("%s: outranked are %v, want %v", name, got.Outranked, c.want)
		}
		cfg.rules = rules{}
		if free := cfg.merge(l); len(free.Outranked) > 0 || (free.InfraHash == got.InfraHash) != (len(c.want) == 0) {
			t.Errorf("%s: without rules outranked are %v; the hashes are %s and %s", name, free.Outranked, free.InfraHash, got.InfraHash)
		}
	}
}

// Where an instance is of a template of another architecture, the type is the
// template's own, below what the group's arguments say.
func TestEffective_typesOfAnotherTemplate(t *testing.T) {
	cfg := loadFull(t)
	cfg.rules = rules{&driver.Rules{SizeArgs: []string{"Cores"}}}
	setIn(cfg.Templates, "knc", func(x *Template) { x.Args, x.InstanceType = map[string]any{"Cores": "1"}, InstanceTypes{"big"} })
	got := cfg.merge(layers{template: "knc", static: &Group{InstanceType: InstanceTypes{"small"}}, templateTypes: true})
	if len(got.Outranked) > 0 || !slices.Equal(got.InstanceTypes, []string{"big"}) {
		t.Errorf("types %v; outranked are %v", got.InstanceTypes, got.Outranked)
	}
}
