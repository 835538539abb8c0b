// Package rules is what configurations are checked by that name the provider google, and
// how their arguments and options are read. It needs neither a project nor the SDK, so that
// every program can link it: the messages that an instance is made of are described by a
// file that is made from the SDK's.
package rules

import "nstance.dev/server/driver"

// Kind is what server.provider.kind is for this provider. The directory and the Go module
// are called gcp, as the command line tools and SDKs of Google Cloud say; configurations say
// google, and go on doing so.
const Kind = "google"

// MaxUserData is how many bytes of user data fit into one metadata value; see
// https://cloud.google.com/compute/docs/metadata/setting-custom-metadata#limitations.
const MaxUserData = 256 << 10

// New returns what can be checked of a configuration without the cloud.
func New() *driver.Rules {
	return &driver.Rules{
		Kind:              Kind,
		ForbiddenArgs:     forbiddenArgs,
		TenantArgs:        tenantArgs,
		CheckArg:          checkArg,
		CheckArgs:         checkArgs,
		CheckOption:       func(name string, value any) error { return new(Options).set(name, value) },
		CheckSubnet:       func(id string) error { _, err := ParseSubnet(id); return err },
		CheckInstanceType: checkInstanceType,
		Traits:            traits,
		Capacity:          Capacity(),
		MaxUserdata:       MaxUserData,
		CheckLoadBalancer: checkLoadBalancer,
	}
}
