// Package rules is what configurations are checked by that name the provider local. It
// needs neither the box nor its processes, so that every program can link it.
package rules

import "nstance.dev/server/driver"

// Kind is what server.provider.kind is for this provider.
const Kind = "local"

// New returns what can be checked of a configuration without the box.
func New() *driver.Rules {
	return &driver.Rules{
		Kind:            Kind,
		CheckOption:     func(name string, value any) error { return new(Options).set(name, value) },
		RequiredOptions: []string{"dir"},
		Traits:          traits,
		Capacity:        Capacity(),
	}
}
