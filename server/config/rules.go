package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrUnknownType is the answer of [ProviderRules.CheckInstanceType] to a type
// that it knows nothing about; that is a warning, not a problem.
var ErrUnknownType = errors.New("unknown instance type")

// ErrDoubtful is wrapped by what [ProviderRules.CheckArg] finds likely to be a
// mistake, and not surely one; that is a warning.
var ErrDoubtful = errors.New("doubtful")

// ProviderRules are what one cloud knows about its part of a configuration. Nil
// functions and a nil *ProviderRules check nothing. They are called whenever a
// configuration or a request is checked, from any goroutine, and must answer
// at once and without the network.
type ProviderRules struct {
	// Kind is what server.provider.kind must be; empty is any.
	Kind string
	// ForbiddenArgs are names in args that the server sets itself.
	ForbiddenArgs []string
	// TenantArgs are the names in args that carry no rights and reach nothing but the
	// machine itself. All others (identities, networks, keys, images, disks …) callers
	// of the API set only where the template names them in api_args, once the shard has
	// several tenants. What is not known here is such an argument.
	TenantArgs []string
	// CheckArg says what is wrong with one top-level member of args.
	CheckArg func(name string, value any) error
	// SizeArgs are names in args that say what an instance type can say too. The higher
	// layer counts; within one layer it is the argument.
	SizeArgs []string
	// CheckArgs says what is wrong with all the args of a group together, layers
	// merged and templates as they stand: mostly that one is missing.
	CheckArgs func(args map[string]any) error
	// CheckOption says what is wrong with one member of server.provider.options.
	CheckOption func(name string, value any) error
	// RequiredOptions must stand in server.provider.options.
	RequiredOptions []string
	// CheckSubnet says what is wrong with the id of a subnet.
	CheckSubnet func(id string) error
	// CheckInstanceType says why an instance type does not fit an architecture,
	// or ErrUnknownType.
	CheckInstanceType func(instanceType, arch string) error
	// Traits says what the configuration alone tells of the machines of a group, from
	// one of its instance types and its args, layers merged and templates as they stand.
	Traits func(instanceType string, args map[string]any) Traits
	// MaxUserdata is how many bytes of rendered user data the cloud takes; 0 is
	// the package's own limit.
	MaxUserdata int
	// CheckUserdata says why the cloud would not take rendered user data that
	// keeps to MaxUserdata.
	CheckUserdata func(data []byte) error
}

// Traits are what a configuration tells of machines without asking the provider.
type Traits struct {
	// Interruptible: the provider may take the machine back at short notice.
	Interruptible bool
	// VCPU and MemoryMiB are the machine's size where the configuration sets it; 0: it
	// does not.
	VCPU, MemoryMiB int
}

func (r *ProviderRules) traits(types []string, args map[string]any) Traits {
	if r == nil || r.Traits == nil || len(types) == 0 {
		return Traits{}
	}
	return r.Traits(types[0], args)
}

func (r *ProviderRules) checkArg(name string, value any) error {
	switch {
	case r == nil:
		return nil
	case slices.Contains(r.ForbiddenArgs, name):
		return errors.New("is set by the server itself")
	case r.CheckArg != nil:
		return r.CheckArg(name, value)
	}
	return nil
}

// sensitive says whether an argument carries rights or reach.
func (r *ProviderRules) sensitive(name string) bool {
	return r != nil && !slices.Contains(r.TenantArgs, name)
}

// checkTogether gives the problem of a group's arguments taken together.
func (r *ProviderRules) checkTogether(args map[string]any) error {
	if r == nil || r.CheckArgs == nil {
		return nil
	}
	return r.CheckArgs(args)
}

// checkArgs gives the first problem of the arguments, in order of their names.
func (r *ProviderRules) checkArgs(args map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if err := r.checkArg(name, args[name]); err != nil && !errors.Is(err, ErrDoubtful) {
			return fmt.Errorf("%s: %w", shorten(name), err)
		}
	}
	return nil
}

// checkUserdata says why rendered user data does not fit the cloud.
func (r *ProviderRules) checkUserdata(data string) error {
	if r == nil || r.CheckUserdata == nil {
		return nil
	}
	return r.CheckUserdata([]byte(data))
}

// checkType says whether a type may be used with an architecture. The error is
// the reason, or a doubt where it may.
func (r *ProviderRules) checkType(instanceType, arch string) (fits bool, reason error) {
	if r == nil || r.CheckInstanceType == nil {
		return true, nil
	}
	err := r.CheckInstanceType(instanceType, arch)
	return err == nil || errors.Is(err, ErrUnknownType), err
}

func (r *ProviderRules) maxUserdata() int {
	if r == nil || r.MaxUserdata == 0 {
		return MaxUserdata
	}
	return min(r.MaxUserdata, MaxUserdata)
}
