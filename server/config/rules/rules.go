package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/driver"
)

// Rules are those of a provider, or none: then nothing is known of what its cloud
// takes, and nothing is refused. The zero value has none.
type Rules struct {
	provider *driver.Rules // nil: none
}

// Of gives the rules of a provider; nil: it has none.
func Of(provider *driver.Rules) Rules { return Rules{provider} }

// Provider gives the rules of the provider as they stand; nil: there are none.
func (r Rules) Provider() *driver.Rules { return r.provider }

// SizeArgs are the names of arguments that say how big a machine is.
func (r Rules) SizeArgs() []string {
	if r.provider == nil {
		return nil
	}
	return r.provider.SizeArgs
}

// Traits are those of a machine of the first type with the arguments.
func (r Rules) Traits(types []string, args map[string]any) driver.Traits {
	if r.provider == nil || r.provider.Traits == nil || len(types) == 0 {
		return driver.Traits{}
	}
	return r.provider.Traits(types[0], args)
}

// Serves says whether the provider makes machines of a capacity type.
func (r Rules) Serves(capacityType string) bool {
	return r.provider == nil || r.provider.Capacity.Serves(driver.CapacityType(capacityType))
}

// Served are the capacity types that the provider serves; nil: not known.
func (r Rules) Served() []string {
	if r.provider == nil || r.provider.Capacity == nil {
		return nil
	}
	served := make([]string, len(r.provider.Capacity.Types))
	for i, t := range r.provider.Capacity.Types {
		served[i] = string(t)
	}
	return served
}

// MarketFixedBy names the argument that fixes how a machine is paid for; empty: none does.
func (r Rules) MarketFixedBy(args map[string]any) string {
	if r.provider == nil || r.provider.Capacity == nil || r.provider.Capacity.FixedBy == nil {
		return ""
	}
	return r.provider.Capacity.FixedBy(args)
}

// Interruption is the provider's own probability that an interruptible machine of a type is taken
// back within an hour; 0: it has none.
func (r Rules) Interruption(instanceType string) float64 {
	if r.provider == nil || r.provider.Capacity == nil || r.provider.Capacity.Interruption == nil {
		return 0
	}
	return r.provider.Capacity.Interruption(instanceType)
}

// Family is the family of a type by its name; empty: the name does not say.
func (r Rules) Family(instanceType string) string {
	if r.provider == nil || r.provider.Capacity == nil || r.provider.Capacity.Family == nil {
		return ""
	}
	return r.provider.Capacity.Family(instanceType)
}

// CheckArg says why an argument can't be set: a reason, or a warning ([driver.ErrArgWarning])
// where it can.
func (r Rules) CheckArg(name string, value any) error {
	switch {
	case r.provider == nil:
		return nil
	case slices.Contains(r.provider.ForbiddenArgs, name):
		return errors.New("is set by the server itself")
	case r.provider.CheckArg != nil:
		return r.provider.CheckArg(name, value)
	}
	return nil
}

// Sensitive says whether an argument carries rights or reach.
func (r Rules) Sensitive(name string) bool {
	return r.provider != nil && !slices.Contains(r.provider.TenantArgs, name)
}

// CheckTogether gives the problem of a group's arguments taken together.
func (r Rules) CheckTogether(args map[string]any) error {
	if r.provider == nil || r.provider.CheckArgs == nil {
		return nil
	}
	return r.provider.CheckArgs(args)
}

// CheckArgs gives the first problem of the arguments, in order of their names.
func (r Rules) CheckArgs(args map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if err := r.CheckArg(name, args[name]); err != nil && !errors.Is(err, driver.ErrArgWarning) {
			return fmt.Errorf("%s: %w", jsonc.Short(name), err)
		}
	}
	return nil
}

// CheckUserdata says why rendered user data does not fit the cloud.
func (r Rules) CheckUserdata(data string) error {
	if r.provider == nil || r.provider.CheckUserdata == nil {
		return nil
	}
	return r.provider.CheckUserdata([]byte(data))
}

// CheckType says whether a type may be used with an architecture. The error is
// the reason, or a doubt where it may.
func (r Rules) CheckType(instanceType, arch string) (fits bool, reason error) {
	if r.provider == nil || r.provider.CheckInstanceType == nil {
		return true, nil
	}
	err := r.provider.CheckInstanceType(instanceType, arch)
	return err == nil || errors.Is(err, driver.ErrUnknownType), err
}

// MaxUserdata is how many bytes of rendered user data the provider takes.
func (r Rules) MaxUserdata() int {
	if r.provider == nil || r.provider.MaxUserdata == 0 {
		return document.MaxUserdata
	}
	return min(r.provider.MaxUserdata, document.MaxUserdata)
}
