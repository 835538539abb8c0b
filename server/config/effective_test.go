package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// A changed hash replaces machines: if this test fails, an upgrade would
// replace those of every user.
func TestEffective_hashesArePinned(t *testing.T) {
	groups, problems := Effective(loadFull(t), nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var out strings.Builder
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(a, b GroupKey) int { return strings.Compare(a.String(), b.String()) }) {
		g := groups[key]
		fmt.Fprintf(&out, "%s\n  runtime %s\n  infra   %s\n", key, g.RuntimeHash, g.InfraHash)
	}
	golden(t, "hashes.txt", []byte(out.String()))
	g := groups[GroupKey{"default", "control-plane"}]
	golden(t, "infra.json", append(canonical(infraInput{
		Args: g.Args, InstanceType: g.InstanceTypes, SubnetPool: g.SubnetPool,
		Userdata: hashUserdata(g.Userdata), Kind: g.Kind, Arch: g.Arch,
	}), '\n'))
}

func TestEffective_whatChangesWhichHash(t *testing.T) {
	const runtime, infra = "runtime", "infra"
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"vars":                    {func(c *Config) { c.Defaults.Vars["role"] = "x"; c.Templates["knc"].Vars["role"] = "y" }, []string{runtime}},
		"a file":                  {func(c *Config) { c.Templates["knc"].Files["new"] = File{Kind: FileString, Template: "x"} }, []string{runtime}},
		"certificate":             {func(c *Config) { setIn(c.Certificates, "kubelet.client", func(x *Certificate) { x.CN = "x" }) }, []string{runtime}},
		"an unused certificate":   {func(c *Config) { c.Certificates["other"] = Certificate{Kind: CertServer} }, nil},
		"args":                    {func(c *Config) { c.Defaults.Args["KeyName"] = "x" }, []string{infra}},
		"userdata":                {func(c *Config) { c.Templates["knc"].Userdata.Content = "x" }, []string{infra}},
		"instance type":           {func(c *Config) { setIn(c.Templates, "knc", func(x *Template) { x.InstanceType = InstanceTypes{"a"} }) }, []string{infra}},
		"subnet pool":             {func(c *Config) { setIn(c.Templates, "knc", func(x *Template) { x.SubnetPool = "workers" }) }, []string{infra}},
		"the subnets in the pool": {func(c *Config) { c.Server.SubnetPools["control-plane"] = []string{"subnet-9"} }, nil},
		"drain timeout":           {func(c *Config) { c.Server.DrainTimeout = 0 }, nil},
		"a number's spelling":     {func(c *Config) { c.Defaults.Args["MetadataOptions"].(map[string]any)["Hops"] = json.Number("2.0") }, []string{infra}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := loadFull(t)
			key := GroupKey{"default", "control-plane"}
			before := cfg.effective(nil, key)
			c.change(cfg)
			after := cfg.effective(nil, key)
			var got []string
			if before.RuntimeHash != after.RuntimeHash {
				got = append(got, runtime)
			}
			if before.InfraHash != after.InfraHash {
				got = append(got, infra)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("changed hashes: %s", diff)
			}
			if len(c.want) > 0 && before.ETag == after.ETag {
				t.Error("the etag did not change")
			}
		})
	}
}

func setIn[V any](m map[string]V, key string, change func(*V)) {
	v := m[key]
	change(&v)
	m[key] = v
}

func TestHash_numbersHaveOneForm(t *testing.T) {
	for _, same := range [][]any{
		{json.Number("1"), json.Number("1.0"), json.Number("1e0"), 1, 1.0},
		{json.Number("0.5"), json.Number("5e-1"), 0.5},
		{json.Number("9007199254740993"), int64(9007199254740993)},
	} {
		for _, v := range same[1:] {
			if a, b := string(canonical(same[0])), string(canonical(v)); a != b {
				t.Errorf("canonical: %s and %s", a, b)
			}
		}
	}
}

func TestEffective_layers(t *testing.T) {
	g := loadFull(t).effective(nil, GroupKey{"default", "apps"})
	want := &EffectiveGroup{
		Tenant: "default", Key: "apps", Template: "wrk", Kind: "wrk", Arch: "arm64", Size: 2,
		InstanceTypes: []string{"t4g.xlarge"}, SubnetPool: "workers", Subnets: []string{"subnet-2", "subnet-3"},
		Args: map[string]any{
			"ImageId":         "{{ .Image.debian_13_arm64 }}",
			"MetadataOptions": map[string]any{"HttpTokens": "optional", "HttpEndpoint": "enabled"},
		},
		Vars:          map[string]string{"role": "apps", "port": "8080", "spot": "false"},
		Userdata:      Userdata{Source: "inline", Encoding: "plain", Content: "#!/bin/sh\necho {{ .Vars.role }} {{ .Nonce }}\n"},
		LoadBalancers: []string{"www", "api"}, DrainTimeout: 10 * time.Minute,
		Rails:  Rails{MaxUnavailable: 5, MaxDeleteShare: 50, NeverRegisteredPerHour: 6, MaintenanceWindows: []MaintenanceWindow{}},
		Static: true, StaticSize: size(2),
	}
	if diff := cmp.Diff(want, g, cmpopts.IgnoreFields(EffectiveGroup{}, "RuntimeHash", "InfraHash", "ETag")); diff != "" {
		t.Error(diff)
	}
}

func TestConfig_Group(t *testing.T) {
	cfg := loadFull(t)
	file := fileWith("prod", "web", DynamicGroup{Template: "wrk"})
	all, _ := Effective(cfg, file)
	for key, want := range all {
		if got, ok := cfg.Group(file, key); !ok || got.ETag != want.ETag {
			t.Errorf("%v = %+v, %v", key, got, ok)
		}
	}
	if g, ok := cfg.Group(nil, GroupKey{"prod", "web"}); ok {
		t.Errorf("without a file: %+v", g)
	}
}

func size(n int) *int { return &n }

func fileWith(tenant, key string, g DynamicGroup) *GroupFile {
	f := &GroupFile{V: 1}
	f.Set(tenant, key, g)
	return f
}

func TestS19_lockedFieldsOfAStaticGroupStay(t *testing.T) {
	cfg := loadFull(t)
	drain := Duration(time.Hour)
	file := fileWith("default", "apps", DynamicGroup{
		Template: "knc", SubnetPool: "control-plane", Args: map[string]any{"KeyName": "evil"}, LoadBalancers: []string{},
		DrainTimeout: &drain, DeletedAt: &Time{time.Now()},
		Size: size(7), InstanceType: "t4g.2xlarge", Vars: Vars{"role": "new"},
	})
	before, after := cfg.effective(nil, GroupKey{"default", "apps"}), cfg.effective(file, GroupKey{"default", "apps"})
	if after.Size != 7 || after.InstanceTypes[0] != "t4g.2xlarge" || after.Vars["role"] != "new" {
		t.Errorf("the open fields were not taken: %+v", after)
	}
	ignore := cmpopts.IgnoreFields(EffectiveGroup{}, "Size", "InstanceTypes", "Vars", "Dynamic", "RuntimeHash", "InfraHash", "ETag")
	if diff := cmp.Diff(before, after, ignore); diff != "" {
		t.Errorf("locked fields changed: %s", diff)
	}
}

func TestEffective_dynamicGroups(t *testing.T) {
	cfg := loadFull(t)
	for name, c := range map[string]struct {
		group DynamicGroup
		want  string // of Held
		size  int
	}{
		"of a template":    {DynamicGroup{Template: "wrk", Size: size(4)}, "", 4},
		"template's size":  {DynamicGroup{Template: "knc"}, "", 1},
		"deleted":          {DynamicGroup{Template: "wrk", Size: size(4), DeletedAt: &Time{time.Unix(1, 0)}}, "", 0},
		"template is gone": {DynamicGroup{Template: "old", Size: size(4)}, `template "old" is not configured for tenant prod`, 0},
		"pool is gone":     {DynamicGroup{Template: "wrk", SubnetPool: "old"}, `subnet pool "old" is not configured`, 0},
		"balancer is gone": {DynamicGroup{Template: "wrk", LoadBalancers: []string{"old"}}, `load balancer "old" is not configured for tenant prod`, 0},
		"without template": {DynamicGroup{}, `template "" is not configured for tenant prod`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			groups, problems := Effective(cfg, fileWith("prod", "web", c.group))
			g := groups[GroupKey{"prod", "web"}]
			if g.Held != c.want || g.Size != c.size || g.Static || g.Dynamic == nil || (len(problems) > 0) != (c.want != "") {
				t.Errorf("group = %+v, problems = %v", g, problems)
			}
			if g.Deleted != (c.group.DeletedAt != nil) {
				t.Errorf("deleted = %v", g.Deleted)
			}
			if len(groups) != 4 {
				t.Errorf("%d groups, want the three static ones and this", len(groups))
			}
		})
	}
}

func TestF52_badNamesInTheGroupFile(t *testing.T) {
	file := fileWith("prod", "a.b", DynamicGroup{Template: "wrk"})
	file.Set("../x", "web", DynamicGroup{Template: "wrk"})
	groups, problems := Effective(loadFull(t), file)
	if len(groups) != 3 || len(problems) != 2 {
		t.Errorf("groups %v, problems %v", slices.Collect(maps.Keys(groups)), problems)
	}
	gone, problems := Effective(loadFull(t), fileWith("left", "web", DynamicGroup{Template: "wrk"}))
	if g := gone[GroupKey{"left", "web"}]; g.Held == "" || len(problems) != 1 {
		t.Errorf("group of an unknown tenant = %+v, %v", g, problems)
	}
}

func TestUnlock_changesNothingAboutTheGroup(t *testing.T) {
	cfg := loadFull(t)
	key := GroupKey{"default", "apps"}
	file := fileWith("default", "apps", DynamicGroup{Size: size(9), Vars: Vars{"extra": "1"}})
	before := cfg.effective(file, key)

	entry, _ := file.Group("default", "apps")
	file.Set("default", "apps", Unlock(entry, StaticCopy(cfg)["default"]["apps"].Group))
	delete(cfg.Groups["default"], "apps")
	after := cfg.effective(file, key)
	if after.Static || after.Held != "" {
		t.Fatalf("after = %+v", after)
	}
	if diff := cmp.Diff(before, after, cmpopts.IgnoreFields(EffectiveGroup{}, "Static", "StaticSize", "Dynamic", "ETag")); diff != "" {
		t.Error(diff)
	}
}

func TestRelock(t *testing.T) {
	last := Group{Template: "wrk", Size: size(3), InstanceType: []string{"a"}, Vars: Vars{"x": "1", "y": "1"}}
	for name, c := range map[string]struct {
		before DynamicGroup
		change func(*DynamicGroup) // by the API, while the group was dynamic
		want   DynamicGroup
	}{
		"nothing was set, nothing has changed": {DynamicGroup{}, func(*DynamicGroup) {}, DynamicGroup{}},
		"what was set stays": {
			DynamicGroup{Size: size(9), InstanceType: "b", Vars: Vars{"x": "2", "z": "2"}, Manager: "m"}, func(*DynamicGroup) {},
			DynamicGroup{Size: size(9), InstanceType: "b", Vars: Vars{"x": "2", "z": "2"}, Manager: "m"},
		},
		"what has changed stays": {
			DynamicGroup{}, func(g *DynamicGroup) {
				g.Size, g.InstanceTypes, g.Manager = size(4), []string{"c", "d"}, "m"
				g.Vars = Vars{"x": "1", "y": "3"}
			},
			DynamicGroup{Size: size(4), InstanceTypes: []string{"c", "d"}, Vars: Vars{"y": "3"}, Manager: "m"},
		},
		"what a static group keeps for its file goes": {
			DynamicGroup{}, func(g *DynamicGroup) {
				g.Template, g.SubnetPool, g.Args = "other", "pool", map[string]any{"k": "v"}
				g.DeletedAt = &Time{time.Unix(1, 0)}
			},
			DynamicGroup{},
		},
	} {
		entry := Unlock(c.before, last)
		c.change(&entry)
		got, left := Relock(entry)
		if !got.Equal(c.want) || left == c.want.Equal(DynamicGroup{}) {
			t.Errorf("%s: got %+v, left %v", name, got, left)
		}
	}
}

func TestCheckUpsert(t *testing.T) {
	cfg := loadFull(t)
	cfg.rules = rules{testRules}
	existing := fileWith("prod", "web", DynamicGroup{Template: "wrk", Size: size(3), Manager: "uid-1", DeletedAt: &Time{time.Unix(1, 0)}})
	for name, c := range map[string]struct {
		tenant, key string
		change      GroupChange
		want        string // "" or the error
	}{
		"new":                      {"prod", "new", GroupChange{Template: "wrk", Size: size(0)}, ""},
		"static, size only":        {"default", "apps", GroupChange{Size: size(10000)}, ""},
		"static, same template":    {"default", "apps", GroupChange{Template: "wrk", SubnetPool: "workers", LoadBalancers: []string{"www", "api"}}, ""},
		"static, same args":        {"default", "apps", GroupChange{Args: map[string]any{"MetadataOptions": map[string]any{"HttpTokens": "optional"}}}, ""},
		"revived":                  {"prod", "web", GroupChange{Size: size(1), Manager: "uid-1"}, ""},
		"taken over":               {"prod", "web", GroupChange{Manager: "uid-2", Takeover: true}, ""},
		"by nobody in particular":  {"prod", "web", GroupChange{Size: size(2)}, ""},
		"by another manager":       {"prod", "web", GroupChange{Manager: "uid-2"}, "managed: uid-1"},
		"static template":          {"default", "apps", GroupChange{Template: "knc"}, "locked: template"},
		"static pool":              {"default", "apps", GroupChange{SubnetPool: "control-plane"}, "locked: subnet_pool"},
		"static args":              {"default", "apps", GroupChange{Args: map[string]any{"KeyName": "x"}}, "locked: args"},
		"static load balancers":    {"default", "apps", GroupChange{LoadBalancers: []string{"www"}}, "locked: load_balancers"},
		"no template":              {"prod", "new", GroupChange{Size: size(1)}, "invalid: template"},
		"unknown template":         {"prod", "new", GroupChange{Template: "wrkk"}, "invalid: template"},
		"unknown tenant":           {"nobody", "new", GroupChange{Template: "wrk"}, "invalid: tenant"},
		"bad key":                  {"prod", "a/b", GroupChange{Template: "wrk"}, "invalid: key"},
		"unknown pool":             {"prod", "new", GroupChange{Template: "wrk", SubnetPool: "x"}, "invalid: subnet_pool"},
		"pool not open":            {"prod", "new", GroupChange{Template: "wrk", SubnetPool: "control-plane"}, "invalid: subnet_pool"},
		"template's pool not open": {"prod", "new", GroupChange{Template: "knc"}, "invalid: subnet_pool"},
		"type not allowed":         {"prod", "new", GroupChange{Template: "knc", SubnetPool: "workers", InstanceType: "t4g.nano"}, "invalid: instance_type"},
		"type of another arch":     {"prod", "new", GroupChange{Template: "wrk", InstanceTypes: []string{"t4g.large", "m5.large"}}, "invalid: instance_types"},
		"negative size":            {"prod", "new", GroupChange{Template: "wrk", Size: size(-1)}, "invalid: size"},
		"size 10^9":                {"prod", "new", GroupChange{Template: "wrk", Size: size(1e9)}, "invalid: size"},
		"forbidden arg":            {"prod", "new", GroupChange{Template: "wrk", Args: map[string]any{"UserData": "x"}}, "invalid: args"},
		"arg that does not render": {"prod", "new", GroupChange{Template: "wrk", Args: map[string]any{"KeyName": "{{ .Vars.key }}"}}, "invalid: args"},
		"unknown load balancer":    {"prod", "new", GroupChange{Template: "wrk", LoadBalancers: []string{"x"}}, "invalid: load_balancers"},
		"NUL in a var":             {"prod", "new", GroupChange{Template: "wrk", Vars: map[string]string{"a": "\x00"}}, "invalid: vars"},
		"too many vars":            {"prod", "new", GroupChange{Template: "wrk", Vars: map[string]string{"a": strings.Repeat("x", 300<<10)}}, "invalid: vars"},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot, _ := EncodeGroups(existing)
			entry, err := CheckUpsert(cfg, existing, c.tenant, c.key, c.change)
			if got := classify(err); got != c.want {
				t.Fatalf("CheckUpsert = %v, want %q", err, c.want)
			}
			if after, _ := EncodeGroups(existing); string(after) != string(snapshot) {
				t.Error("the file was changed")
			}
			if err != nil {
				return
			}
			if entry.DeletedAt != nil {
				t.Error("still deleted")
			}
			if g := cfg.effective(fileWith(c.tenant, c.key, entry), GroupKey{c.tenant, c.key}); g.Held != "" {
				t.Errorf("the result is held: %s", g.Held)
			}
			again, err := CheckUpsert(cfg, fileWith(c.tenant, c.key, entry), c.tenant, c.key, c.change)
			if err != nil || !again.Equal(entry) {
				t.Errorf("the same change again = %+v, %v; want no change", again, err)
			}
		})
	}
}

func classify(err error) string {
	var locked *LockedFieldError
	var invalid *InvalidError
	var managed *ManagedByOtherError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &locked):
		return "locked: " + locked.Field
	case errors.As(err, &invalid):
		return "invalid: " + invalid.Field
	case errors.As(err, &managed):
		return "managed: " + managed.Manager
	case errors.Is(err, ErrGroupNotFound):
		return "not found"
	}
	return err.Error()
}

func TestCheckUpsert_keepsWhatIsNotSet(t *testing.T) {
	cfg := loadFull(t)
	file := fileWith("prod", "web", DynamicGroup{Template: "wrk", Size: size(3), Vars: Vars{"role": "a", "b": "c"}, InstanceTypes: []string{"t4g.large"}})
	entry, err := CheckUpsert(cfg, file, "prod", "web", GroupChange{Size: size(4)})
	want := DynamicGroup{Template: "wrk", Size: size(4), Vars: Vars{"role": "a", "b": "c"}, InstanceTypes: []string{"t4g.large"}}
	if err != nil || !entry.Equal(want) {
		t.Errorf("CheckUpsert = %+v, %v", entry, err)
	}
	entry, err = CheckUpsert(cfg, file, "prod", "web", GroupChange{Vars: map[string]string{"role": "z"}, InstanceType: "t4g.xlarge"})
	want = DynamicGroup{Template: "wrk", Size: size(3), Vars: Vars{"role": "z"}, InstanceType: "t4g.xlarge"}
	if err != nil || !entry.Equal(want) {
		t.Errorf("CheckUpsert = %+v, %v", entry, err)
	}
}

// To leave a field out keeps it; to clear it gives it back to the template.
func TestCheckUpsert_clears(t *testing.T) {
	cfg := loadFull(t)
	file := fileWith("prod", "web", DynamicGroup{Template: "wrk", Size: size(3), InstanceTypes: []string{"t4g.large"}, SubnetPool: "workers"})
	without := func(change GroupChange, fields ...string) GroupChange { change.Clear = fields; return change }
	for name, c := range map[string]struct {
		change GroupChange
		want   DynamicGroup
	}{
		"the type":             {without(GroupChange{}, "instance_type"), DynamicGroup{Template: "wrk", Size: size(3), SubnetPool: "workers"}},
		"the types":            {without(GroupChange{}, "instance_types"), DynamicGroup{Template: "wrk", Size: size(3), SubnetPool: "workers"}},
		"the pool":             {without(GroupChange{}, "subnet_pool"), DynamicGroup{Template: "wrk", Size: size(3), InstanceTypes: []string{"t4g.large"}}},
		"the type for another": {without(GroupChange{InstanceType: "t4g.xlarge"}, "instance_type"), DynamicGroup{Template: "wrk", Size: size(3), InstanceType: "t4g.xlarge", SubnetPool: "workers"}},
	} {
		entry, err := CheckUpsert(cfg, file, "prod", "web", c.change)
		if err != nil || !entry.Equal(c.want) {
			t.Errorf("%s: CheckUpsert = %+v, %v", name, entry, err)
		}
	}
	if _, err := CheckUpsert(cfg, file, "prod", "web", without(GroupChange{}, "template")); classify(err) != "invalid: clear" {
		t.Errorf("a field that cannot be cleared: %v", err)
	}
}

func TestCheckInstance(t *testing.T) {
	cfg := loadFull(t)
	cfg.rules = rules{testRules}
	setIn(cfg.Templates, "knc", func(x *Template) {
		x.Arch = "amd64"
		x.InstanceType = InstanceTypes{"m5.large"}
		x.AllowedInstanceTypes = nil
	})
	file := fileWith("prod", "web", DynamicGroup{Template: "wrk", InstanceType: "t4g.xlarge"})
	file.Set("prod", "gone", DynamicGroup{Template: "wrk", DeletedAt: &Time{time.Unix(1, 0)}})
	file.Set("prod", "held", DynamicGroup{Template: "old"})
	for name, c := range map[string]struct {
		group string
		req   InstanceRequest
		want  string
		types []string
	}{
		"as the group":           {"web", InstanceRequest{}, "", []string{"t4g.xlarge"}},
		"own type":               {"web", InstanceRequest{InstanceType: "t4g.nano", Vars: Vars{"role": "x"}}, "", []string{"t4g.nano"}},
		"template of other arch": {"web", InstanceRequest{Template: "knc"}, "", []string{"m5.large"}},
		"type of other arch":     {"web", InstanceRequest{InstanceType: "m5.large"}, "invalid: instance_type", nil},
		"unknown template":       {"web", InstanceRequest{Template: "x"}, "invalid: template", nil},
		"pool not open":          {"web", InstanceRequest{SubnetPool: "control-plane"}, "invalid: subnet_pool", nil},
		"unknown balancer":       {"web", InstanceRequest{LoadBalancers: []string{"x"}}, "invalid: load_balancers", nil},
		"unknown group":          {"x", InstanceRequest{}, "not found", nil},
		"deleted group":          {"gone", InstanceRequest{}, "not found", nil},
		"held group":             {"held", InstanceRequest{}, "invalid: group", nil},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := CheckInstance(cfg, file, "prod", c.group, c.req)
			if got := classify(err); got != c.want {
				t.Fatalf("CheckInstance = %v, want %q", err, c.want)
			}
			if g != nil && !slices.Equal(g.InstanceTypes, c.types) {
				t.Errorf("types = %v, want %v", g.InstanceTypes, c.types)
			}
		})
	}
}

// Merging objects keeps every key of both, prefers the higher value, and leaves
// its arguments alone.
func TestMergeObjects_properties(t *testing.T) {
	objects := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.Custom(func(t *rapid.T) any {
		if rapid.Bool().Draw(t, "leaf") {
			return rapid.IntRange(0, 9).Draw(t, "value")
		}
		inner := map[string]any{}
		maps.Copy(inner, rapid.MapOf(rapid.SampledFrom([]string{"x", "y"}), rapid.Custom(func(t *rapid.T) any { return rapid.IntRange(0, 9).Draw(t, "v") })).Draw(t, "inner"))
		return inner
	}))
	rapid.Check(t, func(t *rapid.T) {
		low, high := objects.Draw(t, "low"), objects.Draw(t, "high")
		lowBefore, highBefore := string(canonical(low)), string(canonical(high))
		merged := mergeObjects(low, high)
		if string(canonical(low)) != lowBefore || string(canonical(high)) != highBefore {
			t.Fatal("an argument was changed")
		}
		for key := range merged {
			if _, inHigh := high[key]; !inHigh {
				if _, inLow := low[key]; !inLow {
					t.Fatalf("%q came from nowhere", key)
				}
			}
		}
		if again := mergeObjects(merged, high); string(canonical(again)) != string(canonical(merged)) {
			t.Fatal("merging again changes the result")
		}
		if len(mergeObjects(nil, high)) != len(high) || len(mergeObjects(low, nil)) != len(low) {
			t.Fatal("nothing is not neutral")
		}
	})
}

func TestMaintenanceWindow_Open(t *testing.T) {
	w := MaintenanceWindow{Cron: "0 2 * * sat", Duration: Duration(4 * time.Hour), Timezone: "Europe/Berlin"}
	for at, want := range map[string]bool{
		"2026-11-21T00:59:59Z": false, // Saturday, 01:59:59 in Berlin
		"2026-11-21T01:00:00Z": true,
		"2026-11-21T04:59:59Z": true,
		"2026-11-21T05:00:00Z": false,
		"2026-11-22T02:00:00Z": false,
	} {
		moment, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Open(moment); got != want {
			t.Errorf("open at %s = %v", at, got)
		}
	}
}

func TestOpenWindow(t *testing.T) {
	nights := MaintenanceWindow{Cron: "0 2 * * *", Duration: Duration(time.Hour)}
	saturdays := MaintenanceWindow{Cron: "0 1 * * sat", Duration: Duration(4 * time.Hour), Timezone: "Europe/Berlin"}
	never := MaintenanceWindow{Cron: "0 0 30 2 *", Duration: Duration(time.Hour)}
	for name, c := range map[string]struct {
		windows []MaintenanceWindow
		at      string
		open    bool
		next    string // empty: none
	}{
		"no windows":                   {nil, "2026-11-20T12:00:00Z", true, ""},
		"inside the only one":          {[]MaintenanceWindow{nights}, "2026-11-20T02:30:00Z", true, ""},
		"inside the second":            {[]MaintenanceWindow{nights, saturdays}, "2026-11-21T00:30:00Z", true, ""},
		"at the end of one":            {[]MaintenanceWindow{nights}, "2026-11-20T03:00:00Z", false, "2026-11-21T02:00:00Z"},
		"the earlier one comes next":   {[]MaintenanceWindow{nights, saturdays}, "2026-11-20T12:00:00Z", false, "2026-11-21T00:00:00Z"},
		"one that never comes":         {[]MaintenanceWindow{never}, "2026-11-20T12:00:00Z", false, ""},
		"one that Load would refuse":   {[]MaintenanceWindow{{Cron: "?!"}, nights}, "2026-11-20T12:00:00Z", false, "2026-11-21T02:00:00Z"},
		"clocks go back in the window": {[]MaintenanceWindow{saturdays}, "2026-10-24T02:30:00Z", true, ""},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		open, next := OpenWindow(c.windows, at)
		got := ""
		if !next.IsZero() {
			got = next.UTC().Format(time.RFC3339)
		}
		if open != c.open || got != c.next {
			t.Errorf("%s: open %v, next %q", name, open, got)
		}
	}
}
