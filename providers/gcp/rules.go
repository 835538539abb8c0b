package gcp

import "nstance.dev/server/driver"

// Kind is what server.provider.kind is for this provider.
const Kind = "google"

// Rules are what can be checked of a configuration without the cloud.
func Rules() *driver.Rules {
	return &driver.Rules{
		Kind:              Kind,
		ForbiddenArgs:     forbiddenArgs,
		TenantArgs:        tenantArgs,
		CheckArg:          checkArg,
		CheckArgs:         checkArgs,
		CheckOption:       checkOption,
		CheckSubnet:       checkSubnetID,
		CheckInstanceType: checkInstanceType,
		Traits:            traits,
		MaxUserdata:       maxUserData,
	}
}
