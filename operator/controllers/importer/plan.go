package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/demand/settings"
)

// Settings say what is imported, and how.
type Settings struct {
	Enabled bool
	// PerShard makes a pool for each shard of a group, instead of one for all.
	PerShard bool
	// Exclude are keys of groups that are left to the servers.
	Exclude []string
}

// Group is a group on one shard.
type Group struct {
	Key  string
	Size int
	// Static: the server's configuration file has it. StaticSize is the size that the file
	// gives it; nil: none.
	Static     bool
	StaticSize *int
	// Deleting: it drains to zero and is then forgotten.
	Deleting bool
	// Config is what may be written into a pool.
	Config Config
	// Demand are the settings of a group of mode demand; nil: it has a fixed size.
	Demand *infrav1.DemandSettings
	// Requirements choose the machine types of such a group; nil: names do.
	Requirements *infrav1.InstanceRequirements
}

// Config is what a pool says of the instances of its group.
type Config struct {
	// Template, Subnets and LoadBalancers are those in use.
	Template, Subnets string
	LoadBalancers     []string
	// InstanceType and Vars are what the API had set; empty where it had not.
	InstanceType string
	Vars         map[string]string
}

// Pool is an NstanceMachinePool that exists, one that is being deleted included.
type Pool struct {
	Name, Group string
	Shards      []string
	// ImportedFrom is what was written on it when it was imported; empty: a user made
	// it.
	ImportedFrom string
	// Deleting: it is being deleted.
	Deleting bool
	// Complete: its MachinePool exists, or a user wants none, or it is a demand pool or was one a moment ago.
	Complete bool
	// Begun: it had a MachinePool before. What it lacks now somebody took away.
	Begun bool
	// ShardGroups are the sizes of its group objects that exist, of the shards that it lists.
	ShardGroups []Size
	// Lost are the other pools that have its group on shards that it lists, by name: they were
	// made at the same time, and were first.
	Lost []string
	// Config is what it says.
	Config Config
}

// Input is the input of Plan.
type Input struct {
	Settings Settings
	// Shards are the configured ones, in the order of the configuration.
	Shards []Shard
	Pools  []Pool
	// Taken are the names of MachinePools that belong to no NstanceMachinePool of that
	// name.
	Taken []string
	// Orphaned are groups that a pool left on their shards when it was deleted. They are not
	// imported again.
	Orphaned []capi.OrphanedGroup
}

// Step is one thing to do: CreatePool, CreateShardGroup, CreateMachinePool,
// ReportImported, ReportUncovered, ReportStaticSize or ReportBroken.
type Step interface{ step() }

// CreatePool makes an NstanceMachinePool.
type CreatePool struct {
	Name, Group  string
	Shards       []string
	Config       Config
	ImportedFrom string // to be written on it
	// Demand and Requirements make it a demand pool, whose shard groups and bounds are the pool's own
	// controller's; nil: it has a fixed size.
	Demand       *infrav1.DemandSettings
	Requirements *infrav1.InstanceRequirements
}

// CreateShardGroup makes the group object of a pool on one shard.
type CreateShardGroup struct {
	Pool, Group, Shard string
	Size               int
	Config             Config
}

// CreateMachinePool makes the MachinePool of a pool.
type CreateMachinePool struct {
	Pool     string
	Shards   []string
	Replicas int
}

// ReportImported tells users of a pool that is now complete.
type ReportImported struct{ Pool, Reason string }

// ReportUncovered tells users, once per set of shards, that a pool's group is on shards
// that no pool lists.
type ReportUncovered struct {
	Pool   string
	Shards []string
	Reason string
}

// ReportStaticSize tells users, once for each value, that the configuration of servers gives
// a pool's group another size than it has. That is not followed.
type ReportStaticSize struct{ Pool, Reason string }

// ReportBroken tells users that an imported pool cannot be completed.
type ReportBroken struct{ Pool, Reason string }

func (CreatePool) step()        {}
func (CreateShardGroup) step()  {}
func (CreateMachinePool) step() {}
func (ReportImported) step()    {}
func (ReportUncovered) step()   {}
func (ReportStaticSize) step()  {}
func (ReportBroken) step()      {}

// Plan returns the steps that make pools of groups without one, and complete those that a
// crash left half made, the latter also where nothing is imported any more; none of these
// while the gate is closed. When a step fails, those
// that follow for the same pool are not to be done: the next plan has them again.
func Plan(in Input) []Step {
	in.Pools = sortedPools(in.Pools)
	steps := in.staticSizes()
	if !OpenGate(in.Shards).Open {
		return steps
	}
	taken := map[string]bool{}
	for _, name := range in.Taken {
		taken[name] = true
	}
	of := map[string][]Pool{} // by group
	for _, p := range in.Pools {
		of[p.Group] = append(of[p.Group], p)
		taken[p.Name] = true
		switch {
		case p.ImportedFrom == "" || p.Complete || p.Deleting:
		case len(p.Lost) > 0:
			steps = append(steps, ReportBroken{p.Name, fmt.Sprintf("group %s belongs to pool %s, which was made at the same time: delete one of the two pools",
				p.Group, strings.Join(p.Lost, ", "))})
		default:
			steps = append(steps, completion(p)...)
		}
	}
	if !in.Settings.Enabled {
		return steps
	}
	found := discover(in)
	for _, key := range slices.Sorted(maps.Keys(found)) {
		steps = append(steps, in.group(key, found[key], of[key], taken)...)
	}
	return steps
}

// onShard is a group where it was found.
type onShard struct {
	shard string
	group Group
}

// discover returns the groups that may be imported, by key and in the order of the
// shards.
func discover(in Input) map[string][]onShard {
	found := map[string][]onShard{}
	for _, s := range in.Shards {
		for _, g := range s.Groups {
			if !g.Deleting && !slices.Contains(in.Settings.Exclude, g.Key) && !slices.Contains(in.Orphaned, capi.OrphanedGroup{Group: g.Key, Shard: s.Name}) {
				found[g.Key] = append(found[g.Key], onShard{s.Name, g})
			}
		}
	}
	return found
}

// group plans for one key, which these pools have already. The names of new pools become taken.
func (in Input) group(key string, found []onShard, pools []Pool, taken map[string]bool) []Step {
	mixed := false // one of them was not imported for just the shard that it has
	for _, p := range pools {
		sizes, err := ParseSizes(p.ImportedFrom)
		mixed = mixed || err != nil || len(sizes) != 1 || len(p.Shards) != 1
	}
	uncovered := slices.DeleteFunc(slices.Clone(found), func(f onShard) bool {
		return slices.ContainsFunc(pools, func(p Pool) bool { return p.lists(f.shard) })
	})
	switch {
	case len(uncovered) == 0:
		return nil
	case (in.Settings.PerShard || !together(found)) && !mixed:
		var steps []Step
		for _, f := range uncovered {
			steps = append(steps, create(free(key+"--"+f.shard, taken), key, []onShard{f})...)
		}
		return steps
	case len(pools) == 0:
		return create(free(key, taken), key, found)
	default:
		shards := shardsOf(uncovered)
		return []Step{ReportUncovered{
			Pool: pools[0].Name, Shards: shards,
			Reason: fmt.Sprintf("group %s is also on %s, which no pool lists", key, strings.Join(shards, ", ")),
		}}
	}
}

// create makes a new pool, whole.
func create(name, key string, found []onShard) []Step {
	p := Pool{Name: name, Group: key, Shards: shardsOf(found), Config: common(found)}
	var sizes []Size
	for _, f := range found {
		sizes = append(sizes, Size{f.shard, f.group.Size})
	}
	p.ImportedFrom = FormatSizes(sizes)
	first := CreatePool{Name: p.Name, Group: key, Shards: p.Shards, Config: p.Config, ImportedFrom: p.ImportedFrom}
	if found[0].group.Demand != nil {
		first.Demand, first.Requirements = settings.Sum(demands(found)), found[0].group.Requirements
		return []Step{first, ReportImported{name, fmt.Sprintf("group %s was found in mode demand on %s", key, strings.Join(p.Shards, ", "))}}
	}
	return append([]Step{first}, completion(p)...)
}

// completion makes what an imported pool lacks. A shard group that was never made gets the size that
// is written on the pool: what its server has may have changed since. The MachinePool gets
// the sum of the shard groups as they are, for they may have been scaled since.
func completion(p Pool) []Step {
	total := 0
	for _, has := range p.ShardGroups {
		total += has.Size
	}
	if p.Begun {
		return []Step{CreateMachinePool{Pool: p.Name, Shards: p.Shards, Replicas: total}}
	}
	sizes, err := ParseSizes(p.ImportedFrom)
	if err != nil {
		return []Step{ReportBroken{p.Name, err.Error()}}
	}
	var steps []Step
	for _, s := range sizes {
		if p.lists(s.Shard) && !p.has(s.Shard) {
			total += s.Size
			steps = append(steps, CreateShardGroup{Pool: p.Name, Group: p.Group, Shard: s.Shard, Size: s.Size, Config: p.Config})
		}
	}
	return append(steps,
		CreateMachinePool{Pool: p.Name, Shards: p.Shards, Replicas: total},
		ReportImported{p.Name, fmt.Sprintf("group %s was found with %s: %d replicas", p.Group, p.ImportedFrom, total)},
	)
}

// lists is whether the pool is on a shard.
func (p Pool) lists(shard string) bool { return slices.Contains(p.Shards, shard) }

// has is whether the group object of a shard exists.
func (p Pool) has(shard string) bool {
	return slices.ContainsFunc(p.ShardGroups, func(s Size) bool { return s.Shard == shard })
}

// common returns what all shards say of a group, so that the first write changes nothing:
// where they differ, or where a server's file has the word, the pool says nothing.
func common(found []onShard) Config {
	c := found[0].group.Config
	for _, f := range found {
		other := f.group.Config
		if f.group.Static || other.Template != c.Template {
			c.Template = ""
		}
		if f.group.Static || other.Subnets != c.Subnets {
			c.Subnets = ""
		}
		if f.group.Static || !slices.Equal(other.LoadBalancers, c.LoadBalancers) {
			c.LoadBalancers = nil
		}
		if other.InstanceType != c.InstanceType {
			c.InstanceType = ""
		}
		if !maps.Equal(other.Vars, c.Vars) {
			c.Vars = nil
		}
	}
	return c
}

// free returns the name if nothing else has it, else the name and a hash of it, and takes
// what it returns.
func free(name string, taken map[string]bool) string {
	answer := name
	for n := 0; taken[answer]; n++ {
		sum := sha256.Sum256([]byte(name + strings.Repeat("/", n)))
		answer = name + "-" + hex.EncodeToString(sum[:4])
	}
	taken[answer] = true
	return answer
}

func shardsOf(found []onShard) []string {
	var shards []string
	for _, f := range found {
		shards = append(shards, f.shard)
	}
	return shards
}

func sortedPools(pools []Pool) []Pool {
	return slices.SortedFunc(slices.Values(pools), func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
}
