package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/config"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/offers"
)

const shard = `{
  "server": { "cluster_id": "c", "shard": "s1", "provider": { "kind": "local", "zone": "z1" }, "subnet_pools": { "p": ["n"] }, "admin_tenants": [],
    "demand": { "interruptions": [ { "hour": 0.01 } ], SERVER } },
  "tenants": { "b": {} },
  "templates": { "t": { "kind": "knc", "arch": "amd64", "instance_type": ["a", "b"], "subnet_pool": "p", "tenants": ["default", "b"],
    "node": { "reserved": { "cpu": 0, "memory": 0 }, "max_pods": 110 } } },
  "groups": { "default": { "g": { "template": "t", "mode": "demand", "demand": { DEMAND } } } }
}`

// listing are the two types of the cost rule's example: 2 processors and 8 GiB, 16 and 64, and what a kubelet
// keeps for itself.
var listing = []driver.InstanceType{
	{Name: "a", Arch: "amd64", VCPU: 2, MemoryMiB: 8192 + 100, HourlyUSD: 0.10, SpotUSD: 0.04},
	{Name: "b", Arch: "amd64", VCPU: 16, MemoryMiB: 65536 + 100, HourlyUSD: 0.76},
}

func run(t *testing.T, server, settings, needs string) (Plan, error) {
	t.Helper()
	if server == "" {
		server = `"dry_run": false`
	}
	text := strings.NewReplacer("SERVER", server, "DEMAND", settings).Replace(shard)
	cfg, err := config.Load("f", []byte(text), config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := Parse([]byte(needs))
	if err != nil {
		return Plan{}, err
	}
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	in := offers.Input{Config: cfg, Types: listing, HasCatalogue: true, Now: now}
	groups, _ := effective.Groups(cfg, nil)
	for _, g := range groups {
		in.Groups = append(in.Groups, g)
	}
	return Run(cfg, offers.Of(in), file, now)
}

// bought are purchases in short.
func bought(p Plan) []string {
	var all []string
	for _, one := range p.Purchases {
		all = append(all, strings.Join([]string{one.Cluster, one.Need, strings.Repeat("+", one.Machines), one.InstanceType, one.CapacityType}, " "))
	}
	for _, s := range p.Shortfalls {
		all = append(all, strings.Join([]string{s.Cluster, s.Need, s.Reason}, " "))
	}
	return append(all, p.HourlyCost.String())
}

func TestWhatWouldBeBought(t *testing.T) {
	for name, c := range map[string]struct {
		server, demand, needs string
		want                  []string
	}{
		"the cost rule": { // 20 processors and 40 GiB: one large machine, then two small ones
			"", "", `clusters: {default: {needs: [{name: web, aggregate: {cpu: 20, memory: 40Gi}, min_unit: {cpu: 1, memory: 2Gi}}]}}`,
			[]string{"default web + b on-demand", "default web ++ a on-demand", "0.96"},
		},
		"spot, and what an interruption costs": {
			"", `"capacity_types": ["on-demand", "spot"]`, `clusters: {default: {needs: [
				{name: cheap, pods: 1, requests: {cpu: 2, memory: 8Gi}}, {name: dear, pods: 1, requests: {cpu: 2, memory: 8Gi}, interruption_penalty: 16}]}}`,
			[]string{"default cheap + a spot", "default dear + a on-demand", "0.14"},
		},
		"the minimum, and warm machines": {
			"", `"min": 2, "min_idle": 1`, `clusters: {default: {needs: []}}`, []string{"default  ++ a on-demand", "  + a on-demand", "0.3"},
		},
		"DaemonSets": {
			"", "", `clusters: {default: {needs: [{name: web, pods: 1, requests: {cpu: 2, memory: 1Gi}}], daemon_sets: [{requests: {cpu: 100m}}]}}`,
			[]string{"default web + b on-demand", "0.76"},
		},
		"limits of the shard": {
			`"max_hourly_spend": { "default": 0.25 }, "quota_pools": { "cpus": { "limit": 100, "counts": "vcpu" } }`, "",
			`clusters: {default: {needs: [{name: web, pods: 4, requests: {cpu: 2, memory: 1Gi}}]}}`,
			[]string{"default web ++ a on-demand", "default web RailHeld", "0.2"},
		},
		"needs that no offer serves": {
			"", "", `clusters: {default: {needs: [{pods: 1, requests: {cpu: 17}}, {name: arm, pods: 1, requests: {cpu: 1}, requirements: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}]}, b: {needs: [{pods: 1, requests: {cpu: 1}}]}}`,
			[]string{"b 0 NoMatchingOffer", "default 0 NoMatchingOffer", "default arm NoMatchingOffer", "0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := run(t, c.server, c.demand, c.needs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, bought(plan)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestWhyItIsBought(t *testing.T) {
	plan, err := run(t, "", `"capacity_types": ["on-demand", "spot"]`, `clusters: {default: {needs: [
		{name: cheap, pods: 1, requests: {cpu: 2, memory: 8Gi}, interruption_penalty: 0.5}, {name: large, pods: 1, requests: {cpu: 3, memory: 8Gi}}, {name: gpu, pods: 2, requests: {nvidia.com/gpu: 1}}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	var why []string
	for _, p := range plan.Purchases {
		why = append(why, p.Why)
	}
	want := []string{
		"the least cost for what it covers, of 3 offers that serve the need; with the risk of interruption it counts as 0.045 an hour",
		"the only offer that serves the need",
	}
	if diff := cmp.Diff(want, why); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(plan.Shortfalls) != 1 || plan.Shortfalls[0].Missing["nvidia.com/gpu"] != 2 {
		t.Errorf("shortfalls %+v", plan.Shortfalls)
	}
}

func TestNeedsThatMeanNothingAreRefused(t *testing.T) {
	const need = "clusters: {default: {needs: [{"
	for needs, want := range map[string]string{
		"": "clusters: none", "clusters: []": "clusters", need + "pod: 1}]}}": "pod", "clusters: {x: {}}": "clusters.x: there is no such tenant",
		need + "}]}}": "needs[0]: write either pods and requests, or aggregate and min_unit",
		need + "pods: 1, aggregate: {cpu: 1}}]}}":                                          "write either",
		need + "pods: -1, requests: {cpu: 1}}]}}":                                          "pods: -1 is not from 1 to 1000000",
		need + "pods: 1, requests: {cpu: many}}]}}":                                        `cpu: "many" is not a quantity`,
		need + "pods: 1000000, requests: {memory: 7Ei}}]}}":                                "memory: too much",
		need + "aggregate: {cpu: 1}, min_unit: {cpu: 2}}]}}":                               "min_unit.cpu: more than the aggregate",
		need + "pods: 1, requests: {cpu: 1}, requirements: [{key: a, operator: Is}]}]}}":   `requirements[0].operator: "Is" must be one of`,
		need + "pods: 1, requests: {cpu: 1}, requirements: [{operator: Exists}]}]}}":       "requirements[0].key: required",
		need + "pods: 1, requests: {cpu: 1}, alternatives: [[{key: a, operator: Is}]]}]}}": "alternatives[0]: requirements[0].operator",
		need + "pods: 1, requests: {cpu: 1}, tolerations: [{key: a, effect: No}]}]}}":      "tolerations[0]: operator must be",
		need + "pods: 1, requests: {cpu: 1}, interruption_penalty: -1}]}}":                 "not a decimal number",
		"clusters: {default: {needs: [], daemon_sets: [{requests: {cpu: x}}]}}":            `daemon_sets[0]: cpu: "x" is not a quantity`,
	} {
		if _, err := run(t, "", "", needs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", needs, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`clusters: {default: {needs: [{name: web, pods: 3, requests: {cpu: 500m}, spread: [{topology_key: zone}], same: rack, all_or_nothing: true}]}}`)
	f.Add(`{"clusters": {"b": {"needs": [{"aggregate": {"cpu": 1}, "min_unit": {}}]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse([]byte(text))
		if err != nil {
			return
		}
		for tenant, cluster := range file.Clusters {
			rollup, err := cluster.rollup(tenant)
			if err != nil {
				continue
			}
			for i, row := range rollup.Rows {
				if indexOf(row.Key) != i {
					t.Errorf("the key of need %d leads to need %d", i, indexOf(row.Key))
				}
				for _, a := range append(row.Aggregate, row.MinUnit...) {
					if a.Amount < 0 {
						t.Errorf("need %d asks for %d of %s", i, a.Amount, a.Name)
					}
				}
			}
		}
	})
}

// TestFilesThatAreNotUnderstood: place, reason and remedy of each.
func TestFilesThatAreNotUnderstood(t *testing.T) {
	const help = "; nstance-admin demand simulate --help shows a file"
	for text, want := range map[string]string{
		"clusters: []": "clusters: expected an object, found a list" + help,
		"clusters: {default: {needs: [{pods: 1, priority: high}]}}":             "clusters.needs.priority: expected a whole number, found a string" + help,
		"clusters: {default: {needs: [{pods: 1, all_or_nothing: 3}]}}":          "clusters.needs.all_or_nothing: expected true or false, found a number" + help,
		"clusters: {default: {needs: [{podz: 1}]}}":                             `unknown key "podz"` + help,
		"clusters: {default: {needs: [{pods: 1, interruption_penalty: lots}]}}": `"lots" is not a decimal number` + help,
		"clusters: [": "yaml: line 1: did not find expected node content" + help,
	} {
		if _, err := Parse([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	const want = "the file: expected a list, found an object; it is a list of types"
	if _, err := ParseTypes([]byte("{a: 1}")); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("types: %v, want %s", err, want)
	}
}
