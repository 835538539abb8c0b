package aws

import (
	"fmt"
	"strings"

	"nstance.dev/server/driver"
)

// Kind is the provider's name in a configuration.
const Kind = "aws"

// Rules are what a configuration for this provider has to keep to. They need
// neither an account nor the network.
func Rules() *driver.Rules {
	return &driver.Rules{
		Kind:              Kind,
		ForbiddenArgs:     forbiddenArgs,
		TenantArgs:        tenantArgs,
		CheckArg:          checkArg,
		CheckArgs:         checkArgs,
		CheckOption:       checkOption,
		CheckSubnet:       checkSubnetID,
		CheckInstanceType: checkType,
		Traits:            traits,
		CheckUserdata:     checkUserData,
	}
}

func checkSubnetID(id string) error {
	if strings.HasPrefix(id, "subnet-") {
		return nil
	}
	return fmt.Errorf("%q is not the id of a subnet, such as subnet-0123456789abcdef0", id)
}
