package effective_test

import (
	"fmt"
	"strings"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
)

// kept is a shard of two tenants with the given template "web" and certificate "service".
func kept(t *testing.T, web, certificate string) *effective.Config {
	t.Helper()
	text := fmt.Sprintf(`{
  "server": {
    "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "admin_tenants": ["boss"],
    "subnet_pools": { "p": ["n"] }, "dynamic_subnet_pools": ["p"]
  },
  "tenants": { "red": {}, "blue": {}, "boss": {} },
  "certificates": { "service": { "kind": "server", "cn": %q, "tenants": ["red", "blue"] } },
  "templates": { %s "other": { "kind": "bbb", "arch": "amd64", "instance_type": "small", "subnet_pool": "p", "tenants": ["red", "blue"] } }
}`, certificate, web)
	cfg, err := config.Load("x.jsonc", []byte(text), config.LoadOptions{Rules: configtest.OwnedRules})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// web is a template with two files, of which one says what is given.
func web(tenants, said string) string {
	return fmt.Sprintf(`"web": { "kind": "aaa", "arch": "amd64", "instance_type": "small", "subnet_pool": "p", "tenants": [%s],
		"vars": {"v": "1"}, "args": {"a": 1}, "userdata": {"content": "boot"}, "files": {
			"motd": {"kind": "string", "template": %q},
			"crt": {"kind": "certificate", "template": "service", "key": {"source": "agent", "name": "k.pub"}}} },`, tenants, said)
}

// TestS20_DefinitionOfATemplateThatIsGone: machines keep the files that their template had
// while it was their tenant's, through the file as it is stored; nothing of what somebody
// else's template of that name has reaches them (S12).
func TestS20_DefinitionOfATemplateThatIsGone(t *testing.T) {
	key := document.GroupKey{Tenant: "red", Group: "g"}
	file := configtest.FileWith("red", "g", groupfile.Entry{Template: "web", Size: configtest.Size(1), Vars: document.Vars{"v": "2"}})
	says := func(cfg *effective.Config, request *effective.InstanceRequest) string {
		d, ok := cfg.Definition(file, key, request)
		if !ok {
			return "unknown"
		}
		return fmt.Sprint(d.Group.Kind, " ", d.Group.Files["motd"].Template, " ", d.Group.Vars["v"], " ", d.Certificates["service"].CN)
	}
	ours, others, gone := kept(t, web(`"red"`, "hello"), "one"), kept(t, web(`"blue"`, "secret"), "two"), kept(t, "", "two")
	if got := says(gone, nil); got != "unknown" {
		t.Errorf("never seen: %s", got)
	}
	ours.KeepTemplates(file, nil)
	for name, cfg := range map[string]*effective.Config{"gone": gone, "another tenant's": others} {
		for range 2 { // leaders
			cfg.KeepTemplates(file, nil)
			file = configtest.Reread(t, file)
			if got, want := says(cfg, nil), "aaa hello 2 one"; got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
			if got, want := says(cfg, &effective.InstanceRequest{Vars: document.Vars{"v": "3"}}), "aaa hello 3 one"; got != want {
				t.Errorf("%s, with a request: %s, want %s", name, got, want)
			}
		}
		if g, _ := cfg.Group(file, key); g.Blocked == "" {
			t.Errorf("%s: the group can be acted on", name)
		}
	}
	if text := fmt.Sprint(file.Templates); strings.Contains(text, "boot") || strings.Contains(text, "secret") {
		t.Errorf("kept: %s, want what files come from alone", text)
	}
	back := kept(t, web(`"red"`, "hello again"), "three")
	if got, want := says(back, nil), "aaa hello again 2 three"; got != want {
		t.Errorf("back again: %s, want %s", got, want)
	}
}

func TestKeepTemplates(t *testing.T) {
	ours, gone := kept(t, web(`"red"`, "hello"), "one"), kept(t, "", "two")
	of := func(f *groupfile.File, tenant, name string) bool {
		_, ok := f.Template(groupfile.TemplateUse{Tenant: tenant, Template: name})
		return ok
	}
	file := &groupfile.File{}
	if ours.KeepTemplates(file, nil) && len(file.Templates) > 0 {
		t.Errorf("kept for nobody: %v", file.Templates)
	}
	file.Set("red", "g", groupfile.Entry{Template: "web", Size: configtest.Size(1)})
	before := file.Templates
	ours.KeepTemplateOf(file, document.GroupKey{Tenant: "red", Group: "g"})
	if !of(file, "red", "web") || len(before) > 0 {
		t.Errorf("kept for a new group: %v, and before %v", file.Templates, before)
	}
	older := file.Templates
	file.Set("blue", "h", groupfile.Entry{Template: "other", Size: configtest.Size(1)})
	ours.KeepTemplateOf(file, document.GroupKey{Tenant: "blue", Group: "h"})
	if !of(file, "blue", "other") || !of(file, "red", "web") || len(older) != 1 {
		t.Errorf("kept for two: %v, and before %v", file.Templates, older)
	}
	if ours.KeepTemplates(configtest.Reread(t, file), nil) {
		t.Error("the same is written again")
	}
	file.Remove("red", "g")
	if gone.KeepTemplates(file, []groupfile.TemplateUse{{Tenant: "red", Template: "web"}}); !of(file, "red", "web") {
		t.Error("the template of a machine is forgotten")
	}
	if gone.KeepTemplates(file, nil); of(file, "red", "web") || !of(file, "blue", "other") {
		t.Errorf("kept: %v, want what is in use", file.Templates)
	}
}

// TestS24_TemplatesTooDeepAreNotKept: a template may be as deep as a configuration, and its
// copy stands deeper.
func TestS24_TemplatesTooDeepAreNotKept(t *testing.T) {
	deep := strings.Repeat("[", 58) + strings.Repeat("]", 58)
	cfg := kept(t, strings.Replace(web(`"red"`, "x"), `"motd": {"kind": "string", "template": "x"}`, `"motd": {"kind": "json", "template": `+deep+`}`, 1), "one")
	file := configtest.FileWith("red", "g", groupfile.Entry{Template: "web", Size: configtest.Size(1)})
	cfg.KeepTemplates(file, nil)
	if configtest.Reread(t, file); len(file.Templates) > 0 {
		t.Error("it is kept, so this shows nothing")
	}
}
