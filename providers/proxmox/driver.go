package proxmox

import (
	"context"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/creation"
	"nstance.dev/providers/proxmox/locks"
	"nstance.dev/providers/proxmox/machines"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// Driver is one Proxmox VE cluster. Make it with [New]; it needs no end.
type Driver struct {
	opts     Options
	api      *api.Client
	reg      *creation.Registry
	machines *machines.Machines
	creates  *creation.Creator
	ids      locks.ByName // of instances: one call at a time makes or ends a machine
}

var (
	_ driver.Driver    = (*Driver)(nil)
	_ driver.Powerer   = (*Driver)(nil)
	_ driver.Outputter = (*Driver)(nil)
	_ driver.URIer     = (*Driver)(nil)
)

// New returns a driver for the cluster behind the API. It asks nothing yet, see
// [Driver.Check]: an error is about the options.
func New(opts Options) (*Driver, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	client, err := api.New(api.Options{
		URLs: opts.urls, TokenID: opts.TokenID, TokenSecret: opts.TokenSecret,
		InsecureTLS: opts.InsecureTLS, CAFile: opts.CAFile, Fingerprints: opts.Fingerprints, Log: opts.Log, Transport: opts.Transport,
	})
	if err != nil {
		return nil, err
	}
	reg := creation.NewRegistry(opts.Now)
	all := machines.New(client, reg, opts.ISOStorage, opts.Log, opts.Now)
	return &Driver{opts: opts, api: client, reg: reg, machines: all, creates: creation.New(creation.Options{
		API: client, Machines: all, Registry: reg, ISOStorage: opts.ISOStorage, CommittedMemory: opts.PlacementMemory != rules.MemoryUsed,
		ParallelClones: opts.ParallelClones, Log: opts.Log, Now: opts.Now,
	})}, nil
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
	want, err := creation.SettingsOf(req)
	switch {
	case ctx.Err() != nil:
		return driver.Machine{}, api.FailAs(driver.Transient, op, ctx.Err())
	case err != nil:
		return driver.Machine{}, api.FailAs(driver.Invalid, op, err)
	case d.reg.Deleted(req.InstanceID):
		return driver.Machine{}, creation.WasDeleted(req.InstanceID)
	}
	leave, err := d.ids.Take(ctx, string(req.InstanceID))
	if err != nil {
		return driver.Machine{}, api.FailAs(driver.Ambiguous, op, err) // another call is at it
	}
	defer leave()
	if d.reg.Deleted(req.InstanceID) {
		return driver.Machine{}, creation.WasDeleted(req.InstanceID)
	}
	return d.creates.Create(ctx, req, want)
}

// Get returns a machine as its node sees it now.
func (d *Driver) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	const op = "get"
	if err := ctx.Err(); err != nil {
		return driver.Machine{}, api.FailAs(driver.Transient, op, err)
	}
	m, err := d.machines.Get(ctx, ref)
	if err != nil {
		return driver.Machine{}, api.Fail(op, err)
	}
	return m, nil
}

// List returns the machines of an owner. What the list of the cluster says of one that
// runs is some seconds old; one that does not is asked for at its node, because it may
// have been started since. Only what that costs a call for has the display fields.
func (d *Driver) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	const op = "list"
	if err := ctx.Err(); err != nil {
		return nil, api.FailAs(driver.Transient, op, err)
	}
	list, err := d.machines.List(ctx, owner)
	if err != nil {
		return nil, api.Fail(op, err)
	}
	return list, nil
}

// Delete ends a machine: its system is asked to, then it is switched off and
// destroyed with its disks and its CD. A call whose time runs out is gone on with by
// the next one.
func (d *Driver) Delete(ctx context.Context, ref driver.Ref) error {
	const op = "delete"
	if err := ctx.Err(); err != nil {
		return api.FailAs(driver.Transient, op, err)
	}
	if _, err := identity.ParseID(string(ref.InstanceID)); err != nil {
		return api.FailAs(driver.Invalid, op, fmt.Errorf("a machine is deleted by its instance id, its number may be another's by now: %w", err))
	}
	d.reg.MarkDeleted(ref.InstanceID)
	leave, err := d.ids.Take(ctx, string(ref.InstanceID))
	if err != nil {
		return api.FailAs(driver.Ambiguous, op, err)
	}
	defer leave()
	if err := d.creates.Undo(ctx, ref.InstanceID); err != nil {
		return api.Fail(op, err)
	}
	if err := d.machines.End(ctx, ref); err != nil {
		return api.Fail(op, err)
	}
	d.reg.Forget(ref.InstanceID)
	return nil
}

// Power switches a machine on or off, or restarts it. An action that its node has
// accepted goes on when ctx ends.
func (d *Driver) Power(ctx context.Context, ref driver.Ref, action driver.PowerAction) error {
	const op = "power"
	if err := ctx.Err(); err != nil {
		return api.FailAs(driver.Transient, op, err)
	}
	if err := action.Validate(); err != nil {
		return api.FailAs(driver.Invalid, op, err)
	}
	if _, err := identity.ParseID(string(ref.InstanceID)); err != nil {
		return api.FailAs(driver.Invalid, op, err)
	}
	leave, err := d.ids.Take(ctx, string(ref.InstanceID))
	if err != nil {
		return api.FailAs(driver.Transient, op, err)
	}
	defer leave()
	if err := d.machines.Power(ctx, ref, action); err != nil {
		return api.Fail(op, err)
	}
	return nil
}

// PowerActions returns what a machine can be asked for.
func (d *Driver) PowerActions(ctx context.Context, ref driver.Ref) ([]driver.PowerAction, error) {
	const op = "power-actions"
	if err := ctx.Err(); err != nil {
		return nil, api.FailAs(driver.Transient, op, err)
	}
	if _, err := identity.ParseID(string(ref.InstanceID)); err != nil {
		return nil, api.FailAs(driver.Invalid, op, err)
	}
	offers, err := d.machines.PowerActions(ctx, ref)
	if err != nil {
		return nil, api.Fail(op, err)
	}
	return offers, nil
}

// OutputSources are the log of the tasks about a machine alone.
func (d *Driver) OutputSources() []driver.OutputSource { return []driver.OutputSource{driver.Log} }

// Output returns what the last tasks about a machine have noted.
func (d *Driver) Output(ctx context.Context, ref driver.Ref, source driver.OutputSource) (driver.Output, error) {
	const op = "output"
	if err := ctx.Err(); err != nil {
		return driver.Output{}, api.FailAs(driver.Transient, op, err)
	}
	if source != driver.Log {
		return driver.Output{}, api.FailAs(driver.Unsupported, op, fmt.Errorf("of a machine Proxmox VE keeps the %s of its tasks, and no %q", driver.Log, source))
	}
	if _, err := identity.ParseID(string(ref.InstanceID)); err != nil {
		return driver.Output{}, api.FailAs(driver.Invalid, op, err)
	}
	out, err := d.machines.Log(ctx, ref)
	if err != nil {
		return driver.Output{}, api.Fail(op, err)
	}
	return out, nil
}
