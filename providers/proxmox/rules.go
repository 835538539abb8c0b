package proxmox

import "nstance.dev/server/serve"

// Rules are what a configuration's checks know of this provider.
func Rules() *serve.Rules {
	return &serve.Rules{
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
