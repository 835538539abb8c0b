package effective_test

import (
	"slices"
	"testing"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/rules"
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
	small := document.InstanceTypes{"small"}
	for name, c := range map[string]struct {
		defaults, template map[string]any
		static             *document.Group
		dynamic            *groupfile.Entry
		request            *effective.InstanceRequest
		want               []string
	}{
		"one layer":                         {template: args("Cores"), want: nil},
		"the type above the argument":       {defaults: args("Cores", "Memory"), template: args("Memory"), want: []string{"Cores"}},
		"a group sets the type":             {template: args("Memory", "Cores"), static: &document.Group{InstanceType: small}, want: []string{"Cores", "Memory"}},
		"and an argument":                   {template: args("Memory", "Cores"), static: &document.Group{InstanceType: small, Args: args("Cores")}, want: []string{"Memory"}},
		"an argument alone":                 {template: args("Memory"), static: &document.Group{Args: args("Cores")}},
		"the API sets the type":             {static: &document.Group{Args: args("Cores")}, dynamic: &groupfile.Entry{InstanceType: "small"}, want: []string{"Cores"}},
		"what it may not set":               {template: args("Cores"), static: &document.Group{InstanceType: small}, dynamic: &groupfile.Entry{Args: args("Cores")}, want: []string{"Cores"}},
		"the API sets both":                 {template: args("Cores"), dynamic: &groupfile.Entry{InstanceTypes: small, Args: args("Cores")}},
		"an instance asks for a type":       {dynamic: &groupfile.Entry{Args: args("Memory")}, request: &effective.InstanceRequest{InstanceType: "small"}, want: []string{"Memory"}},
		"no argument of a size is anywhere": {template: args(), static: &document.Group{InstanceType: small}},
	} {
		cfg := configtest.LoadFull(t)
		cfg.Rules = rules.Of(&driver.Rules{SizeArgs: []string{"Memory", "Cores"}})
		cfg.Defaults.Args = c.defaults
		configtest.SetIn(cfg.Templates, "knc", func(x *document.Template) { x.Args, x.InstanceType = c.template, document.InstanceTypes{"big"} })
		l := effective.Layers{Tenant: "default", Key: "g", Template: "knc", Static: c.static, Entry: c.dynamic, Request: c.request}
		got := cfg.Merge(l)
		if !slices.Equal(got.Outranked, c.want) {
			t.Errorf("%s: outranked are %v, want %v", name, got.Outranked, c.want)
		}
		cfg.Rules = rules.Of(nil)
		if free := cfg.Merge(l); len(free.Outranked) > 0 || (free.InfraHash == got.InfraHash) != (len(c.want) == 0) {
			t.Errorf("%s: without rules outranked are %v; the hashes are %s and %s", name, free.Outranked, free.InfraHash, got.InfraHash)
		}
	}
}

// Where an instance is of a template of another architecture, the type is the
// template's own, below what the group's arguments say.
func TestEffective_typesOfAnotherTemplate(t *testing.T) {
	cfg := configtest.LoadFull(t)
	cfg.Rules = rules.Of(&driver.Rules{SizeArgs: []string{"Cores"}})
	configtest.SetIn(cfg.Templates, "knc", func(x *document.Template) {
		x.Args, x.InstanceType = map[string]any{"Cores": "1"}, document.InstanceTypes{"big"}
	})
	got := cfg.Merge(effective.Layers{Template: "knc", Static: &document.Group{InstanceType: document.InstanceTypes{"small"}}, TemplateTypes: true})
	if len(got.Outranked) > 0 || !slices.Equal(got.InstanceTypes, []string{"big"}) {
		t.Errorf("types %v; outranked are %v", got.InstanceTypes, got.Outranked)
	}
}
