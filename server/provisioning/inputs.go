package provisioning

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/images"
	"nstance.dev/server/placement"
	"nstance.dev/server/render"
	"nstance.dev/server/userdata"
)

// launchInputs are what it takes to make a machine of a group and does not stand in
// its configuration.
type launchInputs struct {
	claim    *placement.Claim
	userdata []byte // as fetched; nil where it stands in the configuration
	imageID  string // of the first image that args or user data name; "" if none
}

// resolver finds the inputs of a launch, and looks up those that are not known.
type resolver struct {
	opts         Options
	dependencies *dependencies
	subnets      *placement.Lookups // where there is room
	userdata     *userdata.Lookups
	images       *images.Lookups
}

func newResolver(opts Options) *resolver {
	r := &resolver{opts: opts, dependencies: newDependencies(opts.Wake), userdata: userdata.NewLookups(opts.FetchUserdata, opts.Now)}
	subnets := placement.Options{
		Over: opts.Over, Now: opts.Now, Log: opts.Log, Ended: func(subnet string) { r.dependencies.done(subnetDependency(subnet)) },
	}
	if opts.Provider.ChecksSubnets() {
		subnets.Check = opts.Provider.CheckSubnet
	}
	r.subnets = placement.NewLookups(subnets)
	r.images = newLookups(opts, r.dependencies)
	return r
}

// run finds out what is asked for until ctx ends, and waits for what is under way.
func (r *resolver) run(ctx context.Context) {
	var lookups sync.WaitGroup
	defer lookups.Wait()
	lookups.Go(func() { r.images.Run(ctx) })
	lookups.Go(func() { r.subnets.Run(ctx) })
	r.userdata.Run(ctx)
}

// resolve takes what is known, and returns what has to be looked up first. An error
// is one that waiting does not mend; what it says is for the group's tenant.
func (r *resolver) resolve(eff *effective.Group) (*launchInputs, []dependency, error) {
	s := &launchInputs{}
	missing, err := r.resolveUserdata(eff, s)
	if err != nil || len(missing) > 0 {
		return nil, missing, err
	}
	if missing, err = r.resolveImages(eff, s); err != nil || len(missing) > 0 {
		return nil, missing, err
	}
	choice := r.subnets.Choose(placement.Wish{Types: eff.InstanceTypes, Subnets: eff.Subnets}, r.opts.Now())
	for _, subnet := range choice.Ask {
		missing = append(missing, r.room(subnet))
	}
	switch s.claim = choice.Claim; {
	case choice.Why != "":
		return nil, nil, driver.Fail(driver.Capacity, "create", fmt.Errorf("no room in pool %q: %s", eff.SubnetPool, choice.Why))
	case s.claim == nil:
		return nil, missing, nil
	}
	for _, n := range missing {
		r.dependencies.lookUp(n) // for the machines that come next
	}
	return s, nil, nil
}

// resolveUserdata takes user data that stands at an address.
func (r *resolver) resolveUserdata(eff *effective.Group, s *launchInputs) ([]dependency, error) {
	if eff.Userdata.Source != document.SourceURL {
		return nil, nil
	}
	address := eff.Userdata.Content
	data, err := r.userdata.Take(address, r.opts.Now())
	switch {
	case err != nil:
		return nil, driver.Fail(driver.Transient, "create", fmt.Errorf("template %q: %w", eff.Template, err))
	case data != nil:
		s.userdata = data
		return nil, nil
	}
	name := "user data " + address
	return []dependency{{
		name: name, what: "the user data of template " + eff.Template,
		lookUp: func() {
			r.userdata.Ask(address, func(instead time.Time, err error) {
				r.tellOfUserdata(eff, instead, err)
				r.dependencies.done(name)
			})
		},
	}}, nil
}

// tellOfUserdata tells a group that user data could not be fetched, and that an older copy
// serves instead, unless that is zero.
func (r *resolver) tellOfUserdata(eff *effective.Group, instead time.Time, err error) {
	if err != nil {
		r.opts.Log.Warn("user data not fetched", "template", eff.Template, "error", err)
	}
	if !instead.IsZero() {
		r.opts.Failed(fleet.GroupID{Tenant: eff.Tenant, Name: eff.Key}, "", string(driver.Transient),
			fmt.Sprintf("the user data of template %q could not be fetched, and machines are made with the copy of %s, for an hour at most: %v",
				eff.Template, instead.UTC().Format(time.RFC3339), err))
	}
}

// errImageUnresolved says that nothing is known that an image of the configuration
// could stand for: no look-up has succeeded, and it has no fallback.
var errImageUnresolved = errors.New("not resolved")

// resolveImages sees to it that the images are known that the group's machines
// are made with. Its error is one of the look-up.
func (r *resolver) resolveImages(eff *effective.Group, s *launchInputs) ([]dependency, error) {
	if len(r.opts.Groups.Config().Images) == 0 {
		return nil, nil
	}
	keys, err := render.Images(eff.Args, eff.Userdata, s.userdata)
	if err != nil {
		return nil, driver.Fail(driver.Invalid, "create", err)
	}
	var missing []dependency
	for _, key := range keys {
		switch state := r.images.Get(key); {
		case state.Pending:
			missing = append(missing, dependency{
				name: imageDependency(key), what: fmt.Sprintf("the look-up of image %q", key),
				known: func() bool { return !r.images.Get(key).Pending },
			})
		case state.ID == "":
			return nil, driver.Fail(driver.MissingRef, "create", fmt.Errorf("image %q: %w: %w", key, errImageUnresolved, state.Err))
		case s.imageID == "":
			s.imageID = state.ID
		}
	}
	return missing, nil
}

// room is the dependency on how much room a subnet has.
func (r *resolver) room(subnet string) dependency {
	return dependency{
		name: subnetDependency(subnet), what: "how much room subnet " + subnet + " has", lookUp: func() { r.subnets.Ask(subnet) },
	}
}

func subnetDependency(subnet string) string { return "subnet " + subnet }
