package offers

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/driver"
)

// lines are offers as tests compare them: name, price, probability, limit, pools.
func lines(b *Book) []string {
	var all []string
	for _, o := range b.Offers {
		line := fmt.Sprintf("%s %d", o.Name, o.PricePerHour)
		if ppm := o.Class.InterruptionPPM; ppm > 0 {
			line += fmt.Sprintf(" %dppm", ppm)
		}
		if o.Limit >= 0 {
			line += fmt.Sprintf(" at most %d", o.Limit)
		}
		for _, use := range o.Pools {
			if use.Pool == "tenant/default" {
				continue // in all of them, for the shard has several tenants
			}
			line += fmt.Sprintf(" %s:%d", use.Pool, use.Units)
		}
		all = append(all, line)
	}
	return all
}

func TestOffersOfAGroup(t *testing.T) {
	const demandOf = `"g": { "template": "t", "mode": "demand", `
	for name, c := range map[string]struct {
		parts    parts
		want     []string
		problems []string
	}{
		"the template's type, on demand": {
			parts{groups: demandOf + `"demand": {} }`}, []string{"default/g/m.large/on-demand 100000"}, nil,
		},
		"types in no order, two ways to pay": {
			parts{groups: demandOf + `"instance_type": ["m.xlarge", "m.large"], "demand": { "capacity_types": ["spot", "on-demand"] } }`},
			[]string{
				"default/g/m.large/on-demand 100000", "default/g/m.large/spot 30000 100ppm",
				"default/g/m.xlarge/on-demand 200000", "default/g/m.xlarge/spot 70000 200ppm",
			}, nil,
		},
		"prices and interruptions of the configuration count first": {
			parts{
				server: `"prices": [ { "instance_types": ["m.large"], "hour": 0.5 }, { "families": ["m"], "capacity_types": ["spot"], "vcpu_hour": 0.01, "gib_hour": 0.001 } ],
					"interruptions": [ { "families": ["m"], "month": 0.05 } ]`,
				groups: demandOf + `"demand": { "capacity_types": ["spot", "on-demand"] } }`,
			},
			[]string{"default/g/m.large/on-demand 500000", "default/g/m.large/spot 28000 68ppm"}, nil,
		},
		"without a price nothing is bought": {
			parts{groups: demandOf + `"instance_type": ["c.large", "x.odd"], "demand": { "capacity_types": ["spot", "on-demand"] } }`, server: `"interruptions": [ { "hour": 0.001 } ]`},
			[]string{"default/g/c.large/on-demand 85000"},
			[]string{"x.odd has no price for on-demand capacity: add one to server.demand.prices", "c.large, x.odd has no price for spot capacity: add one to server.demand.prices"},
		},
		"a type that is not listed": {
			parts{groups: demandOf + `"instance_type": ["m.large", "new"] }`}, []string{"default/g/m.large/on-demand 100000"},
			[]string{"the size of new is not known: the provider does not list it in this zone"},
		},
		"a type whose size its name says": {
			parts{groups: demandOf + `"instance_type": "sized" }`, server: `"prices": [ { "vcpu_hour": 0.02, "gib_hour": 0.0025 } ]`},
			[]string{"default/g/sized/on-demand 50000"}, nil,
		},
		"a type of another architecture": {
			parts{groups: demandOf + `"instance_type": ["m.large", "g.large"] }`}, []string{"default/g/m.large/on-demand 100000"},
			[]string{"instance type g.large is arm64, and the template is amd64"},
		},
		"reservations": {
			parts{groups: demandOf + `"demand": { "reservations": [
				{ "id": "cr-1", "instance_type": "m.xlarge", "count": 3 }, { "id": "cr-2", "instance_type": "m.xlarge", "zone": "z2", "count": 3 },
				{ "id": "cr-3", "instance_type": "g.large", "count": 1 }, { "id": "cr-4", "instance_type": "nil", "zone": "z1", "count": 1 },
				{ "id": "cr-5", "instance_type": "x.odd", "count": 1 } ] } }`},
			[]string{"default/g/m.large/on-demand 100000", "default/g/m.xlarge/reserved/cr-1 200000 at most 3", "default/g/x.odd/reserved/cr-5 0 at most 1"},
			[]string{
				"reservation cr-3 is of type g.large, which is arm64, and the template is amd64",
				"the size of nil, of reservation cr-4, is not known: the provider does not list it in this zone",
			},
		},
		"reserved capacity alone": {
			parts{groups: demandOf + `"demand": { "capacity_types": [], "reservations": [ { "id": "cr-1", "instance_type": "m.large", "count": 1 } ] } }`},
			[]string{"default/g/m.large/reserved/cr-1 100000 at most 1"}, nil,
		},
		"quota pools": {
			parts{
				server: `"quota_pools": {
					"cpus": { "limit": 96, "counts": "vcpu", "families": ["m"] }, "mem": { "limit": 10, "counts": "memory_gib", "instance_types": ["x.odd"], "capacity_types": ["reserved"] },
					"slots": { "limit": 7, "groups": ["default/g"] }, "gpus": { "limit": 4, "counts": "gpu" }, "others": { "limit": 1, "groups": ["b/x"] } }`,
				groups: demandOf + `"demand": { "weight": 2, "reservations": [ { "id": "r", "instance_type": "x.odd", "count": 1 } ] } }`,
			},
			[]string{"default/g/m.large/on-demand 100000 quota/cpus:2 quota/slots:2", "default/g/x.odd/reserved/r 0 at most 1 quota/mem:8 quota/slots:2"}, nil,
		},
		"a tenant's quota": {
			parts{tenant: `"web": { "template": "t", "mode": "demand" }`, template: `, "tenants": ["b"]`},
			[]string{"b/web/m.large/on-demand 100000 tenant/b:1"}, nil,
		},
		"a limit of nothing": {
			parts{groups: demandOf + `"demand": { "limits": { "hourly_spend": 0 } } }`}, []string{"default/g/m.large/on-demand 100000 at most 0"}, nil,
		},
		"limits below one machine": {
			parts{groups: demandOf + `"instance_type": ["m.large", "m.xlarge"], "demand": { "limits": { "vcpu": 3, "memory_gib": 100, "hourly_spend": 0.2 } } }`},
			[]string{"default/g/m.large/on-demand 100000", "default/g/m.xlarge/on-demand 200000"},
			[]string{"demand.limits.vcpu is less than one m.xlarge needs: raise it, or take a smaller type"},
		},
		"a spend below one machine": {
			parts{groups: demandOf + `"demand": { "limits": { "hourly_spend": 0.09 } } }`}, []string{"default/g/m.large/on-demand 100000"},
			[]string{"demand.limits.hourly_spend is less than one m.large needs: raise it, or take a smaller type"},
		},
		"all of it reserved": {
			parts{groups: demandOf + `"node": { "reserved": { "memory": "8Gi" } } }`}, []string{"default/g/m.large/on-demand 100000"},
			[]string{"m.large leaves no memory for Pods: lower node.reserved, or take a larger type"},
		},
		"requirements": {
			parts{groups: demandOf + `"instance_requirements": { "vcpu": { "min": 2 }, "memory_gib": { "min": 8 }, "families_out": ["x"] } }`},
			[]string{"default/g/m.large/on-demand 100000", "default/g/m.xlarge/on-demand 200000"}, nil,
		},
		"requirements that nothing meets": {
			parts{groups: demandOf + `"instance_requirements": { "vcpu": { "min": 2 }, "memory_gib": { "min": 99 } } }`}, nil,
			[]string{"instance_requirements: no instance type is left of those that the provider lists: memory_gib excludes the last ones"},
		},
		"of fixed size": {parts{groups: `"g": { "template": "t", "size": 3 }`}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := bookOf(t, c.parts)
			if diff := cmp.Diff(c.want, lines(b)); diff != "" {
				t.Errorf("offers (-want +got)\n%s", diff)
			}
			var problems []string
			for _, state := range b.States {
				problems = append(problems, state.Problems...)
			}
			if diff := cmp.Diff(c.problems, problems); diff != "" {
				t.Errorf("problems (-want +got)\n%s", diff)
			}
			for _, o := range b.Offers {
				source, ok := b.Source(o.Name)
				if !ok || source.Group.String() != o.Class.Group || source.InstanceType != o.Class.InstanceType || string(source.CapacityType) != string(o.Class.CapacityType) {
					t.Errorf("offer %s stands for %+v", o.Name, source)
				}
			}
			e, err := demand.New(demand.Settings{NewID: func(string) string { return "id" }})
			if err != nil {
				t.Fatal(err)
			}
			if rejected := e.Step(start, []demand.Event{demand.OffersChanged{Offers: b.Offers}}).Rejected; len(rejected) > 0 {
				t.Errorf("the engine takes no such offers: %v", rejected)
			}
		})
	}
}

func TestClassOfAMachine(t *testing.T) {
	b := bookOf(t, parts{groups: `"g": {
		"template": "t", "mode": "demand", "instance_type": "p.big",
		"node": {
			"labels": { "team": "a" }, "taints": [ { "key": "gpu", "value": "yes", "effect": "NoSchedule" }, { "key": "a", "effect": "NoExecute" } ],
			"startup_taints": [ { "key": "cni", "effect": "NoExecute" } ], "max_pods": 20
		} }`})
	got, ok := b.Describe(document.GroupKey{Tenant: "default", Group: "g"}, "p.big", driver.OnDemand, "")
	want := Description{
		Offer: "default/g/p.big/on-demand", Price: 3_900_000, Known: true, StartupTaints: []document.Taint{{Key: "cni", Effect: "NoExecute"}},
		Pools:    []demand.PoolUse{{Pool: "tenant/default", Units: 1}},
		Capacity: []vector.Amount{{Name: "cpu", Amount: 8000}, {Name: "memory", Amount: 61440 << 20}, {Name: "nvidia.com/gpu", Amount: 4}},
		Class: demand.Class{
			Group: "default/g", InstanceType: "p.big", CapacityType: demand.OnDemand,
			Labels: map[string]string{
				"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "p.big", "nstance.dev/capacity-type": "on-demand",
				"nstance.dev/group": "g", "nstance.dev/shard": "s1", "team": "a", "tier": "x", "topology.kubernetes.io/region": "r1", "topology.kubernetes.io/zone": "z1",
			},
			Taints: []match.Taint{{Key: "a", Effect: match.NoExecute}, {Key: "gpu", Value: "yes", Effect: match.NoSchedule}},
			Allocatable: []vector.Amount{
				{Name: "cpu", Amount: 8000 - 60 - 70}, {Name: "ephemeral-storage", Amount: 90 << 30},
				{Name: "memory", Amount: (61440 - 255 - 11*20 - 100) << 20}, {Name: "nvidia.com/gpu", Amount: 4}, {Name: "pods", Amount: 20},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("(-want +got)\n%s", diff)
	}
	gone, ok := b.Describe(document.GroupKey{Tenant: "default", Group: "g"}, "gone", "", "")
	if !ok || gone.Known || gone.Offer != "default/g/gone/on-demand" || gone.Capacity != nil || gone.Class.Allocatable != nil || gone.Class.Labels["nstance.dev/group"] != "g" {
		t.Errorf("a type that is listed no longer: %+v", gone)
	}
	if _, ok := b.Describe(document.GroupKey{Tenant: "default", Group: "other"}, "p.big", "", ""); ok {
		t.Error("a machine of no group is described")
	}
}

// TestFixedSupplyIsDescribed: machines of a group of fixed size have a class too, by what their
// arguments say of the market.
func TestFixedSupplyIsDescribed(t *testing.T) {
	b := bookOf(t, parts{groups: `"g": { "template": "t", "instance_type": "taken", "size": 1 }`})
	got, ok := b.Describe(document.GroupKey{Tenant: "default", Group: "g"}, "m.large", "", "")
	if !ok || got.Class.CapacityType != demand.Spot || len(got.Class.Allocatable) == 0 || got.Price != 30_000 || got.InterruptionPPM != 100 {
		t.Errorf("%+v", got)
	}
}

// TestReservedForTheSystem: the default formula, and what the configuration says instead.
func TestReservedForTheSystem(t *testing.T) {
	pods := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		kind driver.InstanceType
		node document.Node
		want []vector.Amount
	}{
		"by the formula": {
			driver.InstanceType{VCPU: 4, MemoryMiB: 16384, MaxPods: 58}, document.Node{},
			[]vector.Amount{{Name: "cpu", Amount: 3910}, {Name: "memory", Amount: (16384 - 255 - 11*58 - 100) << 20}, {Name: "pods", Amount: 58}},
		},
		"110 Pods where nobody says": {
			driver.InstanceType{VCPU: 1, MemoryMiB: 4096}, document.Node{},
			[]vector.Amount{{Name: "cpu", Amount: 940}, {Name: "memory", Amount: (4096 - 255 - 1210 - 100) << 20}, {Name: "pods", Amount: 110}},
		},
		"as the group says": {
			driver.InstanceType{VCPU: 2, MemoryMiB: 8192, EphemeralGiB: 10},
			document.Node{MaxPods: pods(30), Reserved: map[string]document.Quantity{"cpu": "500m", "memory": "1Gi", "pods": "4", "ephemeral-storage": "4Gi"}},
			[]vector.Amount{{Name: "cpu", Amount: 1500}, {Name: "ephemeral-storage", Amount: 6 << 30}, {Name: "memory", Amount: (8192 - 1024 - 100) << 20}, {Name: "pods", Amount: 26}},
		},
		"more reserved than there is": {
			driver.InstanceType{VCPU: 1, MemoryMiB: 512}, document.Node{},
			[]vector.Amount{{Name: "cpu", Amount: 940}, {Name: "pods", Amount: 110}},
		},
		"of a size that nobody knows": {driver.InstanceType{VCPU: 4}, document.Node{}, nil},
	} {
		got := allocatable(&effective.Group{Node: c.node}, c.kind)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// TestRequirementsChooseTypes: each one by itself, and at most sixty of them, the cheapest for a processor.
func TestRequirementsChooseTypes(t *testing.T) {
	for needs, want := range map[string]string{
		`{}`:                                         "c.large m.large m.xlarge x.odd",
		`{ "arch": ["amd64"] }`:                      "c.large m.large m.xlarge x.odd",
		`{ "vcpu": { "min": 3 } }`:                   "m.xlarge",
		`{ "vcpu": { "max": 2 } }`:                   "c.large m.large x.odd",
		`{ "memory_gib": { "min": 8 } }`:             "m.large m.xlarge",
		`{ "memory_gib": { "max": 7 } }`:             "c.large",
		`{ "memory_gib": { "min": 7, "max": 8 } }`:   "m.large x.odd",
		`{ "families_in": ["m", "p"] }`:              "m.large m.xlarge",
		`{ "families_out": ["m"] }`:                  "c.large x.odd",
		`{ "gpu": {} }`:                              "p.big",
		`{ "gpu": { "names": ["T4"] } }`:             "p.big",
		`{ "gpu": { "names": ["A100"] } }`:           "instance_requirements: no instance type is left of those that the provider lists: gpu.names excludes the last ones",
		`{ "gpu": { "count": { "min": 4 } } }`:       "p.big",
		`{ "gpu": { "memory_gib": { "max": 63 } } }`: "instance_requirements: no instance type is left of those that the provider lists: gpu.memory_gib excludes the last ones",
		`{ "families_in": ["p"] }`:                   "instance_requirements: no instance type is left of those that the provider lists: gpu, which is not set, excludes the last ones",
	} {
		in := input(load(t, parts{groups: `"g": { "template": "t", "mode": "demand", "instance_requirements": ` + needs + ` }`}), nil)
		s := newShard(in)
		names, _, err := s.resolved(in.Groups[0])
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", needs, got, want)
		}
	}
	in := input(load(t, parts{groups: `"g": { "template": "t", "mode": "demand", "instance_requirements": {} }`}), nil)
	in.Types = nil
	for i := range 70 {
		in.Types = append(in.Types, driver.InstanceType{Name: fmt.Sprintf("t%02d", i), Arch: "amd64", VCPU: 1 + i%2, MemoryMiB: 4096, HourlyUSD: float64(100-i) * float64(1+i%2)})
	}
	in.Types[69].HourlyUSD = 0 // nobody knows what it costs
	names, leftOut, err := func() ([]string, int, error) { s := newShard(in); return s.resolved(in.Groups[0]) }()
	if err != nil || len(names) != 60 || leftOut != 10 || names[0] != "t09" || slices.Contains(names, "t69") || !slices.IsSorted(names) {
		t.Errorf("%d types from %v on, %d left out, %v", len(names), names[:1], leftOut, err)
	}
	in.Types = nil
	for has, want := range map[bool]string{true: "have not been listed yet", false: "does not list its instance types"} {
		in.HasCatalogue = has
		s := newShard(in)
		if _, _, err := s.resolved(in.Groups[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without a listing: %v", err)
		}
	}
}

// TestCatalogueChangesMoveNoMachine: a type that comes or goes changes offers, and machines are
// described as before.
func TestCatalogueChangesMoveNoMachine(t *testing.T) {
	in := input(load(t, parts{groups: `"g": { "template": "t", "mode": "demand", "instance_requirements": { "families_in": ["m"] } }`}), nil)
	key := document.GroupKey{Tenant: "default", Group: "g"}
	before := Of(in)
	in.Types = append(slices.Clone(listing[1:]), driver.InstanceType{Name: "m.huge", Arch: "amd64", Family: "m", VCPU: 64, MemoryMiB: 262144, HourlyUSD: 3})
	after := Of(in)
	if want := []string{"default/g/m.huge/on-demand 3000000", "default/g/m.xlarge/on-demand 200000"}; !slices.Equal(lines(after), want) {
		t.Errorf("offers %v, want %v", lines(after), want)
	}
	was, _ := before.Describe(key, "m.xlarge", driver.OnDemand, "")
	is, _ := after.Describe(key, "m.xlarge", driver.OnDemand, "")
	if !reflect.DeepEqual(was, is) || !reflect.DeepEqual(before.Groups, after.Groups) {
		t.Errorf("described as %+v, then as %+v", was, is)
	}
}

func TestPoolsOfAShard(t *testing.T) {
	in := input(load(t, parts{
		server: `"quota_pools": { "cpus": { "limit": 96, "counts": "vcpu" } }`, template: `, "tenants": ["b", "default"]`,
		groups: `"g": { "template": "t", "mode": "demand" }`, tenant: `"web": { "template": "t", "mode": "demand" }`,
	}), nil)
	in.Taken = map[string]int{"b": 4, "default": 20000}
	want := []demand.PoolChanged{{Name: "quota/cpus", Limit: 96}, {Name: "tenant/b", Limit: 6}, {Name: "tenant/default", Limit: 0}}
	if got := Of(in).Pools; !slices.Equal(got, want) {
		t.Errorf("pools %v, want %v", got, want)
	}
}

func TestPolicyOfTheEngine(t *testing.T) {
	got := Policy(load(t, parts{server: `"priority_domains": [["default", "b"]], "max_hourly_spend": { "b": 1.5 }`}))
	want := demand.Policy{
		HourlySpend: map[string]int64{"b": 1_500_000}, Domains: map[string]string{"default": "b", "b": "b"}, Victims: demand.DefaultWeights,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = Policy(load(t, parts{server: `"preemption_weights": { "drain_time": 0.25, "reclamation_penalty": 0 }`}))
	if want := (demand.Weights{Gap: 1_000_000, Drain: 250_000, Interruption: 100_000}); got.Victims != want {
		t.Errorf("weights %+v, want %+v", got.Victims, want)
	}
}

func TestLabelValues(t *testing.T) {
	for text, want := range map[string]string{
		"m5.large": "m5.large", "cpu:4,memory:8192": "cpu-4-memory-8192", "DC 1": "DC-1", "(odd)": "odd", strings.Repeat("a", 70): strings.Repeat("a", 63), "": "",
	} {
		if got := LabelValue(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestE10_EqualInputsGiveEqualBooks, whatever the order in which groups and types come.
func TestE10_EqualInputsGiveEqualBooks(t *testing.T) {
	in := input(load(t, parts{
		groups: `"g": { "template": "t", "mode": "demand", "instance_requirements": {}, "node": { "taints": [ { "key": "b", "effect": "NoSchedule" }, { "key": "a", "effect": "NoSchedule" } ] } },
			"h": { "template": "t", "mode": "demand", "demand": { "capacity_types": ["spot", "on-demand"] } }`,
	}), nil)
	one := Of(in)
	slices.Reverse(in.Groups)
	in.Types = slices.Clone(in.Types)
	slices.Reverse(in.Types)
	if other := Of(in); !one.says(other) {
		t.Errorf("%v\n%v", lines(one), lines(other))
	}
}

// TestAResourceTooMany: the engine counts so many kinds of resources, so a type with one more is not offered, and the state of
// its group says what to do.
func TestAResourceTooMany(t *testing.T) {
	in := input(load(t, parts{groups: `"g": { "template": "t", "mode": "demand", "instance_type": [` +
		`"k.00","k.01","k.02","k.03","k.04","k.05","k.06","k.07","k.08","k.09","k.10","k.11","k.12","k.13"] }`}), nil)
	in.Types = nil
	for i := range 14 {
		card := i
		if i == 13 {
			card = 0 // of which there are machines
		}
		in.Types = append(in.Types, driver.InstanceType{
			Name: fmt.Sprintf("k.%02d", i), Arch: "amd64", Family: "k", VCPU: 4, MemoryMiB: 16384, HourlyUSD: 1,
			Extended: []driver.Resource{{Name: fmt.Sprintf("example.com/card-%02d", card), Count: 1}},
		})
	}
	b := Of(in)
	state := b.States[document.GroupKey{Tenant: "default", Group: "g"}]
	want := []string{"k.12 has the resource example.com/card-12, and the groups of a shard offer at most 16 resources together: " +
		"take it out of instance_type, or move the group to a shard of its own"}
	if diff := cmp.Diff(want, state.Problems); diff != "" {
		t.Error(diff)
	}
	if len(b.Offers) != 13 || len(state.Types) != 13 || slices.Contains(state.Types, "k.12") {
		t.Errorf("%d offers of %v", len(b.Offers), state.Types)
	}
}
