package rules

import "nstance.dev/server/driver"

// traits says how big a machine will be: as its type says, then as the arguments do.
// What neither says is the template's, which only Proxmox knows.
func traits(instanceType string, args map[string]any) driver.Traits {
	var from Settings
	for _, name := range []string{"Cores", "Memory"} {
		if value := args[name]; value != nil {
			_ = from.set(name, value) // what is wrong or still a template says nothing
		}
	}
	own, _ := ParseType(instanceType)
	size := from.Size
	if own.Cores > 0 {
		size.Cores = own.Cores
	}
	if own.Memory > 0 {
		size.Memory = own.Memory
	}
	return driver.Traits{VCPU: size.Cores, MemoryMiB: int(size.Memory), DiskGiB: int(max(own.Disk, size.Disk))}
}

// Capacity says how machines are paid for: they are on nodes that somebody owns, and no argument says
// anything of it.
func Capacity() *driver.CapacityRules {
	return &driver.CapacityRules{Types: []driver.CapacityType{driver.OnDemand, driver.BareMetal}}
}
