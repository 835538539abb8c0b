package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/placement"
	"nstance.dev/server/render"
)

// supplies are what it takes to make a machine of a group and does not stand in
// its configuration.
type supplies struct {
	claim    *placement.Claim
	userdata []byte // as fetched; nil where it stands in the configuration
	imageID  string // of the first image that args or user data name; "" if none
}

// supply gathers what it takes to make one machine; nil without an error means
// that the group has to wait. A caller who asked for an instance waits for the
// answers, a group does so without a worker.
func (r *Reign) supply(ctx context.Context, group fleet.GroupID, eff *config.EffectiveGroup, opts launchOptions) (*supplies, error) {
	for {
		s, needs, err := r.gather(eff)
		switch {
		case err != nil:
			r.hold(group, "", driver.KindOf(err), err)
			return nil, nil
		case len(needs) == 0:
			return s, nil
		case !opts.onDemand:
			r.inquiries.wait(group, needs)
			return nil, nil
		}
		if err := r.inquiries.await(ctx, needs); err != nil {
			return nil, err
		}
	}
}

// gather takes what is known, and says what has to be found out first. An error
// is one that waiting does not mend; what it says is for the group's tenant.
func (r *Reign) gather(eff *config.EffectiveGroup) (*supplies, []need, error) {
	s := &supplies{}
	needs, err := r.gatherUserdata(eff, s)
	if err != nil || len(needs) > 0 {
		return nil, needs, err
	}
	if needs, err = r.gatherImages(eff, s); err != nil || len(needs) > 0 {
		return nil, needs, err
	}
	choice := r.book.Choose(wishOf(eff), r.now())
	for _, subnet := range choice.Ask {
		needs = append(needs, r.room(subnet))
	}
	switch s.claim = choice.Claim; {
	case choice.Why != "":
		return nil, nil, driver.Fail(driver.Capacity, "create", fmt.Errorf("no room in pool %q: %s", eff.SubnetPool, choice.Why))
	case s.claim == nil:
		return nil, needs, nil
	}
	for _, n := range needs {
		r.inquiries.ask(n) // for the machines that come next
	}
	return s, nil, nil
}

// gatherUserdata takes user data that stands at an address.
func (r *Reign) gatherUserdata(eff *config.EffectiveGroup, s *supplies) ([]need, error) {
	if eff.Userdata.Source != config.SourceURL {
		return nil, nil
	}
	address := eff.Userdata.Content
	data, err := r.shelf.Take(address, r.now())
	switch {
	case err != nil:
		return nil, driver.Fail(driver.Transient, "create", fmt.Errorf("template %q: %w", eff.Template, err))
	case data != nil:
		s.userdata = data
		return nil, nil
	}
	return []need{{
		name: "user data " + address, what: "the user data of template " + eff.Template,
		ask: func(ctx context.Context) {
			data, err := r.opts.FetchUserdata(ctx, address)
			if err != nil && ctx.Err() == nil {
				r.log.WarnContext(ctx, "user data not fetched", "template", eff.Template, "error", err)
			}
			if instead := r.shelf.Put(address, data, err, r.now()); !instead.IsZero() && ctx.Err() == nil {
				r.events.failure(r.cache, fleet.GroupID{Tenant: eff.Tenant, Name: eff.Key}, "", string(driver.Transient),
					fmt.Sprintf("the user data of template %q could not be fetched, and machines are made with the copy of %s, for an hour at most: %v",
						eff.Template, instead.UTC().Format(time.RFC3339), err), r.now())
			}
		},
	}}, nil
}

// errImageUnresolved says that nothing is known that an image of the configuration
// could stand for: no look-up has succeeded, and it has no fallback.
var errImageUnresolved = errors.New("not resolved")

// gatherImages sees to it that the images are known that the group's machines
// are made with. Its error is one of the look-up.
func (r *Reign) gatherImages(eff *config.EffectiveGroup, s *supplies) ([]need, error) {
	if len(r.wanted.config().Images) == 0 {
		return nil, nil
	}
	keys, err := render.Images(eff.Args, eff.Userdata, s.userdata)
	if err != nil {
		return nil, driver.Fail(driver.Invalid, "create", err)
	}
	var needs []need
	for _, key := range keys {
		switch state := r.images.Get(key); {
		case state.Pending:
			needs = append(needs, need{
				name: imageQuestion(key), what: fmt.Sprintf("the look-up of image %q", key),
				known: func() bool { return !r.images.Get(key).Pending },
			})
		case state.ID == "":
			return nil, driver.Fail(driver.MissingRef, "create", fmt.Errorf("image %q: %w: %w", key, errImageUnresolved, state.Err))
		case s.imageID == "":
			s.imageID = state.ID
		}
	}
	return needs, nil
}
