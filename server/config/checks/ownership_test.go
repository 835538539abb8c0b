package checks_test

import (
	"slices"
	"strings"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/jsonc"
)

func TestS12_OwnershipThatIsRefused(t *testing.T) {
	base := func(more string) string {
		return `{
  "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "admin_tenants": [], "subnet_pools": { "p": ["n"] } },
  "tenants": { "b": {} }, ` + more + ` }`
	}
	template := func(more string) string {
		return base(`"certificates": { "k": { "kind": "client", "cn": "x{{ .Vars.v }}" }, "k2": { "kind": "client", "cn": "x", "tenants": ["b"] } },
  "defaults": { "vars": { "v": "1" } },
  "templates": { "t": { "kind": "aaa", "arch": "amd64", "instance_type": "small", "subnet_pool": "p", ` + more + ` } },
  "load_balancers": { "l": { "provider": "local", "tenants": ["default"] } }, "groups": { "b": { "g": { "template": "t" } } }`)
	}
	for _, c := range []struct{ name, text, want string }{
		{"an unknown tenant", template(`"tenants": ["b", "x"]`), `templates.t.tenants[1]: there is no tenant "x"`},
		{"an empty list", template(`"tenants": []`), `templates.t.tenants: an empty list would let no tenant use it`},
		{"a static group of another tenant", template(`"tenants": ["default"]`), `groups.b.g.template: tenant "b" may not use template "t"`},
		{"a load balancer of another tenant", strings.Replace(template(`"args": {}`), `"g": { "template": "t" }`, `"g": { "template": "t", "load_balancers": ["l"] }`, 1),
			`groups.b.g.load_balancers[0]: tenant "b" may not use load balancer "l"`},
		{"a certificate of another tenant", template(`"tenants": ["default", "b"], "files": { "f": { "kind": "certificate", "template": "k2", "key": { "name": "f.pub" } } }`),
			`templates.t.files.f.template: tenant "default" may use this template, and not certificate "k2"`},
		{"an argument that is none", template(`"api_args": ["files.x"]`), `templates.t.api_args[0]: there is no file "x"`},
		{"an argument from a variable", template(`"args": { "Role": { "Name": ["r-{{ .Vars.v }}"] } }`),
			`add "Role" to templates.t.api_args`},
		{"an argument from all variables", template(`"args": { "Role": "{{ range .Var }}{{ . }}{{ end }}" }`), `templates.t.args.Role: tenants could choose it`},
		{"an argument from the root", template(`"args": { "Role": "{{ $all := . }}{{ $all.Vars.v }}" }`), `templates.t.args.Role: tenants could choose it`},
		{"an argument from the name of the group", template(`"args": { "Role": "{{ .Instance.Group }}" }`), `templates.t.args.Role: tenants could choose it`},
		{"an argument of a static group", strings.Replace(template(`"args": {}`), `"g": { "template": "t" }`, `"g": { "template": "t", "args": { "Role": "{{ .Vars.v }}" } }`, 1),
			`groups.b.g.args.Role: tenants could choose it`},
		{"a default argument", strings.Replace(template(`"args": {}`), `"defaults": {`, `"defaults": { "args": { "Role": "{{ .Vars.v }}" }, `, 1),
			`defaults.args.Role: tenants could choose it`},
		{"a file's source", template(`"files": { "f": { "kind": "storage", "source": "files/{{ .Vars.v }}" } }`),
			`add "files.f" to templates.t.api_args`},
		{"a certificate's name", template(`"files": { "f": { "kind": "certificate", "template": "k", "key": { "name": "f.pub" } } }`),
			`add "certificates.k" to templates.t.api_args`},
	} {
		_, err := config.Load("x.jsonc", []byte(c.text), config.LoadOptions{Rules: configtest.OwnedRules})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", c.name, err, c.want)
		}
	}
	for _, c := range []struct{ name, text string }{
		{"allowed by name", template(`"api_args": ["Role", "files.f", "certificates.k"], "args": { "Role": "{{ .Vars.v }}" },
			"files": { "f": { "kind": "storage", "source": "files/{{ .Vars.v }}" }, "c": { "kind": "certificate", "template": "k", "key": { "name": "f.pub" } } }`)},
		{"no rights", template(`"args": { "Plain": "{{ .Vars.v }}", "Role": "{{ .Instance.ID }}-{{ .Instance.Tenant }}" }`)},
		{"one tenant", strings.Replace(strings.NewReplacer(`"tenants": { "b": {} },`, "", `"b": { "g"`, `"default": { "g"`, `, "tenants": ["b"]`, "").
			Replace(template(`"args": { "Role": "{{ .Vars.v }}" }`)), `"admin_tenants": [],`, "", 1)},
	} {
		if _, err := config.Load("x.jsonc", []byte(c.text), config.LoadOptions{Rules: configtest.OwnedRules}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestS12_Administrators(t *testing.T) {
	for _, c := range []struct {
		name, tenants, server string
		want                  []string
		warned                bool
	}{
		{"one tenant", ``, ``, []string{"default"}, false},
		{"several tenants", `"b": {}`, ``, nil, true},
		{"several tenants, named", `"b": {}`, `, "admin_tenants": ["b"]`, []string{"b"}, false},
		{"several tenants, nobody on purpose", `"b": {}`, `, "admin_tenants": []`, nil, false},
	} {
		cfg, err := config.Load("x.jsonc", []byte(configtest.Shared(c.tenants, c.server)), config.LoadOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(cfg.Server.AdminTenants) != len(c.want) || !slices.Equal(c.want, cfg.Server.AdminTenants) {
			t.Errorf("%s: administrators %q, want %q", c.name, cfg.Server.AdminTenants, c.want)
		}
		warned := slices.ContainsFunc(cfg.Warnings, func(p jsonc.Problem) bool { return p.Path == "server.admin_tenants" })
		if warned != c.warned {
			t.Errorf("%s: warned %v, want %v: %v", c.name, warned, c.warned, cfg.Warnings)
		}
	}
}
