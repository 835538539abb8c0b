package proxmox

import "nstance.dev/server/driver"

// Rules are what a configuration's checks know of this provider.
func Rules() *driver.Rules {
	return &driver.Rules{
		Kind:        "proxmox",
		SizeArgs:    sizeArgs,
		TenantArgs:  tenantArgs,
		CheckArg:    checkArg,
		CheckOption: checkOption,
		CheckSubnet: func(id string) error { _, err := parseSubnet(id); return err },
		// Machines have the architecture of their nodes, which no type says.
		Traits:            traits,
		CheckInstanceType: func(instanceType, _ string) error { _, err := parseType(instanceType); return err },
	}
}
