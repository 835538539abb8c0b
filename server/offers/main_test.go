package offers

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/server/config"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is a Monday, 08:00 in UTC.
var start = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// shardDocument is a shard; the markers are filled in by the cases.
const shardDocument = `{
  "server": {
    "cluster_id": "c", "shard": "s1", "provider": { "kind": "local", "zone": "z1", "region": "r1" }, "subnet_pools": { "p": ["n"] }, "admin_tenants": [],
    "demand": { SERVER }
  },
  "tenants": { "b": { "quota": { "machines": 10 } } },
  "templates": {
    "t": { "kind": "knc", "arch": "amd64", "instance_type": "m.large", "subnet_pool": "p", "node": { "labels": { "tier": "x" } } TEMPLATE },
    "arm": { "kind": "arm", "arch": "arm64", "instance_type": "g.large", "subnet_pool": "p" }
  },
  "groups": { "default": { GROUPS }, "b": { TENANT } }
}`

// rules are those of a provider that serves everything but bare metal.
var rules = &driver.Rules{
	Capacity: &driver.CapacityRules{
		Types:        []driver.CapacityType{driver.OnDemand, driver.Spot, driver.Reserved},
		Interruption: func(name string) float64 { return map[string]float64{"m.large": 0.0001, "m.xlarge": 0.0003}[name] },
		Family:       func(name string) string { family, _, _ := strings.Cut(name, "."); return family },
	},
	Traits: func(name string, _ map[string]any) driver.Traits {
		if name == "sized" {
			return driver.Traits{VCPU: 2, MemoryMiB: 4096, DiskGiB: 20}
		}
		return driver.Traits{Interruptible: name == "taken"}
	},
}

// listing is what the provider lists.
var listing = []driver.InstanceType{
	{Name: "m.large", Arch: "amd64", Family: "m", VCPU: 2, MemoryMiB: 8192, HourlyUSD: 0.10, SpotUSD: 0.03, MaxPods: 29},
	{Name: "m.xlarge", Arch: "amd64", Family: "m", VCPU: 4, MemoryMiB: 16384, HourlyUSD: 0.20, SpotUSD: 0.07, MaxPods: 58, InterruptionPerHour: 0.0002},
	{Name: "c.large", Arch: "amd64", Family: "c", VCPU: 2, MemoryMiB: 4096, HourlyUSD: 0.085},
	{Name: "g.large", Arch: "arm64", Family: "g", VCPU: 2, MemoryMiB: 8192, HourlyUSD: 0.08},
	{Name: "p.big", Arch: "amd64", Family: "p", VCPU: 8, MemoryMiB: 61440, GPUs: 4, GPUModel: "T4", GPUMemoryMiB: 65536, EphemeralGiB: 100, HourlyUSD: 3.9,
		Extended: []driver.Resource{{Name: "nvidia.com/gpu", Count: 4}}},
	{Name: "x.odd", Arch: "amd64", Family: "x", VCPU: 2, MemoryMiB: 7680},
}

// parts are what stands in the places of the document.
type parts struct{ server, template, groups, tenant string }

func load(t testing.TB, p parts) *effective.Config {
	t.Helper()
	text := strings.NewReplacer("SERVER", p.server, "TEMPLATE", p.template, "GROUPS", p.groups, "TENANT", p.tenant).Replace(shardDocument)
	cfg, err := config.Load("f", []byte(text), config.LoadOptions{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// input is what a configuration gives, with the listing.
func input(cfg *effective.Config, file *groupfile.File) Input {
	in := Input{Config: cfg, Types: listing, HasCatalogue: true, Now: start}
	groups, _ := effective.Groups(cfg, file)
	for _, g := range groups {
		in.Groups = append(in.Groups, g)
	}
	return in
}

func bookOf(t testing.TB, p parts) *Book {
	t.Helper()
	return Of(input(load(t, p), nil))
}
