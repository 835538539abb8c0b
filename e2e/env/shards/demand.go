package shards

import (
	"maps"
	"path/filepath"
)

// DemandGroup is the key of the groups of mode demand.
const DemandGroup = "pool"

// DemandTypes are the instance types of groups of mode demand that name none: processors and
// MiB of memory.
var DemandTypes = []string{"cpu:2,memory:4096", "cpu:4,memory:8192"}

// Demand gives each shard a group of mode demand of a tenant, [DemandGroup], whose machines can
// join clusters and are given back as soon as nothing needs them. Fields of the group's block
// demand, and with them of the group, are those of the arguments where these have them.
func Demand(tenant string, group, demand map[string]any) Option {
	return func(c *Cluster) {
		block := object{"max": 1000, "scale_down_delay": "2s", "min_lifetime": "0s", "release_hold": "5s", "join_deadline": "5m"}
		maps.Copy(block, demand)
		all := object{
			"template": Template, "mode": "demand", "instance_type": DemandTypes, "drain_timeout": c.drainTimeout.String(),
			"vars": object{"joins_clusters": "true"}, "demand": block,
		}
		maps.Copy(all, group)
		if c.demand == nil {
			c.demand = map[string]object{}
		}
		c.demand[tenant] = all
	}
}

// DemandServer adds fields to the block demand of the servers, for all groups of mode demand.
func DemandServer(fields map[string]any) Option {
	return func(c *Cluster) { c.demandServer = fields }
}

// UserData has the machines of all shards begin with other user data than those that start an
// agent.
func UserData(template string) Option {
	return func(c *Cluster) { c.userData = template }
}

// MachineDirs is a pattern that matches the directory of each machine of all shards.
func (c *Cluster) MachineDirs() string { return filepath.Join(c.box.Path("machines"), "*", "*") }

// Machines is the directory with the directories of a shard's machines.
func (c *Cluster) Machines(shard string) string { return c.box.Path("machines", shard) }

// demandSettings are what servers are told of demand in general: prices for all, and what was
// added.
func (c *Cluster) demandSettings() object {
	all := object{"prices": []object{{"vcpu_hour": 0.02, "gib_hour": 0.002}}}
	maps.Copy(all, c.demandServer)
	return all
}
