package demandmode

import (
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/demand/rollup"
	"nstance.dev/operator/demand/split"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
)

// directory are the shards of a configuration, in its order.
func directory(c config.Config) []split.Shard {
	all := make([]split.Shard, len(c.Shards))
	for i, s := range c.Shards {
		all[i] = split.Shard{ID: s.Name, Zone: s.Zone, Region: s.Region}
	}
	return all
}

// machines are what the shards say of all machines, of groups of every mode.
func (m *Mode) machines() (all []rollup.Machine) {
	for _, name := range m.parts.Inventory.Names() {
		m.parts.Inventory.Read(name, func(s *inventory.Shard) {
			for _, in := range s.Instances("") {
				all = append(all, rollup.Machine{Shard: name, Instance: nodes.InstanceOf(nil, in)})
			}
		})
	}
	return all
}

// known reports whether a shard has listed its machines since it was connected.
func (m *Mode) known(shard string) (known bool) {
	m.parts.Inventory.Read(shard, func(s *inventory.Shard) { known = s.State().InstancesSynced })
	return known
}
