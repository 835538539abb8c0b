package requests_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/config/rules"
)

func TestCheckUpsert(t *testing.T) {
	cfg := configtest.LoadFull(t)
	cfg.Rules = rules.Of(configtest.Rules)
	existing := configtest.FileWith("prod", "web", groupfile.Entry{Template: "wrk", Size: configtest.Size(3), Manager: "uid-1", DeletedAt: &document.Time{Time: time.Unix(1, 0)}})
	for name, c := range map[string]struct {
		tenant, key string
		change      requests.GroupChange
		want        string // "" or the error
	}{
		"new":                      {"prod", "new", requests.GroupChange{Template: "wrk", Size: configtest.Size(0)}, ""},
		"static, size only":        {"default", "apps", requests.GroupChange{Size: configtest.Size(10000)}, ""},
		"static, same template":    {"default", "apps", requests.GroupChange{Template: "wrk", SubnetPool: "workers", LoadBalancers: []string{"www", "api"}}, ""},
		"static, same args":        {"default", "apps", requests.GroupChange{Args: map[string]any{"MetadataOptions": map[string]any{"HttpTokens": "optional"}}}, ""},
		"revived":                  {"prod", "web", requests.GroupChange{Size: configtest.Size(1), Manager: "uid-1"}, ""},
		"taken over":               {"prod", "web", requests.GroupChange{Manager: "uid-2", Takeover: true}, ""},
		"by nobody in particular":  {"prod", "web", requests.GroupChange{Size: configtest.Size(2)}, ""},
		"by another manager":       {"prod", "web", requests.GroupChange{Manager: "uid-2"}, "managed: uid-1"},
		"static template":          {"default", "apps", requests.GroupChange{Template: "knc"}, "locked: template"},
		"static pool":              {"default", "apps", requests.GroupChange{SubnetPool: "control-plane"}, "locked: subnet_pool"},
		"static args":              {"default", "apps", requests.GroupChange{Args: map[string]any{"KeyName": "x"}}, "locked: args"},
		"static load balancers":    {"default", "apps", requests.GroupChange{LoadBalancers: []string{"www"}}, "locked: load_balancers"},
		"no template":              {"prod", "new", requests.GroupChange{Size: configtest.Size(1)}, "invalid: template"},
		"unknown template":         {"prod", "new", requests.GroupChange{Template: "wrkk"}, "invalid: template"},
		"unknown tenant":           {"nobody", "new", requests.GroupChange{Template: "wrk"}, "invalid: tenant"},
		"bad key":                  {"prod", "a/b", requests.GroupChange{Template: "wrk"}, "invalid: key"},
		"unknown pool":             {"prod", "new", requests.GroupChange{Template: "wrk", SubnetPool: "x"}, "invalid: subnet_pool"},
		"pool not open":            {"prod", "new", requests.GroupChange{Template: "wrk", SubnetPool: "control-plane"}, "invalid: subnet_pool"},
		"template's pool not open": {"prod", "new", requests.GroupChange{Template: "knc"}, "invalid: subnet_pool"},
		"type not allowed":         {"prod", "new", requests.GroupChange{Template: "knc", SubnetPool: "workers", InstanceType: "t4g.nano"}, "invalid: instance_type"},
		"type of another arch":     {"prod", "new", requests.GroupChange{Template: "wrk", InstanceTypes: []string{"t4g.large", "m5.large"}}, "invalid: instance_types"},
		"negative size":            {"prod", "new", requests.GroupChange{Template: "wrk", Size: configtest.Size(-1)}, "invalid: size"},
		"size 10^9":                {"prod", "new", requests.GroupChange{Template: "wrk", Size: configtest.Size(1e9)}, "invalid: size"},
		"forbidden arg":            {"prod", "new", requests.GroupChange{Template: "wrk", Args: map[string]any{"UserData": "x"}}, "invalid: args"},
		"arg that does not render": {"prod", "new", requests.GroupChange{Template: "wrk", Args: map[string]any{"KeyName": "{{ .Vars.key }}"}}, "invalid: args"},
		"unknown load balancer":    {"prod", "new", requests.GroupChange{Template: "wrk", LoadBalancers: []string{"x"}}, "invalid: load_balancers"},
		"NUL in a var":             {"prod", "new", requests.GroupChange{Template: "wrk", Vars: map[string]string{"a": "\x00"}}, "invalid: vars"},
		"too many vars":            {"prod", "new", requests.GroupChange{Template: "wrk", Vars: map[string]string{"a": strings.Repeat("x", 300<<10)}}, "invalid: vars"},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot, _ := groupfile.Encode(existing)
			entry, err := requests.CheckUpsert(cfg, existing, c.tenant, c.key, c.change)
			if got := classify(err); got != c.want {
				t.Fatalf("CheckUpsert = %v, want %q", err, c.want)
			}
			if after, _ := groupfile.Encode(existing); string(after) != string(snapshot) {
				t.Error("the file was changed")
			}
			if err != nil {
				return
			}
			if entry.DeletedAt != nil {
				t.Error("still deleted")
			}
			if g, ok := cfg.Group(configtest.FileWith(c.tenant, c.key, entry), document.GroupKey{Tenant: c.tenant, Group: c.key}); !ok || g.Blocked != "" {
				t.Errorf("the result is blocked: %s", g.Blocked)
			}
			again, err := requests.CheckUpsert(cfg, configtest.FileWith(c.tenant, c.key, entry), c.tenant, c.key, c.change)
			if err != nil || !again.Equal(entry) {
				t.Errorf("the same change again = %+v, %v; want no change", again, err)
			}
		})
	}
}

func classify(err error) string {
	var locked *requests.LockedFieldError
	var invalid *groupfile.InvalidError
	var managed *requests.ManagedByOtherError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &locked):
		return "locked: " + locked.Field
	case errors.As(err, &invalid):
		return "invalid: " + invalid.Field
	case errors.As(err, &managed):
		return "managed: " + managed.Manager
	case errors.Is(err, requests.ErrGroupNotFound):
		return "not found"
	}
	return err.Error()
}

func TestCheckUpsert_keepsWhatIsNotSet(t *testing.T) {
	cfg := configtest.LoadFull(t)
	file := configtest.FileWith("prod", "web", groupfile.Entry{Template: "wrk", Size: configtest.Size(3), Vars: document.Vars{"role": "a", "b": "c"}, InstanceTypes: []string{"t4g.large"}})
	entry, err := requests.CheckUpsert(cfg, file, "prod", "web", requests.GroupChange{Size: configtest.Size(4)})
	want := groupfile.Entry{Template: "wrk", Size: configtest.Size(4), Vars: document.Vars{"role": "a", "b": "c"}, InstanceTypes: []string{"t4g.large"}}
	if err != nil || !entry.Equal(want) {
		t.Errorf("CheckUpsert = %+v, %v", entry, err)
	}
	entry, err = requests.CheckUpsert(cfg, file, "prod", "web", requests.GroupChange{Vars: map[string]string{"role": "z"}, InstanceType: "t4g.xlarge"})
	want = groupfile.Entry{Template: "wrk", Size: configtest.Size(3), Vars: document.Vars{"role": "z"}, InstanceType: "t4g.xlarge"}
	if err != nil || !entry.Equal(want) {
		t.Errorf("CheckUpsert = %+v, %v", entry, err)
	}
}

// To leave a field out keeps it; to clear it gives it back to the template.
func TestCheckUpsert_clears(t *testing.T) {
	cfg := configtest.LoadFull(t)
	file := configtest.FileWith("prod", "web", groupfile.Entry{Template: "wrk", Size: configtest.Size(3), InstanceTypes: []string{"t4g.large"}, SubnetPool: "workers"})
	without := func(change requests.GroupChange, fields ...string) requests.GroupChange {
		change.Clear = fields
		return change
	}
	for name, c := range map[string]struct {
		change requests.GroupChange
		want   groupfile.Entry
	}{
		"the type":             {without(requests.GroupChange{}, "instance_type"), groupfile.Entry{Template: "wrk", Size: configtest.Size(3), SubnetPool: "workers"}},
		"the types":            {without(requests.GroupChange{}, "instance_types"), groupfile.Entry{Template: "wrk", Size: configtest.Size(3), SubnetPool: "workers"}},
		"the pool":             {without(requests.GroupChange{}, "subnet_pool"), groupfile.Entry{Template: "wrk", Size: configtest.Size(3), InstanceTypes: []string{"t4g.large"}}},
		"the type for another": {without(requests.GroupChange{InstanceType: "t4g.xlarge"}, "instance_type"), groupfile.Entry{Template: "wrk", Size: configtest.Size(3), InstanceType: "t4g.xlarge", SubnetPool: "workers"}},
	} {
		entry, err := requests.CheckUpsert(cfg, file, "prod", "web", c.change)
		if err != nil || !entry.Equal(c.want) {
			t.Errorf("%s: CheckUpsert = %+v, %v", name, entry, err)
		}
	}
	if _, err := requests.CheckUpsert(cfg, file, "prod", "web", without(requests.GroupChange{}, "template")); classify(err) != "invalid: clear" {
		t.Errorf("a field that cannot be cleared: %v", err)
	}
}

func TestCheckInstance(t *testing.T) {
	cfg := configtest.LoadFull(t)
	cfg.Rules = rules.Of(configtest.Rules)
	configtest.SetIn(cfg.Templates, "knc", func(x *document.Template) {
		x.Arch = "amd64"
		x.InstanceType = document.InstanceTypes{"m5.large"}
		x.AllowedInstanceTypes = nil
	})
	file := configtest.FileWith("prod", "web", groupfile.Entry{Template: "wrk", InstanceType: "t4g.xlarge"})
	file.Set("prod", "gone", groupfile.Entry{Template: "wrk", DeletedAt: &document.Time{Time: time.Unix(1, 0)}})
	file.Set("prod", "held", groupfile.Entry{Template: "old"})
	for name, c := range map[string]struct {
		group string
		req   effective.InstanceRequest
		want  string
		types []string
	}{
		"as the group":           {"web", effective.InstanceRequest{}, "", []string{"t4g.xlarge"}},
		"own type":               {"web", effective.InstanceRequest{InstanceType: "t4g.nano", Vars: document.Vars{"role": "x"}}, "", []string{"t4g.nano"}},
		"template of other arch": {"web", effective.InstanceRequest{Template: "knc"}, "", []string{"m5.large"}},
		"type of other arch":     {"web", effective.InstanceRequest{InstanceType: "m5.large"}, "invalid: instance_type", nil},
		"unknown template":       {"web", effective.InstanceRequest{Template: "x"}, "invalid: template", nil},
		"pool not open":          {"web", effective.InstanceRequest{SubnetPool: "control-plane"}, "invalid: subnet_pool", nil},
		"unknown balancer":       {"web", effective.InstanceRequest{LoadBalancers: []string{"x"}}, "invalid: load_balancers", nil},
		"unknown group":          {"x", effective.InstanceRequest{}, "not found", nil},
		"deleted group":          {"gone", effective.InstanceRequest{}, "not found", nil},
		"held group":             {"held", effective.InstanceRequest{}, "invalid: group", nil},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := requests.CheckInstance(cfg, file, "prod", c.group, c.req)
			if got := classify(err); got != c.want {
				t.Fatalf("CheckInstance = %v, want %q", err, c.want)
			}
			if g != nil && !slices.Equal(g.InstanceTypes, c.types) {
				t.Errorf("types = %v, want %v", g.InstanceTypes, c.types)
			}
		})
	}
}
