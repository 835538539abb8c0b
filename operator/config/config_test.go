package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"nstance.dev/operator/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const file = `
cluster_id: example
tenant: acme
shards:
  us-west-2b: { operator_addr: "10.0.0.2:8993" }
  us-west-2a: { registration_addr: "reg.example:9000", operator_addr: "[2001:db8::1]:8993, 10.0.0.4:8993" }
import: { pools: per-shard, exclude: [control-plane] }
`

var parsed = config.Config{
	ClusterID: "example", Tenant: "acme",
	Shards: []config.Shard{
		{Name: "us-west-2b", Operator: []string{"10.0.0.2:8993"}, Registration: []string{"10.0.0.2:8992"}},
		{Name: "us-west-2a", Operator: []string{"[2001:db8::1]:8993", "10.0.0.4:8993"}, Registration: []string{"reg.example:9000"}},
	},
	Import: config.Import{Enabled: true, Pools: config.PerShard, Exclude: []string{"control-plane"}},
}

func TestParse(t *testing.T) {
	small := func(shards ...config.Shard) config.Config {
		return config.Config{ClusterID: "c", Tenant: "default", Shards: shards, Import: config.Import{Enabled: true, Pools: config.Aggregate}}
	}
	for _, tt := range []struct {
		name string
		src  config.Sources
		want config.Config
	}{
		{"everything, and the order of the shards", config.Sources{File: []byte(file)}, parsed},
		{
			"defaults", config.Sources{File: []byte("cluster_id: c\nshards: {a: {operator_addr: h:1}}")},
			small(config.Shard{Name: "a", Operator: []string{"h:1"}, Registration: []string{"h:8992"}}),
		},
		{
			"zone and region", config.Sources{File: []byte("cluster_id: c\nshards: {a: {operator_addr: h:1, zone: us-1a, region: us-1}}")},
			small(config.Shard{Name: "a", Operator: []string{"h:1"}, Registration: []string{"h:8992"}, Zone: "us-1a", Region: "us-1"}),
		},
		{
			"servers of one host need one registration address",
			config.Sources{File: []byte(`{cluster_id: c, shards: {a: {operator_addr: "h:1,h:2"}}}`)},
			small(config.Shard{Name: "a", Operator: []string{"h:1", "h:2"}, Registration: []string{"h:8992"}}),
		},
		{
			"a ConfigMap with a key for each shard", config.Sources{
				File:   []byte("cluster_id: c\nshards: {old: {operator_addr: overruled}}"),
				Shards: map[string]string{"b": "[2001:db8::1]:8993", "a": "10.0.0.1:8993"},
			},
			small(
				config.Shard{Name: "a", Operator: []string{"10.0.0.1:8993"}, Registration: []string{"10.0.0.1:8992"}},
				config.Shard{Name: "b", Operator: []string{"[2001:db8::1]:8993"}, Registration: []string{"[2001:db8::1]:8992"}},
			),
		},
		{
			"a ConfigMap with the mapping of the file", config.Sources{
				File:   []byte("cluster_id: c"),
				Shards: map[string]string{"shards.yaml": "z: {operator_addr: h:1, registration_addr: h:2}\ny: {operator_addr: h:3}"},
			},
			small(
				config.Shard{Name: "z", Operator: []string{"h:1"}, Registration: []string{"h:2"}},
				config.Shard{Name: "y", Operator: []string{"h:3"}, Registration: []string{"h:8992"}},
			),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := config.Parse(tt.src)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseReportsEverythingThatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name string
		src  config.Sources
		want []string
	}{
		{"empty", config.Sources{}, []string{"configuration file: it is empty"}},
		{"no YAML", config.Sources{File: []byte("a: b: c")}, []string{"configuration file: it is not YAML: mapping values are not allowed in this context"}},
		{"a list", config.Sources{File: []byte("[1]")}, []string{"configuration file line 1: it must be a mapping of keys to values"}},
		{"nothing in it", config.Sources{File: []byte("tenant: x")}, []string{
			"configuration file: cluster_id: it is missing; it is the id in the servers' configuration",
			"configuration file: shards: it is missing; list at least one shard",
		}},
		{"two documents", config.Sources{File: []byte("cluster_id: c\nshards: {a: {operator_addr: h:1}}\n---\nimport: {enabled: false}")}, []string{
			"configuration file line 3: what follows --- would be overlooked; write one document",
		}},
		{"missing keys beside a mistake", config.Sources{File: []byte("tenant: 7")}, []string{
			"configuration file line 1: tenant: it must be a string; put it in quotes",
			"configuration file: cluster_id: it is missing; it is the id in the servers' configuration",
			"configuration file: shards: it is missing; list at least one shard",
		}},
		{"no shards", config.Sources{File: []byte("cluster_id: x\nshards: {}")}, []string{
			"configuration file line 2: shards: it is empty; list at least one shard",
		}},
		{"shards left out", config.Sources{File: []byte("cluster_id: x")}, []string{
			"configuration file: shards: it is missing; list at least one shard",
		}},
		{"many mistakes", config.Sources{File: []byte(`cluster_id: Big
tenant: 7
shards:
  a: { operator_addr: "10.0.0.1", registration_addr: "h:70000", port: 1 }
  b: { operator_addr: "h:1,h:1" }
  b: { operator_addr: "h:2" }
  c--d: {}
  e: text
import: { enabled: maybe, pools: one, exclude: x }
shard: {}
`)}, []string{
			`configuration file line 1: cluster_id: invalid name "Big": character 1 is not one of a to z, 0 to 9 and "-"`,
			`configuration file line 2: tenant: it must be a string; put it in quotes`,
			`configuration file line 9: import.enabled: it must be true or false`,
			`configuration file line 9: import.pools: "one" is neither "aggregate" nor "per-shard"`,
			`configuration file line 9: import.exclude: it must be a list`,
			`configuration file line 10: shard: unknown key; known here are cluster_id, import, shards, tenant`,
			`configuration file line 6: shards.b: the key is there twice; remove one`,
			`configuration file line 4: shards.a.port: unknown key; known here are operator_addr, region, registration_addr, zone`,
			`configuration file line 4: shards.a.operator_addr: address "10.0.0.1" is not host:port, such as 10.0.0.1:8993 or [2001:db8::1]:8993`,
			`configuration file line 4: shards.a.registration_addr: address "h:70000": its port is not a number from 1 to 65535`,
			`configuration file line 5: shards.b.operator_addr: address h:1 is there already, in shards.b.operator_addr; each shard has servers of its own`,
			`configuration file line 7: shards.c--d: invalid name "c--d": it contains "--"`,
			`configuration file line 7: shards.c--d.operator_addr: the address is missing; write host:port, such as 10.0.0.1:8993`,
			`configuration file line 8: shards.e: it must be a mapping of keys to values`,
			`configuration file line 8: shards.e.operator_addr: the address is missing; write host:port, such as 10.0.0.1:8993`,
		}},
		{"two shards at one address", config.Sources{File: []byte("cluster_id: x"), Shards: map[string]string{"a": "h:1", "b": "h:1"}}, []string{
			"shards ConfigMap: b: address h:1 is there already, in a; each shard has servers of its own",
		}},
		{"an empty ConfigMap", config.Sources{File: []byte("cluster_id: x"), Shards: map[string]string{}}, []string{
			"shards ConfigMap: it is empty; list at least one shard",
		}},
		{"both forms in a ConfigMap", config.Sources{File: []byte("cluster_id: x"), Shards: map[string]string{
			"shards.yaml": "a: {operator_addr: 'h :1'}", "b": "h:1",
		}}, []string{
			"shards ConfigMap: shards.yaml: the other keys beside it would be overlooked; remove them or this one",
			`shards ConfigMap shards.yaml line 1: a.operator_addr: address "h :1": its host is neither a name nor an IP address`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := config.Parse(tt.src)
			var invalid *config.InvalidError
			if !errors.As(err, &invalid) || !errors.Is(err, config.ErrInvalid) {
				t.Fatalf("error %v", err)
			}
			var problems []string
			for _, p := range invalid.Problems {
				problems = append(problems, p.String())
			}
			if diff := cmp.Diff(tt.want, problems); diff != "" {
				t.Error(diff)
			}
			if got.Shards != nil {
				t.Errorf("a configuration came with the error: %+v", got)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	shard := func(name, addr string) config.Shard {
		return config.Shard{Name: name, Operator: []string{addr}, Registration: []string{"r" + addr}}
	}
	a, b, c := shard("a", "1"), shard("b", "2"), shard("c", "3")
	of := func(shards ...config.Shard) config.Config {
		return config.Config{ClusterID: "x", Tenant: "t", Shards: shards}
	}
	with := func(imports config.Import) config.Config {
		out := of(a)
		out.Import = imports
		return out
	}
	for _, tt := range []struct {
		name      string
		old, next config.Config
		want      config.Change
	}{
		{"nothing", of(a, b), of(a, b), config.Change{}},
		{"one more, one less", of(a, b), of(c, b), config.Change{Added: []string{"c"}, Removed: []string{"a"}}},
		{"another order", of(a, b), of(b, a), config.Change{Reordered: true}},
		{"another place", of(a, b), of(a, shard("b", "9")), config.Change{Readdressed: []string{"b"}}},
		{"two swap places", of(a, b), of(shard("a", "2"), shard("b", "1")), config.Change{Readdressed: []string{"a", "b"}}},
		{"another zone", of(a, b), of(a, config.Shard{Name: "b", Operator: b.Operator, Registration: b.Registration, Zone: "z"}), config.Change{Moved: []string{"b"}}},
		{"another import", with(config.Import{Exclude: []string{"x"}}), with(config.Import{Exclude: []string{"y"}}), config.Change{Import: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := config.Diff(tt.old, tt.next)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDiffRefusesAnotherClusterOrTenant(t *testing.T) {
	old := config.Config{ClusterID: "x", Tenant: "t"}
	for _, next := range []config.Config{{ClusterID: "y", Tenant: "t"}, {ClusterID: "x", Tenant: "u"}} {
		if _, err := config.Diff(old, next); !errors.Is(err, config.ErrFixed) || !strings.Contains(err.Error(), "restart") {
			t.Errorf("error %v", err)
		}
	}
}

func TestFind(t *testing.T) {
	if got, ok := parsed.Find("us-west-2a"); !ok || got.Registration[0] != "reg.example:9000" {
		t.Errorf("found %+v, %t", got, ok)
	}
	if _, ok := parsed.Find("nowhere"); ok {
		t.Error("found a shard that is not there")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(file), "", "")
	f.Add([]byte("cluster_id: c"), "shards.yaml", "a: {operator_addr: h:1}")
	f.Add([]byte("a: &x [*x]\nshards: *x"), "a", "h:1")
	f.Fuzz(func(t *testing.T, text []byte, key, value string) {
		src := config.Sources{File: text}
		if key != "" {
			src.Shards = map[string]string{key: value}
		}
		c, err := config.Parse(src)
		if err != nil {
			if !errors.Is(err, config.ErrInvalid) {
				t.Errorf("error %v", err)
			}
			return
		}
		if change, err := config.Diff(c, c); err != nil || !change.Empty() {
			t.Errorf("it differs from itself: %+v, %v", change, err)
		}
		for _, s := range c.Shards {
			for _, addr := range append(s.Operator, s.Registration...) {
				if err := config.CheckAddress(addr); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
