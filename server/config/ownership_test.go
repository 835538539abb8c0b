package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/driver"
)

// owned is a shard of three tenants in which "ours" and "lb-ours" are used by the default
// tenant alone, "listed" and "lb-listed" are open to b, and tenant d has a pool of its own.
const owned = `{
  "server": {
    "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "admin_tenants": ["boss"],
    "subnet_pools": { "p": ["n"], "q": ["m"], "secret-pool": ["o"] }, "dynamic_subnet_pools": ["p", "q"]
  },
  "tenants": { "b": {}, "boss": {}, "d": { "subnet_pools": ["secret-pool"] } },
  "load_balancers": { "lb-ours": { "provider": "local" }, "lb-listed": { "provider": "local", "tenants": ["b"] } },
  "templates": {
    "ours": { "kind": "aaa", "arch": "amd64", "instance_type": "small", "subnet_pool": "p" },
    "listed": { "kind": "bbb", "arch": "amd64", "instance_type": "small", "subnet_pool": "p", "tenants": ["b", "d"], "api_args": ["Allowed"] }
  },
  "groups": { "default": { "g": { "template": "ours", "size": 1, "load_balancers": ["lb-ours"] } } }
}`

var ownedRules = &driver.Rules{TenantArgs: []string{"Plain"}}

func loadOwned(t *testing.T, text string) *Config {
	t.Helper()
	cfg, err := Load("x.jsonc", []byte(text), LoadOptions{Rules: ownedRules})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestS12_WhatBelongsToWhom(t *testing.T) {
	several := loadOwned(t, owned)
	one := loadOwned(t, strings.NewReplacer(`"b": {}, "boss": {}, "d": { "subnet_pools": ["secret-pool"] }`, "",
		`"admin_tenants": ["boss"],`, "", `, "tenants": ["b"]`, "", `, "tenants": ["b", "d"]`, "").Replace(owned))
	for _, c := range []struct {
		cfg                  *Config
		tenant               string
		templates, balancers []string
	}{
		{one, "default", []string{"listed", "ours"}, []string{"lb-listed", "lb-ours"}},
		{several, "default", []string{"ours"}, []string{"lb-ours"}},
		{several, "b", []string{"listed"}, []string{"lb-listed"}},
		{several, "d", []string{"listed"}, nil},
		{several, "boss", []string{"ours"}, []string{"lb-ours"}}, // administrators, but for what a list keeps from them
		{several, "stranger", nil, nil},
	} {
		var templates, balancers []string
		sorted(c.cfg.Templates, func(key string, _ Template) {
			if c.cfg.MayUseTemplate(c.tenant, key) {
				templates = append(templates, key)
			}
		})
		sorted(c.cfg.LoadBalancers, func(key string, _ LoadBalancer) {
			if c.cfg.MayUseLoadBalancer(c.tenant, key) {
				balancers = append(balancers, key)
			}
		})
		if diff := cmp.Diff([][]string{c.templates, c.balancers}, [][]string{templates, balancers}); diff != "" {
			t.Errorf("%s: templates, load balancers (-want +got):\n%s", c.tenant, diff)
		}
	}
}

// What a tenant may not use is answered like a name that nobody has written, and no answer
// contains a name that is not the tenant's.
func TestS12_WhatIsNotOursDoesNotExist(t *testing.T) {
	cfg := loadOwned(t, owned)
	file := &GroupFile{}
	file.Set("b", "mine", DynamicGroup{Template: "listed"})
	for _, c := range []struct {
		name           string
		theirs, nobody GroupChange
		as             string // how the name of the second is spelt in the first
		instead        string
	}{
		{"template", GroupChange{Template: "ours"}, GroupChange{Template: "ourz"}, "ours", "ourz"},
		{"load balancer", GroupChange{Template: "listed", LoadBalancers: []string{"lb-ours"}},
			GroupChange{Template: "listed", LoadBalancers: []string{"lb-ourz"}}, "lb-ours", "lb-ourz"},
		{"pool", GroupChange{Template: "listed", SubnetPool: "secret-pool"},
			GroupChange{Template: "listed", SubnetPool: "secret-poor"}, "secret-pool", "secret-poor"},
	} {
		_, theirs := CheckUpsert(cfg, file, "b", "new", c.theirs)
		_, nobody := CheckUpsert(cfg, file, "b", "new", c.nobody)
		if theirs == nil || nobody == nil {
			t.Errorf("%s: accepted: %v, %v", c.name, theirs, nobody)
			continue
		}
		if got, want := strings.ReplaceAll(theirs.Error(), c.as, c.instead), nobody.Error(); got != want {
			t.Errorf("%s: %q differs from %q", c.name, theirs, nobody)
		}
		req := InstanceRequest{Template: c.theirs.Template, SubnetPool: c.theirs.SubnetPool, LoadBalancers: c.theirs.LoadBalancers}
		if _, err := CheckInstance(cfg, file, "b", "mine", req); err == nil || strings.ReplaceAll(err.Error(), c.as, c.instead) != nobody.Error() {
			t.Errorf("%s of an instance: %v, want %q", c.name, err, nobody)
		}
	}
	if _, err := CheckUpsert(cfg, file, "d", "new", GroupChange{Template: "listed", SubnetPool: "secret-pool"}); err != nil {
		t.Errorf("tenant d may use its own pool: %v", err)
	}
	if _, err := CheckUpsert(cfg, file, "d", "new", GroupChange{Template: "listed", SubnetPool: "p"}); err == nil {
		t.Error("tenant d may use a pool that is not on its list")
	}
}

// A tenant notices what changes for itself, and nothing of the others.
func TestS12_DigestOfATenant(t *testing.T) {
	before := loadOwned(t, owned)
	for _, c := range []struct {
		name     string
		old, new string
		changes  []string // the tenants that notice
	}{
		{"spaces and order", `"b": {}, "boss": {}`, `"boss": {  }, "b": {}`, nil},
		{"one more tenant", `"b": {},`, `"b": {}, "e": {}, "f": {}, "g": {}, "h": {},`, nil},
		{"a template that is open to two", `"kind": "bbb"`, `"kind": "bbc"`, []string{"b", "d"}},
		{"to whom else it is open", `["b", "d"]`, `["b", "d", "boss"]`, []string{"boss"}},
		{"a template of another tenant's groups", `"kind": "aaa"`, `"kind": "aab"`, []string{"default", "boss"}},
		{"the size of a group", `"size": 1`, `"size": 2`, []string{"default"}},
		{"a quota", `"b": {}`, `"b": { "quota": { "machines": 3 } }`, []string{"b"}},
		{"a pool of one's own", `["secret-pool"] }`, `["secret-pool", "p"] }`, []string{"d"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(owned, c.old) {
				t.Fatalf("%s is not in the configuration", c.old)
			}
			after := loadOwned(t, strings.Replace(owned, c.old, c.new, 1))
			var noticed []string
			for _, tenant := range []string{"b", "d", "default", "boss", "stranger"} {
				if before.DigestFor(tenant) != after.DigestFor(tenant) {
					noticed = append(noticed, tenant)
				}
			}
			if diff := cmp.Diff(c.changes, noticed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestS12_GroupOfATemplateThatIsNotOursIsHeld(t *testing.T) {
	cfg := loadOwned(t, owned)
	file := &GroupFile{}
	file.Set("b", "thief", DynamicGroup{Template: "ours"})
	file.Set("b", "fine", DynamicGroup{Template: "listed"})
	file.Set("b", "balanced", DynamicGroup{Template: "listed", LoadBalancers: []string{"lb-ours"}})
	groups, _ := Effective(cfg, file)
	for key, want := range map[string]string{
		"thief": `template "ours" is not configured for tenant b`, "fine": "",
		"balanced": `load balancer "lb-ours" is not configured for tenant b`,
	} {
		if got := groups[GroupKey{"b", key}].Held; got != want {
			t.Errorf("%s is held: %q, want %q", key, got, want)
		}
	}
}

// A group that leaves the configuration keeps what that gave it, whoever its tenant is.
func TestS12_UnlockedGroupKeepsWhatItWasGiven(t *testing.T) {
	cfg := loadOwned(t, owned)
	size := 3
	last := Group{Template: "ours", LoadBalancers: []string{"lb-ours"}, Args: map[string]any{"Role": "admin"}}
	file := &GroupFile{}
	file.Set("b", "was", Unlock(DynamicGroup{}, last))
	if g, _ := cfg.Group(file, GroupKey{"b", "was"}); g.Held != "" {
		t.Errorf("held: %s", g.Held)
	}
	if _, err := CheckUpsert(cfg, file, "b", "was", GroupChange{Size: &size}); err != nil {
		t.Errorf("scaled: %v", err)
	}
	if _, err := CheckUpsert(cfg, file, "b", "was", GroupChange{Args: map[string]any{"Role": "root"}}); err == nil {
		t.Error("its sensitive argument was changed")
	}
	if _, err := CheckUpsert(cfg, file, "b", "was", GroupChange{Template: "listed"}); err == nil {
		t.Error("its sensitive argument went along to another template")
	}
	if _, err := CheckUpsert(cfg, file, "b", "other", GroupChange{Template: "ours"}); err == nil {
		t.Error("another group of the tenant got the template")
	}
}

func TestS12_SensitiveArguments(t *testing.T) {
	cfg := loadOwned(t, owned)
	file := &GroupFile{}
	file.Set("b", "old", DynamicGroup{Template: "listed", Args: map[string]any{"Role": "a"}})
	for _, c := range []struct {
		name, group string
		args        map[string]any
		refused     bool
	}{
		{"plain", "new", map[string]any{"Plain": 1}, false},
		{"allowed by the template", "new", map[string]any{"Allowed": 1}, false},
		{"carries rights", "new", map[string]any{"Role": "a"}, true},
		{"in other letters", "new", map[string]any{"plain": 1}, true},
		{"not known to the provider", "new", map[string]any{"Nonsense": 1}, true},
		{"there already", "old", map[string]any{"Role": "a", "Plain": 1}, false},
		{"there already, changed", "old", map[string]any{"Role": "b"}, true},
		{"taken away", "old", map[string]any{}, false},
	} {
		_, err := CheckUpsert(cfg, file, "b", c.group, GroupChange{Template: "listed", Args: c.args})
		if invalid := new(InvalidError); (err != nil) != c.refused || c.refused && (!errors.As(err, &invalid) || invalid.Field != "args") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	one := loadOwned(t, `{
  "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"] } },
  "templates": { "t": { "kind": "aaa", "arch": "amd64", "instance_type": "small", "subnet_pool": "p" } } }`)
	if _, err := CheckUpsert(one, nil, "default", "g", GroupChange{Template: "t", Args: map[string]any{"Role": "a"}}); err != nil {
		t.Errorf("the only tenant: %v", err)
	}
}

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
		{"an empty list", template(`"tenants": []`), `templates.t.tenants: an empty list would let nobody use it`},
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
		_, err := Load("x.jsonc", []byte(c.text), LoadOptions{Rules: ownedRules})
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
		if _, err := Load("x.jsonc", []byte(c.text), LoadOptions{Rules: ownedRules}); err != nil {
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
		cfg, err := Load("x.jsonc", []byte(shared(c.tenants, c.server)), LoadOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(cfg.Server.AdminTenants) != len(c.want) || !slices.Equal(c.want, cfg.Server.AdminTenants) {
			t.Errorf("%s: administrators %q, want %q", c.name, cfg.Server.AdminTenants, c.want)
		}
		warned := slices.ContainsFunc(cfg.Warnings, func(p Problem) bool { return p.Path == "server.admin_tenants" })
		if warned != c.warned {
			t.Errorf("%s: warned %v, want %v: %v", c.name, warned, c.warned, cfg.Warnings)
		}
	}
}
