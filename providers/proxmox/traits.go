package proxmox

import "nstance.dev/server/driver"

// traits says how big a machine will be: as its type says, then as the arguments do.
// What neither says is the template's, which only Proxmox knows.
func traits(instanceType string, args map[string]any) driver.Traits {
	var from settings
	for _, name := range []string{"Cores", "Memory"} {
		if value := args[name]; value != nil {
			_ = from.set(name, value) // what is wrong or still a template says nothing
		}
	}
	own, _ := parseType(instanceType)
	size := from.size
	if own.cores > 0 {
		size.cores = own.cores
	}
	if own.memory > 0 {
		size.memory = own.memory
	}
	return driver.Traits{VCPU: size.cores, MemoryMiB: int(size.memory)}
}
