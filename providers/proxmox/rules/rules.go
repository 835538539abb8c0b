// Package rules is what configurations are checked by that name the provider proxmox, and
// how their arguments and options are read. It knows nothing of the API's client, so that
// every program can link it.
package rules

import (
	"regexp"

	"nstance.dev/server/driver"
)

// Kind is what server.provider.kind is for this provider.
const Kind = "proxmox"

// New returns what can be checked of a configuration without the API.
func New() *driver.Rules {
	return &driver.Rules{
		Kind:        Kind,
		SizeArgs:    sizeArgs,
		TenantArgs:  tenantArgs,
		CheckArg:    checkArg,
		CheckOption: func(name string, value any) error { return new(Options).set(name, value) },
		CheckOwner:  checkOwner,
		CheckSubnet: func(id string) error { _, err := ParseSubnet(id); return err },
		// Machines have the architecture of their nodes, which no type says.
		Traits:            traits,
		Capacity:          Capacity(),
		CheckInstanceType: func(instanceType, _ string) error { _, err := ParseType(instanceType); return err },
	}
}

// Names and numbers that arguments must leave to the server.
const (
	FirstNIC  = "net0"      // the network device that is in the group's subnet
	SeedDrive = "ide2"      // the CD with the machine's user data
	MaxNumber = 999_999_999 // the API's own limit of a machine's number
)

// meansATag matches names that, as a tag of a machine, would say something else than
// the name of its cluster or shard.
var meansATag = regexp.MustCompile(`^nstance(-[csi]-.*)?$`)

func checkOwner(owner driver.Owner) []driver.Finding {
	if !meansATag.MatchString(owner.Cluster) && !meansATag.MatchString(owner.Shard) {
		return nil
	}
	return []driver.Finding{{
		Message: `neither cluster_id nor shard may be "nstance" on proxmox, or begin with "nstance-c-", "nstance-s-" or "nstance-i-"`,
		Remedy:  "tags are flat there; choose another name",
	}}
}
