package checks_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/driver"
)

// A rule's doubt is a warning in the document, and no reason to refuse a request.
func TestArgsInDoubtAreWarned(t *testing.T) {
	rules := &driver.Rules{CheckArg: func(name string, _ any) error {
		switch name {
		case "odd":
			return fmt.Errorf("%w: is odd", driver.ErrArgWarning)
		case "bad":
			return errors.New("is bad")
		}
		return nil
	}}
	load := func(arg string) (*effective.Config, error) {
		text := strings.Replace(configtest.Minimal, `"server"`, `"defaults": { "args": { "`+arg+`": 1 } }, "server"`, 1)
		return config.Load("f", []byte(text), config.LoadOptions{Rules: rules})
	}
	cfg, err := load("odd")
	if err != nil {
		t.Fatal(err)
	}
	warned := func(p jsonc.Problem) bool {
		return strings.Contains(p.String(), "defaults.args.odd: likely a mistake: is odd")
	}
	if !slices.ContainsFunc(cfg.Warnings, warned) {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
	if _, err := load("bad"); err == nil || !strings.Contains(err.Error(), "defaults.args.bad: is bad") {
		t.Errorf("load: %v", err)
	}
	if err := cfg.Rules.CheckArgs(map[string]any{"odd": 1}); err != nil {
		t.Errorf("a request: %v", err)
	}
}

// What the cloud will not take is seen before there is a machine, also where it
// depends on the variables of a group.
func TestF51_userdataThatTheCloudRefuses(t *testing.T) {
	rules := &driver.Rules{CheckUserdata: func(data []byte) error {
		if len(data) > 20 {
			return errors.New("more than 20 bytes")
		}
		return nil
	}}
	const document = `{
  "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"] } },
  "templates": { "t": { "kind": "knc", "arch": "arm64", "instance_type": "x", "subnet_pool": "p", "vars": { "v": "%s" }, "userdata": { "content": "%s" } } },
  "groups": { "default": { "g": { "template": "t" } } }
}`
	for name, c := range map[string]struct{ value, content, want string }{
		"it fits":                  {"1", "echo {{ .Vars.v }}", ""},
		"it never fits":            {"1", "echo 1234567890123456789", "templates.t.userdata.content: more than 20 bytes"},
		"it does not with the var": {"1234567890123456789", "echo {{ .Vars.v }}", "for group default/g: more than 20 bytes"},
	} {
		_, err := config.Load("f", fmt.Appendf(nil, document, c.value, c.content), config.LoadOptions{Rules: rules})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// What all layers together leave out is seen where the group is, and what one of
// them has is enough.
func TestArgsTogether(t *testing.T) {
	rules := &driver.Rules{CheckArgs: func(args map[string]any) error {
		if args["image"] == nil {
			return errors.New("image: missing")
		}
		return nil
	}}
	const document = `{
  "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"] } },
  "defaults": { "args": { %s } },
  "templates": { "t": { "kind": "knc", "arch": "arm64", "instance_type": "x", "subnet_pool": "p", "args": { %s }, "userdata": { "content": "x" } } },
  "groups": { "default": { "g": { "template": "t" } } }
}`
	for name, c := range map[string]struct{ defaults, template, want string }{
		"nowhere":     {"", `"size": 1`, "templates.t.args: for group default/g: image: missing; add it to args"},
		"by default":  {`"image": "{{ .Vars.x }}"`, "", "vars"}, // it is there, and its variable is not
		"in template": {"", `"image": "a"`, ""},
	} {
		_, err := config.Load("f", fmt.Appendf(nil, document, c.defaults, c.template), config.LoadOptions{Rules: rules})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
