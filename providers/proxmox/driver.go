package proxmox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// Driver is one Proxmox VE cluster. Make it with [New]; it needs no end.
type Driver struct {
	opts    Options
	api     *api
	reg     *registry
	numbers numbers
	ids     turns // of instances: one call at a time makes or ends a machine
	clones  turns // of storages
}

var (
	_ driver.Driver  = (*Driver)(nil)
	_ driver.Powerer = (*Driver)(nil)
	_ driver.URIer   = (*Driver)(nil)
)

// New returns a driver for the cluster behind the API. It asks nothing yet, see
// [Driver.Check]: an error is about the options.
func New(opts Options) (*Driver, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	base, err := transportOf(opts)
	if err != nil {
		return nil, err
	}
	base = &endpoints{base: base, urls: opts.urls, log: opts.Log}
	return &Driver{opts: opts, api: newAPI(opts, base), reg: newRegistry(opts.Now), clones: turns{width: opts.ParallelClones}}, nil
}

// Limits are what a cluster of a few nodes takes well: Proxmox VE has none of its own.
func (d *Driver) Limits() driver.Limits {
	return driver.Limits{
		Calls:   driver.Bucket{Rate: 1, Burst: 2},
		Deletes: driver.Bucket{Rate: 2, Burst: 5},
		Reads:   driver.Bucket{Rate: 10, Burst: 20},
	}
}

// Lag is how long a clone may take whose maker has died: it shows when it is done.
func (d *Driver) Lag() time.Duration { return 3 * time.Minute }

// LongestCreate implements driver.SlowCreator: a full clone copies the disk of the template.
func (d *Driver) LongestCreate() time.Duration { return 15 * time.Minute }

// ProviderURI returns nstance://{shard}/{instance id}; or with the option ccm
// proxmox://{region}/{number}, as the cloud controller manager for Proxmox VE
// writes it on nodes.
func (d *Driver) ProviderURI(ref driver.Ref) string {
	if d.opts.ProviderURI == rules.URICCM {
		return "proxmox://" + d.opts.Region + "/" + ref.ProviderID
	}
	return "nstance://" + d.opts.Shard + "/" + string(ref.InstanceID)
}

// Create makes a machine, or goes on with one that an earlier call began.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	const op = "create"
	want, err := settingsOf(req)
	switch {
	case ctx.Err() != nil:
		return driver.Machine{}, failAs(driver.Transient, op, ctx.Err())
	case err != nil:
		return driver.Machine{}, failAs(driver.Invalid, op, err)
	case d.reg.marked(req.InstanceID):
		return driver.Machine{}, wasDeleted(req.InstanceID)
	}
	leave, err := d.ids.take(ctx, string(req.InstanceID))
	if err != nil {
		return driver.Machine{}, failAs(driver.Ambiguous, op, err) // another call is at it
	}
	defer leave()
	if d.reg.marked(req.InstanceID) {
		return driver.Machine{}, wasDeleted(req.InstanceID)
	}
	return d.create(ctx, req, want)
}

func wasDeleted(id identity.ID) error {
	return driver.Fail(driver.Invalid, "create", fmt.Errorf("%s was deleted", id))
}

// Get returns a machine as its node sees it now.
func (d *Driver) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	const op = "get"
	if err := ctx.Err(); err != nil {
		return driver.Machine{}, failAs(driver.Transient, op, err)
	}
	c, found, err := d.find(ctx, ref)
	if err != nil {
		return driver.Machine{}, fail(op, err)
	}
	for _, s := range found {
		m, err := d.look(ctx, c, s)
		if kindOf(err) == driver.NotFound {
			continue // gone, or away, since it was listed
		}
		if err != nil {
			return driver.Machine{}, fail(op, err)
		}
		return m, nil
	}
	if m, ok := d.beingMade(ref.InstanceID); ok {
		return m, nil
	}
	return driver.Machine{}, driver.Fail(driver.NotFound, op, fmt.Errorf("no machine is called %s", nameOf(ref)))
}

// Delete ends a machine: its system is asked to, then it is switched off and
// destroyed with its disks and its CD. A call whose time runs out is gone on with by
// the next one.
func (d *Driver) Delete(ctx context.Context, ref driver.Ref) error {
	const op = "delete"
	if err := ctx.Err(); err != nil {
		return failAs(driver.Transient, op, err)
	}
	if _, err := identity.ParseID(string(ref.InstanceID)); err != nil {
		return failAs(driver.Invalid, op, fmt.Errorf("a machine is deleted by its instance id, its number may be another's by now: %w", err))
	}
	d.reg.mark(ref.InstanceID)
	leave, err := d.ids.take(ctx, string(ref.InstanceID))
	if err != nil {
		return failAs(driver.Ambiguous, op, err)
	}
	defer leave()
	if err := d.end(ctx, ref); err != nil {
		return fail(op, err)
	}
	return nil
}

func nameOf(ref driver.Ref) string {
	if ref.InstanceID != "" {
		return string(ref.InstanceID)
	}
	return "no. " + ref.ProviderID
}

var errMissing = errors.New("it is not there any more")
