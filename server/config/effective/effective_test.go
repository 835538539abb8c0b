package effective_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
)

// A changed hash replaces machines: if this test fails, an upgrade would
// replace those of every user.
func TestEffective_hashesArePinned(t *testing.T) {
	groups, problems := effective.Groups(configtest.LoadFull(t), nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var out strings.Builder
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(a, b document.GroupKey) int { return strings.Compare(a.String(), b.String()) }) {
		g := groups[key]
		fmt.Fprintf(&out, "%s\n  runtime %s\n  infra   %s\n", key, g.RuntimeHash, g.InfraHash)
	}
	configtest.Golden(t, "testdata/hashes.txt", []byte(out.String()))
	g := groups[document.GroupKey{Tenant: "default", Group: "control-plane"}]
	configtest.Golden(t, "testdata/infra.json", append(effective.InfraText(g), '\n'))
}

func TestEffective_whatChangesWhichHash(t *testing.T) {
	const runtime, infra = "runtime", "infra"
	for name, c := range map[string]struct {
		change func(*effective.Config)
		want   []string
	}{
		"vars": {func(c *effective.Config) { c.Defaults.Vars["role"] = "x"; c.Templates["knc"].Vars["role"] = "y" }, []string{runtime}},
		"a file": {func(c *effective.Config) {
			c.Templates["knc"].Files["new"] = document.File{Kind: document.FileString, Template: "x"}
		}, []string{runtime}},
		"certificate": {func(c *effective.Config) {
			configtest.SetIn(c.Certificates, "kubelet.client", func(x *document.Certificate) { x.CN = "x" })
		}, []string{runtime}},
		"an unused certificate": {func(c *effective.Config) { c.Certificates["other"] = document.Certificate{Kind: document.CertServer} }, nil},
		"args":                  {func(c *effective.Config) { c.Defaults.Args["KeyName"] = "x" }, []string{infra}},
		"the policy of hosts without node machines": {func(c *effective.Config) {
			configtest.SetIn(c.Templates, "knc", func(x *document.Template) { x.Machine = &document.Machine{Policy: &document.MachinePolicy{}} })
		}, nil},
		"node machines": {func(c *effective.Config) {
			configtest.SetIn(c.Templates, "knc", func(x *document.Template) { x.Machine = &document.Machine{Enabled: true} })
		}, []string{infra}},
		"userdata": {func(c *effective.Config) { c.Templates["knc"].Userdata.Content = "x" }, []string{infra}},
		"instance type": {func(c *effective.Config) {
			configtest.SetIn(c.Templates, "knc", func(x *document.Template) { x.InstanceType = document.InstanceTypes{"a"} })
		}, []string{infra}},
		"subnet pool": {func(c *effective.Config) {
			configtest.SetIn(c.Templates, "knc", func(x *document.Template) { x.SubnetPool = "workers" })
		}, []string{infra}},
		"the subnets in the pool": {func(c *effective.Config) { c.Server.SubnetPools["control-plane"] = []string{"subnet-9"} }, nil},
		"drain timeout":           {func(c *effective.Config) { c.Server.DrainTimeout = 0 }, nil},
		"a number's spelling": {func(c *effective.Config) {
			c.Defaults.Args["MetadataOptions"].(map[string]any)["Hops"] = json.Number("2.0")
		}, []string{infra}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configtest.LoadFull(t)
			key := document.GroupKey{Tenant: "default", Group: "control-plane"}
			before := groupOf(cfg, nil, key)
			c.change(cfg)
			after := groupOf(cfg, nil, key)
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

// TestM90_ThreeLayers: of a template with node machines, what is of the VM replaces it, what is of the host
// is pushed, and what a group says of its Node does neither.
func TestM90_ThreeLayers(t *testing.T) {
	machines := func(change func(x *document.Template)) func(*effective.Config) {
		return func(c *effective.Config) {
			configtest.SetIn(c.Templates, "knc", func(x *document.Template) {
				x.Machine = &document.Machine{Enabled: true}
				change(x)
			})
		}
	}
	for name, tt := range map[string]struct {
		change         func(x *document.Template)
		runtime, infra bool
	}{
		"nothing":     {func(*document.Template) {}, false, false},
		"user data":   {func(x *document.Template) { x.Userdata.Content = "x" }, false, true},
		"an argument": {func(x *document.Template) { x.Args = map[string]any{"KeyName": "x"} }, false, true},
		"the policy": {func(x *document.Template) {
			x.Machine.Policy = &document.MachinePolicy{SSH: &document.MachineSSH{Users: []string{"a"}}}
		}, false, true},
		"a variable":      {func(x *document.Template) { x.Vars["role"] = "y" }, true, false},
		"a file":          {func(x *document.Template) { x.Files["new"] = document.File{Kind: document.FileString, Template: "x"} }, true, false},
		"the Node":        {func(x *document.Template) { x.Node = &document.Node{Labels: map[string]string{"tier": "x"}} }, false, false},
		"the longest off": {func(x *document.Template) { h := document.Duration(time.Hour); x.Machine.MaxHold = &h }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			key := document.GroupKey{Tenant: "default", Group: "control-plane"}
			one, two := configtest.LoadFull(t), configtest.LoadFull(t)
			machines(func(*document.Template) {})(one)
			machines(tt.change)(two)
			before, after := groupOf(one, nil, key), groupOf(two, nil, key)
			if runtime, infra := before.RuntimeHash != after.RuntimeHash, before.InfraHash != after.InfraHash; runtime != tt.runtime || infra != tt.infra {
				t.Errorf("files are pushed: %t; instances are replaced: %t", runtime, infra)
			}
		})
	}
}

func TestHash_numbersHaveOneForm(t *testing.T) {
	for _, same := range [][]any{
		{json.Number("1"), json.Number("1.0"), json.Number("1e0"), 1, 1.0},
		{json.Number("0.5"), json.Number("5e-1"), 0.5},
		{json.Number("9007199254740993"), int64(9007199254740993)},
	} {
		for _, v := range same[1:] {
			if a, b := string(effective.Canonical(same[0])), string(effective.Canonical(v)); a != b {
				t.Errorf("canonical: %s and %s", a, b)
			}
		}
	}
}

func TestEffective_layers(t *testing.T) {
	g := groupOf(configtest.LoadFull(t), nil, document.GroupKey{Tenant: "default", Group: "apps"})
	want := &effective.Group{
		Tenant: "default", Key: "apps", Template: "wrk", Kind: "wrk", Arch: "arm64", Size: 2,
		InstanceTypes: []string{"t4g.xlarge"}, SubnetPool: "workers", Subnets: []string{"subnet-2", "subnet-3"},
		Args: map[string]any{
			"ImageId":         "{{ .Image.debian_13_arm64 }}",
			"MetadataOptions": map[string]any{"HttpTokens": "optional", "HttpEndpoint": "enabled"},
		},
		Vars:          map[string]string{"role": "apps", "port": "8080", "spot": "false"},
		Userdata:      document.Userdata{Source: "inline", Encoding: "plain", Content: "#!/bin/sh\necho {{ .Vars.role }} {{ .Nonce }}\n"},
		LoadBalancers: []string{"www", "api"}, DrainTimeout: 10 * time.Minute,
		Rails:  document.Rails{MaxUnavailable: 5, MaxDeleteShare: 50, NeverRegisteredPerHour: 6, MaintenanceWindows: []document.MaintenanceWindow{}},
		Static: true, StaticSize: configtest.Size(2),
	}
	if diff := cmp.Diff(want, g, cmpopts.IgnoreFields(effective.Group{}, "RuntimeHash", "InfraHash", "ETag")); diff != "" {
		t.Error(diff)
	}
}

func TestConfig_Group(t *testing.T) {
	cfg := configtest.LoadFull(t)
	file := configtest.FileWith("prod", "web", groupfile.Entry{Template: "wrk"})
	all, _ := effective.Groups(cfg, file)
	for key, want := range all {
		if got, ok := cfg.Group(file, key); !ok || got.ETag != want.ETag {
			t.Errorf("%v = %+v, %v", key, got, ok)
		}
	}
	if g, ok := cfg.Group(nil, document.GroupKey{Tenant: "prod", Group: "web"}); ok {
		t.Errorf("without a file: %+v", g)
	}
}

func TestS19_lockedFieldsOfAStaticGroupStay(t *testing.T) {
	cfg := configtest.LoadFull(t)
	drain := document.Duration(time.Hour)
	file := configtest.FileWith("default", "apps", groupfile.Entry{
		Template: "knc", SubnetPool: "control-plane", Args: map[string]any{"KeyName": "evil"}, LoadBalancers: []string{},
		DrainTimeout: &drain, DeletedAt: &document.Time{Time: time.Now()},
		Size: configtest.Size(7), InstanceType: "t4g.2xlarge", Vars: document.Vars{"role": "new"},
	})
	before, after := groupOf(cfg, nil, document.GroupKey{Tenant: "default", Group: "apps"}), groupOf(cfg, file, document.GroupKey{Tenant: "default", Group: "apps"})
	if after.Size != 7 || after.InstanceTypes[0] != "t4g.2xlarge" || after.Vars["role"] != "new" {
		t.Errorf("the open fields were not taken: %+v", after)
	}
	ignore := cmpopts.IgnoreFields(effective.Group{}, "Size", "InstanceTypes", "Vars", "Dynamic", "RuntimeHash", "InfraHash", "ETag")
	if diff := cmp.Diff(before, after, ignore); diff != "" {
		t.Errorf("locked fields changed: %s", diff)
	}
}

func TestEffective_dynamicGroups(t *testing.T) {
	cfg := configtest.LoadFull(t)
	for name, c := range map[string]struct {
		group groupfile.Entry
		want  string // of Blocked
		size  int
	}{
		"of a template":    {groupfile.Entry{Template: "wrk", Size: configtest.Size(4)}, "", 4},
		"template's size":  {groupfile.Entry{Template: "knc"}, "", 1},
		"deleted":          {groupfile.Entry{Template: "wrk", Size: configtest.Size(4), DeletedAt: &document.Time{Time: time.Unix(1, 0)}}, "", 0},
		"template is gone": {groupfile.Entry{Template: "old", Size: configtest.Size(4)}, `template "old" is not configured for tenant prod`, 0},
		"pool is gone":     {groupfile.Entry{Template: "wrk", SubnetPool: "old"}, `subnet pool "old" is not configured`, 0},
		"balancer is gone": {groupfile.Entry{Template: "wrk", LoadBalancers: []string{"old"}}, `load balancer "old" is not configured for tenant prod`, 0},
		"without template": {groupfile.Entry{}, `template "" is not configured for tenant prod`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			groups, problems := effective.Groups(cfg, configtest.FileWith("prod", "web", c.group))
			g := groups[document.GroupKey{Tenant: "prod", Group: "web"}]
			if g.Blocked != c.want || g.Size != c.size || g.Static || g.Dynamic == nil || (len(problems) > 0) != (c.want != "") {
				t.Errorf("group = %+v, problems = %v", g, problems)
			}
			if g.Deleted != (c.group.DeletedAt != nil) {
				t.Errorf("deleted = %v", g.Deleted)
			}
			if len(groups) != 5 {
				t.Errorf("%d groups, want the four static ones and this", len(groups))
			}
		})
	}
}

func TestF52_badNamesInTheGroupFile(t *testing.T) {
	file := configtest.FileWith("prod", "a.b", groupfile.Entry{Template: "wrk"})
	file.Set("../x", "web", groupfile.Entry{Template: "wrk"})
	groups, problems := effective.Groups(configtest.LoadFull(t), file)
	if len(groups) != 4 || len(problems) != 2 {
		t.Errorf("groups %v, problems %v", slices.Collect(maps.Keys(groups)), problems)
	}
	gone, problems := effective.Groups(configtest.LoadFull(t), configtest.FileWith("left", "web", groupfile.Entry{Template: "wrk"}))
	if g := gone[document.GroupKey{Tenant: "left", Group: "web"}]; g.Blocked == "" || len(problems) != 1 {
		t.Errorf("group of an unknown tenant = %+v, %v", g, problems)
	}
}

func TestUnlock_changesNothingAboutTheGroup(t *testing.T) {
	cfg := configtest.LoadFull(t)
	key := document.GroupKey{Tenant: "default", Group: "apps"}
	file := configtest.FileWith("default", "apps", groupfile.Entry{Size: configtest.Size(9), Vars: document.Vars{"extra": "1"}})
	before := groupOf(cfg, file, key)

	entry, _ := file.Group("default", "apps")
	file.Set("default", "apps", groupfile.Unlock(entry, effective.StaticCopy(cfg)["default"]["apps"].Group))
	delete(cfg.Groups["default"], "apps")
	after := groupOf(cfg, file, key)
	if after.Static || after.Blocked != "" {
		t.Fatalf("after = %+v", after)
	}
	if diff := cmp.Diff(before, after, cmpopts.IgnoreFields(effective.Group{}, "Static", "StaticSize", "Dynamic", "ETag")); diff != "" {
		t.Error(diff)
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
		lowBefore, highBefore := string(effective.Canonical(low)), string(effective.Canonical(high))
		merged := effective.MergeObjects(low, high)
		if string(effective.Canonical(low)) != lowBefore || string(effective.Canonical(high)) != highBefore {
			t.Fatal("an argument was changed")
		}
		for key := range merged {
			if _, inHigh := high[key]; !inHigh {
				if _, inLow := low[key]; !inLow {
					t.Fatalf("%q came from nowhere", key)
				}
			}
		}
		if again := effective.MergeObjects(merged, high); string(effective.Canonical(again)) != string(effective.Canonical(merged)) {
			t.Fatal("merging again changes the result")
		}
		if len(effective.MergeObjects(nil, high)) != len(high) || len(effective.MergeObjects(low, nil)) != len(low) {
			t.Fatal("nothing is not neutral")
		}
	})
}

// groupOf is what a group should be.
func groupOf(cfg *effective.Config, file *groupfile.File, key document.GroupKey) *effective.Group {
	g, _ := cfg.Group(file, key)
	return g
}

// TestS8_DeleteShare: the bound of a group on its deletion is what its definition said when it
// was in the configuration; the server's is no bound of the group.
func TestS8_DeleteShare(t *testing.T) {
	share := document.Percent(12)
	with := &document.GroupRails{MaxDeleteShare: &share}
	for name, tt := range map[string]struct {
		group effective.Group
		want  bool
	}{
		"in the configuration":  {effective.Group{Static: true, Dynamic: &groupfile.Entry{Rails: with}}, false},
		"never in it":           {effective.Group{Dynamic: &groupfile.Entry{}}, false},
		"left it":               {effective.Group{Dynamic: &groupfile.Entry{Rails: with}}, true},
		"left it without rails": {effective.Group{Dynamic: &groupfile.Entry{Rails: &document.GroupRails{}}}, false},
		"no entry":              {effective.Group{}, false},
	} {
		if got, ok := tt.group.DeleteShare(); ok != tt.want || ok && got != share {
			t.Errorf("%s: %v, %t", name, got, ok)
		}
	}
	cfg := configtest.LoadFull(t)
	apps := cfg.Groups["default"]["apps"]
	apps.Rails = with
	entry := groupfile.Unlock(groupfile.Entry{}, apps)
	delete(cfg.Groups["default"], "apps")
	entry.DeletedAt = &document.Time{Time: time.Unix(1, 0)}
	gone := groupOf(cfg, configtest.FileWith("default", "apps", entry), document.GroupKey{Tenant: "default", Group: "apps"})
	if got, ok := gone.DeleteShare(); !ok || got != share || !gone.Deleted {
		t.Errorf("unlocked and deleted: %v, %t, %+v", got, ok, gone)
	}
}
