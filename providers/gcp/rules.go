package gcp

import "nstance.dev/server/serve"

// Kind is what server.provider.kind is for this provider.
const Kind = "google"

// Rules are what can be checked of a configuration without the cloud.
func Rules() *serve.Rules {
	return &serve.Rules{
		Kind:              Kind,
		ForbiddenArgs:     ForbiddenArgs,
		CheckArg:          CheckArg,
		CheckArgs:         CheckArgs,
		CheckOption:       CheckOption,
		CheckSubnet:       CheckSubnet,
		CheckInstanceType: CheckInstanceType,
		Traits:            traits,
		MaxUserdata:       MaxUserData,
	}
}
