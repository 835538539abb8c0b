package importer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
)

var (
	importing = Settings{Enabled: true, Exclude: []string{"control-plane"}}
	big       = Config{
		Template: "knd", Subnets: "workers", LoadBalancers: []string{"www"},
		InstanceType: "big", Vars: map[string]string{"A": "1"},
	}
)

func workers(size int) Group { return Group{Key: "workers", Size: size, Config: big} }

func (g Group) but(change func(*Group)) Group { change(&g); return g }

func listed(name string, groups ...Group) Shard {
	return Shard{Name: name, Listed: true, Groups: groups}
}

// whole are the steps of a pool that is made of nothing.
func whole(name, group string, c Config, sizes ...Size) []Step {
	var shards []string
	var groups []Step
	total := 0
	for _, s := range sizes {
		shards = append(shards, s.Shard)
		groups = append(groups, CreateShardGroup{Pool: name, Group: group, Shard: s.Shard, Size: s.Size, Config: c})
		total += s.Size
	}
	from := FormatSizes(sizes)
	steps := append([]Step{CreatePool{Name: name, Group: group, Shards: shards, Config: c, ImportedFrom: from}}, groups...)
	return append(steps,
		CreateMachinePool{Pool: name, Shards: shards, Replicas: total},
		ReportImported{name, fmt.Sprintf("group %s was found with %s: %d replicas", group, from, total)},
	)
}

func TestO3_Plan(t *testing.T) {
	ab := []Shard{listed("a", workers(3)), listed("b", workers(2))}
	byPerson := Pool{Name: "mine", Group: "workers", Shards: []string{"a", "b"}}
	half := Pool{Name: "workers", Group: "workers", Shards: []string{"a", "b"}, ImportedFrom: "a=3,b=2", Config: big}
	static := func(g *Group) { g.Static = true }
	for _, tt := range []struct {
		name     string
		settings Settings
		shards   []Shard
		pools    []Pool
		taken    []string
		left     []capi.OrphanedGroup
		want     []Step
	}{
		{
			name: "sizes stay as they are, even uneven ones", settings: importing, shards: []Shard{listed("b", workers(1)), listed("a", workers(9))},
			want: whole("workers", "workers", big, Size{"b", 1}, Size{"a", 9}),
		},
		{
			name: "one shard says that it has no such group", settings: importing, shards: append(slices.Clone(ab), listed("c")),
			want: whole("workers", "workers", big, Size{"a", 3}, Size{"b", 2}),
		},
		{name: "one shard is silent", settings: importing, shards: append(slices.Clone(ab), Shard{Name: "c"})},
		{name: "no shard", settings: importing},
		{name: "switched off", shards: ab},
		{
			name: "excluded, and on its way to zero", settings: importing,
			shards: []Shard{listed("a", Group{Key: "control-plane", Size: 3}, workers(0).but(func(g *Group) { g.Deleting = true }))},
		},
		{
			name: "on its way to zero on one shard", settings: importing,
			shards: []Shard{listed("a", workers(0).but(func(g *Group) { g.Deleting = true })), listed("b", workers(2))},
			want:   whole("workers", "workers", big, Size{"b", 2}),
		},
		{
			name: "several groups, by name, one of them empty", settings: importing,
			shards: []Shard{listed("a", workers(1), Group{Key: "batch"})},
			want:   append(whole("batch", "batch", Config{}, Size{"a", 0}), whole("workers", "workers", big, Size{"a", 1})...),
		},
		{
			name: "static on one shard", settings: importing, shards: []Shard{listed("a", workers(3)), listed("b", workers(2).but(static))},
			want: whole("workers", "workers", Config{InstanceType: "big", Vars: big.Vars}, Size{"a", 3}, Size{"b", 2}),
		},
		{
			name: "the shards differ", settings: importing,
			shards: []Shard{listed("a", workers(3)), listed("b", workers(2).but(func(g *Group) {
				g.Config = Config{Template: "other", Subnets: "workers"}
			}))},
			want: whole("workers", "workers", Config{Subnets: "workers"}, Size{"a", 3}, Size{"b", 2}),
		},
		{name: "a pool that a person made wins", settings: importing, shards: ab, pools: []Pool{byPerson}},
		{
			name: "a pool that is being deleted still names its group", settings: importing, shards: ab,
			pools: []Pool{{Name: "x", Group: "workers", Shards: []string{"a", "b"}, Deleting: true, ImportedFrom: "a=3,b=2"}},
		},
		{
			name: "a pool that a person made lacks a shard", settings: importing, shards: append(slices.Clone(ab), listed("c", workers(1))),
			pools: []Pool{{Name: "mine", Group: "workers", Shards: []string{"b"}}},
			want:  []Step{ReportUncovered{"mine", []string{"a", "c"}, "group workers is also on a, c, which no pool lists"}},
		},
		{
			name: "the name is taken by a MachinePool", settings: importing, shards: ab, taken: []string{"workers"},
			want: whole("workers-ed574aa7", "workers", big, Size{"a", 3}, Size{"b", 2}),
		},
		{
			name: "the name is taken by another group's pool", settings: importing, shards: ab,
			pools: []Pool{{Name: "workers", Group: "other"}},
			want:  whole("workers-ed574aa7", "workers", big, Size{"a", 3}, Size{"b", 2}),
		},
		{
			name: "half made: from what is written, whatever the servers have now", settings: importing,
			shards: []Shard{listed("a", workers(30)), listed("b")}, pools: []Pool{half},
			want: whole("workers", "workers", big, Size{"a", 3}, Size{"b", 2})[1:],
		},
		{
			name: "half made, and nothing is imported any more", shards: ab, pools: []Pool{half},
			want: whole("workers", "workers", big, Size{"a", 3}, Size{"b", 2})[1:],
		},
		{
			name: "half made, and a person lost what is written", settings: importing, shards: ab,
			pools: []Pool{{Name: "workers", Group: "workers", Shards: []string{"a", "b"}, ImportedFrom: "a=3,b=two"}},
			want:  []Step{ReportBroken{"workers", `sizes of an imported pool: size "two" of shard b is no number from 0 to 10000`}},
		},
		{
			name: "half made, and a pool that was made at the same time has the group", settings: importing, shards: append(slices.Clone(ab), listed("c", Group{Key: "batch"})),
			pools: []Pool{byPerson, {Name: "workers", Group: "workers", Shards: []string{"a", "b"}, ImportedFrom: "a=3,b=2", Lost: []string{"mine"}}},
			want: append([]Step{ReportBroken{"workers", "group workers belongs to pool mine, which was made at the same time: delete one of the two pools"}},
				whole("batch", "batch", Config{}, Size{"c", 0})...),
		},
		{
			name: "half made, and a person took a shard off", settings: importing, shards: ab,
			pools: []Pool{{Name: "workers", Group: "workers", Shards: []string{"a"}, ImportedFrom: "a=3,b=2", Config: big}},
			want: []Step{
				CreateShardGroup{Pool: "workers", Group: "workers", Shard: "a", Size: 3, Config: big},
				CreateMachinePool{Pool: "workers", Shards: []string{"a"}, Replicas: 3},
				ReportImported{"workers", "group workers was found with a=3,b=2: 3 replicas"},
				ReportUncovered{"workers", []string{"b"}, "group workers is also on b, which no pool lists"},
			},
		},
		{
			name: "scaled since, and its MachinePool is gone", settings: importing, shards: ab,
			pools: []Pool{{
				Name: "workers", Group: "workers", Shards: []string{"a", "b"}, ImportedFrom: "a=3,b=2", Begun: true,
				ShardGroups: []Size{{"a", 7}}, // a person took the other one out
			}},
			want: []Step{CreateMachinePool{Pool: "workers", Shards: []string{"a", "b"}, Replicas: 7}},
		},
		{
			name: "left on its shards by the pool that it had", settings: importing, shards: ab,
			left: []capi.OrphanedGroup{{Group: "workers", Shard: "a"}, {Group: "workers", Shard: "b"}, {Group: "other", Shard: "a"}},
		},
		{
			name: "left on one of its shards", settings: importing, shards: ab, left: []capi.OrphanedGroup{{Group: "workers", Shard: "a"}},
			want: whole("workers", "workers", big, Size{"b", 2}),
		},
		{
			name: "both names are taken", settings: importing, shards: ab, taken: []string{"workers", "workers-ed574aa7"},
			want: whole("workers-a2d790e7", "workers", big, Size{"a", 3}, Size{"b", 2}),
		},
		{name: "half made, and a shard is silent", settings: importing, shards: []Shard{ab[0], {Name: "b"}}, pools: []Pool{half}},
		{
			name: "a pool for each shard", settings: Settings{Enabled: true, PerShard: true}, shards: ab,
			want: append(whole("workers--a", "workers", big, Size{"a", 3}), whole("workers--b", "workers", big, Size{"b", 2})...),
		},
		{
			name: "a pool for each shard, one is there", settings: Settings{Enabled: true, PerShard: true}, shards: ab,
			pools: []Pool{{Name: "workers--a", Group: "workers", Shards: []string{"a"}, ImportedFrom: "a=3", Complete: true}},
			want:  whole("workers--b", "workers", big, Size{"b", 2}),
		},
		{
			name: "a pool for each shard, and one that was imported for several lost two", settings: Settings{Enabled: true, PerShard: true},
			shards: append(slices.Clone(ab), listed("c", workers(9))),
			pools:  []Pool{{Name: "workers", Group: "workers", Shards: []string{"a"}, ImportedFrom: "a=3,b=2,c=9", Complete: true}},
			want:   []Step{ReportUncovered{"workers", []string{"b", "c"}, "group workers is also on b, c, which no pool lists"}},
		},
		{
			name: "a pool for each shard, one was made by a person", settings: Settings{Enabled: true, PerShard: true}, shards: ab,
			pools: []Pool{{Name: "mine", Group: "workers", Shards: []string{"a"}}},
			want:  []Step{ReportUncovered{"mine", []string{"b"}, "group workers is also on b, which no pool lists"}},
		},
		{
			name: "of mode demand: the bounds are the sums, and there is no size", settings: importing,
			shards: []Shard{listed("a", demanding(2, 3)), listed("b", demanding(1, 2))},
			want: []Step{
				CreatePool{Name: "workers", Group: "workers", Shards: []string{"a", "b"}, Config: big, ImportedFrom: "a=0,b=0", Demand: demanding(3, 5).Demand},
				ReportImported{"workers", "group workers was found in mode demand on a, b"},
			},
		},
		{
			name: "of mode demand, with bounds that one pool would divide otherwise", settings: importing,
			shards: []Shard{listed("a", demanding(0, 9)), listed("b", demanding(0, 2))},
			want:   apart(demanding(0, 9), demanding(0, 2)),
		},
		{
			name: "of mode demand, with other settings", settings: importing,
			shards: []Shard{listed("a", demanding(0, 2)), listed("b", demanding(0, 2).but(func(g *Group) {
				g.Demand.Configure = infrav1.ConfigureUserData
			}))},
			want: apart(demanding(0, 2), demanding(0, 2).but(func(g *Group) { g.Demand.Configure = infrav1.ConfigureUserData })),
		},
		{
			name: "of mode demand on one shard", settings: importing,
			shards: []Shard{listed("a", demanding(0, 2)), listed("b", workers(3))},
			want:   append(apart(demanding(0, 2)), whole("workers--b", "workers", big, Size{"b", 3})...),
		},
		{
			name: "a demand pool for each shard, and a third shard comes", settings: importing,
			shards: []Shard{listed("a", demanding(0, 9)), listed("b", demanding(0, 2)), listed("c", demanding(0, 1))},
			pools: []Pool{
				{Name: "workers--a", Group: "workers", Shards: []string{"a"}, ImportedFrom: "a=0", Complete: true},
				{Name: "workers--b", Group: "workers", Shards: []string{"b"}, ImportedFrom: "b=0", Complete: true},
			},
			want: []Step{
				CreatePool{Name: "workers--c", Group: "workers", Shards: []string{"c"}, Config: big, ImportedFrom: "c=0", Demand: demanding(0, 1).Demand},
				ReportImported{"workers--c", "group workers was found in mode demand on c"},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Plan(Input{Settings: tt.settings, Shards: tt.shards, Pools: tt.pools, Taken: tt.taken, Orphaned: tt.left})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// demanding is group workers in mode demand with these bounds.
func demanding(least, most int32) Group {
	g := workers(0)
	g.Demand = &infrav1.DemandSettings{Max: &most}
	if least > 0 {
		g.Demand.Min = &least
	}
	return g
}

// apart are the steps that make a pool of each group, the first on shard a.
func apart(groups ...Group) []Step {
	var steps []Step
	for i, g := range groups {
		shard := string(rune('a' + i))
		steps = append(steps,
			CreatePool{Name: "workers--" + shard, Group: "workers", Shards: []string{shard}, Config: big, ImportedFrom: shard + "=0", Demand: g.Demand},
			ReportImported{"workers--" + shard, "group workers was found in mode demand on " + shard})
	}
	return steps
}

func TestO3_Gate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		shards []Shard
		want   Gate
	}{
		{"no shard", nil, Gate{Reason: "no shard is configured"}},
		{"all have said what they have", []Shard{listed("a"), listed("b")}, Gate{Open: true}},
		{
			"two have not", []Shard{{Name: "c"}, listed("b"), {Name: "a"}},
			Gate{Waiting: []string{"c", "a"}, Reason: "waiting for the groups of c, a"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, OpenGate(tt.shards)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// do carries out one step on what is there.
func do(in *Input, s Step) {
	at := func(name string) *Pool {
		i := slices.IndexFunc(in.Pools, func(p Pool) bool { return p.Name == name })
		return &in.Pools[i]
	}
	switch s := s.(type) {
	case CreatePool:
		in.Pools = append(in.Pools, Pool{Name: s.Name, Group: s.Group, Shards: s.Shards, Config: s.Config, ImportedFrom: s.ImportedFrom})
	case CreateShardGroup:
		at(s.Pool).ShardGroups = append(at(s.Pool).ShardGroups, Size{s.Shard, s.Size})
	case CreateMachinePool:
		at(s.Pool).Complete = true
	}
}

// A crash after any step, with sizes that change meanwhile, ends as if there had been
// none.
func TestO3_CrashAfterEachStep(t *testing.T) {
	for _, perShard := range []bool{false, true} {
		fresh := func() Input {
			return Input{Settings: Settings{Enabled: true, PerShard: perShard}, Shards: []Shard{listed("a", workers(3)), listed("b", workers(2))}}
		}
		steps := Plan(fresh())
		for crash := range len(steps) + 1 {
			in := fresh()
			var sizes []string
			for _, s := range steps[:crash] {
				do(&in, s)
				if c, ok := s.(CreateShardGroup); ok {
					sizes = append(sizes, fmt.Sprint(c.Shard, c.Size))
				}
			}
			if perShard && len(in.Pools) < 2 || len(in.Pools) == 0 {
				in.Shards = fresh().Shards // nothing is written down of a pool that is not there
			} else {
				in.Shards = []Shard{listed("a", workers(99)), listed("b", workers(99))}
			}
			replicas := 0
			for _, s := range steps[:crash] {
				if c, ok := s.(CreateMachinePool); ok {
					replicas += c.Replicas
				}
			}
			for _, s := range Plan(in) {
				do(&in, s)
				switch c := s.(type) {
				case CreateShardGroup:
					sizes = append(sizes, fmt.Sprint(c.Shard, c.Size))
				case CreateMachinePool:
					replicas += c.Replicas
				}
			}
			slices.Sort(sizes)
			if diff := cmp.Diff([]string{"a3", "b2"}, sizes); diff != "" || replicas != 5 {
				t.Errorf("per shard %t, crash after %d steps: %d replicas, sizes %s", perShard, crash, replicas, diff)
			}
			if again := Plan(in); len(again) > 0 {
				t.Errorf("per shard %t, crash after %d steps: never done: %v", perShard, crash, again)
			}
		}
	}
}

func TestParseSizes(t *testing.T) {
	sizes := []Size{{"us-west-2b", 0}, {"us-west-2a", 10000}}
	got, err := ParseSizes(FormatSizes(sizes))
	if diff := cmp.Diff(sizes, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, text := range []string{"", ",", "a", "a=", "=3", "a=3,", "a=03", "a=+3", "a=-1", "a=10001", "a=3,a=3", "A=3", "a=3 ", "a=3=4", "a=99999999999999999999"} {
		if got, err := ParseSizes(text); err == nil || got != nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func FuzzParseSizes(f *testing.F) {
	for _, seed := range []string{"a=3,b=2", "a=0", "a=3,a=3", "=", "a=03,b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sizes, err := ParseSizes(text)
		if err == nil && FormatSizes(sizes) != text {
			t.Fatalf("%q reads as %v, which is written %q", text, sizes, FormatSizes(sizes))
		}
	})
}

// Whatever is there: nothing is made while a shard is silent, what is made has exactly
// the sizes of the servers, and after one pass nothing is left to make.
func TestO3_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Settings: Settings{Enabled: true, PerShard: rapid.Bool().Draw(t, "per shard")}}
		silent := false
		has := map[string]int{}
		for _, name := range []string{"a", "b", "c"} {
			s := Shard{Name: name, Listed: rapid.IntRange(0, 5).Draw(t, "silent") > 0}
			silent = silent || !s.Listed
			for _, key := range []string{"g", "h"} {
				if rapid.Bool().Draw(t, "has group") {
					g := Group{Key: key, Size: rapid.IntRange(0, 9).Draw(t, "size"), Deleting: rapid.IntRange(0, 3).Draw(t, "deleting") == 0}
					s.Groups = append(s.Groups, g)
					if !g.Deleting {
						has[key+" "+name] = g.Size
					}
				}
			}
			in.Shards = append(in.Shards, s)
		}
		if rapid.Bool().Draw(t, "by person") {
			in.Pools = []Pool{{Name: "mine", Group: "g", Shards: []string{"a"}}}
		}
		for _, s := range Plan(in) {
			do(&in, s)
			if silent {
				t.Fatalf("%+v while a shard is silent", s)
			}
			if c, ok := s.(CreateShardGroup); ok {
				if size, ok := has[c.Group+" "+c.Shard]; !ok || size != c.Size {
					t.Fatalf("%+v, and the server has %d (%t)", c, size, ok)
				}
				delete(has, c.Group+" "+c.Shard)
			}
		}
		for _, s := range Plan(in) {
			if _, ok := s.(ReportUncovered); !ok {
				t.Fatalf("%+v in the second pass", s)
			}
		}
	})
}
