package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"nstance.dev/server/driver"
)

// rules are the provider's, where it has some.
type rules struct {
	*driver.Rules // nil: everything is allowed
}

func (r rules) traits(types []string, args map[string]any) driver.Traits {
	if r.Rules == nil || r.Traits == nil || len(types) == 0 {
		return driver.Traits{}
	}
	return r.Traits(types[0], args)
}

func (r rules) checkArg(name string, value any) error {
	switch {
	case r.Rules == nil:
		return nil
	case slices.Contains(r.ForbiddenArgs, name):
		return errors.New("is set by the server itself")
	case r.CheckArg != nil:
		return r.CheckArg(name, value)
	}
	return nil
}

// sensitive says whether an argument carries rights or reach.
func (r rules) sensitive(name string) bool {
	return r.Rules != nil && !slices.Contains(r.TenantArgs, name)
}

// checkTogether gives the problem of a group's arguments taken together.
func (r rules) checkTogether(args map[string]any) error {
	if r.Rules == nil || r.CheckArgs == nil {
		return nil
	}
	return r.CheckArgs(args)
}

// checkArgs gives the first problem of the arguments, in order of their names.
func (r rules) checkArgs(args map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if err := r.checkArg(name, args[name]); err != nil && !errors.Is(err, driver.ErrDoubtful) {
			return fmt.Errorf("%s: %w", shorten(name), err)
		}
	}
	return nil
}

// checkUserdata says why rendered user data does not fit the cloud.
func (r rules) checkUserdata(data string) error {
	if r.Rules == nil || r.CheckUserdata == nil {
		return nil
	}
	return r.CheckUserdata([]byte(data))
}

// checkType says whether a type may be used with an architecture. The error is
// the reason, or a doubt where it may.
func (r rules) checkType(instanceType, arch string) (fits bool, reason error) {
	if r.Rules == nil || r.CheckInstanceType == nil {
		return true, nil
	}
	err := r.CheckInstanceType(instanceType, arch)
	return err == nil || errors.Is(err, driver.ErrUnknownType), err
}

func (r rules) maxUserdata() int {
	if r.Rules == nil || r.MaxUserdata == 0 {
		return MaxUserdata
	}
	return min(r.MaxUserdata, MaxUserdata)
}
