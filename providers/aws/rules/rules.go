// Package rules is what configurations are checked by that name the provider aws, and how
// their arguments and options are read. It needs neither an account nor the SDK, so that
// every program can link it: what RunInstances takes stands in a table that is made from
// the SDK's types.
package rules

import (
	"fmt"
	"strings"

	"nstance.dev/server/driver"
)

// Kind is what server.provider.kind is for this provider.
const Kind = "aws"

// New returns what can be checked of a configuration without the cloud.
func New() *driver.Rules {
	return &driver.Rules{
		Kind:              Kind,
		ForbiddenArgs:     forbiddenArgs,
		TenantArgs:        tenantArgs,
		CheckArg:          checkArg,
		CheckArgs:         checkArgs,
		CheckOption:       func(name string, value any) error { return new(Options).set(name, value) },
		CheckSubnet:       checkSubnetID,
		CheckInstanceType: checkType,
		Traits:            traits,
		Capacity:          Capacity(),
		CheckUserdata:     checkUserData,

		CheckLoadBalancer:  checkLoadBalancer,
		CheckLeaderNetwork: checkLeaderNetwork,
	}
}

func checkSubnetID(id string) error {
	if strings.HasPrefix(id, "subnet-") {
		return nil
	}
	return fmt.Errorf("%q is not the id of a subnet, such as subnet-0123456789abcdef0", id)
}
