// Package rules is what configurations are checked by that name the provider local. It
// needs neither the box nor its processes, so that every program can link it.
package rules

import (
	"fmt"

	"nstance.dev/server/driver"
)

// Kind is what server.provider.kind is for this provider.
const Kind = "local"

// New returns what can be checked of a configuration without the box.
func New() *driver.Rules {
	return &driver.Rules{
		Kind:            Kind,
		CheckArg:        checkArg,
		CheckOption:     func(name string, value any) error { return new(Options).set(name, value) },
		RequiredOptions: []string{"dir"},
		Traits:          traits,
		Capacity:        Capacity(),
	}
}

// checkArg warns of every argument: each create with one is refused. It is no error, because such a configuration was
// valid before, and its machines that exist are looked after.
func checkArg(string, any) error {
	return fmt.Errorf("%w: the local provider has no arguments, and makes no machine with one; take it out", driver.ErrArgWarning)
}
