package creation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/machines"
	"nstance.dev/providers/proxmox/metadata"
	"nstance.dev/providers/proxmox/placement"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// Create makes a machine, or goes on with one that an earlier call began. The caller holds
// the turn of the instance, has checked the request (see [SettingsOf]) and that it is not
// marked to be deleted. An error of class Ambiguous says that there may be something, and that the
// next call goes on; any other that nothing is left.
func (cr *Creator) Create(ctx context.Context, req driver.CreateRequest, want rules.Settings) (driver.Machine, error) {
	j := cr.reg.job(req.InstanceID)
	if j == nil || !cr.reg.Making(req.InstanceID) {
		m, found, err := cr.adopt(ctx, req)
		if err != nil || found {
			return m, err
		}
		if j != nil { // it was made, and is gone since
			return m, api.FailAs(driver.Invalid, "create", fmt.Errorf("%s was made, and %w", req.InstanceID, machines.ErrMissing))
		}
		j = cr.reg.begin(req, want)
	}
	cr.reg.update(j, func(p *progress) { p.busy = true })
	err := cr.make(ctx, j)
	cr.reg.update(j, func(p *progress) {
		p.busy = false
		if err == nil {
			p.done = cr.opts.Now()
		}
	})
	if err != nil {
		return driver.Machine{}, err
	}
	n := metadata.NotesOf(req)
	return driver.Machine{
		InstanceID: req.InstanceID, RawID: string(req.InstanceID), ProviderID: cr.reg.progress(j).at.ProviderID(), Hostname: string(req.InstanceID),
		Status: driver.Running, CreatedAt: n.Created, Tenant: n.Tenant, Group: n.Group, Template: n.Template, Kind: n.Kind,
		SubnetID: req.SubnetID, Type: req.InstanceType,
	}, nil
}

// adopt returns the machine that a request has made already. Nothing is done to it:
// if it does not run, it has ended, or its maker has.
func (cr *Creator) adopt(ctx context.Context, req driver.CreateRequest) (driver.Machine, bool, error) {
	m, tags, found, err := cr.machines.Existing(ctx, req.InstanceID)
	switch kind := api.KindOf(err); {
	case err != nil && kind == driver.Ambiguous && !errors.Is(err, machines.ErrMayExist):
		return m, false, api.FailAs(driver.Transient, "create", err) // only asked
	case err != nil && errors.Is(err, machines.ErrMayExist):
		return m, false, api.FailAs(driver.Ambiguous, "create", err)
	case err != nil:
		return m, false, api.FailAs(kind, "create", err)
	case found && !metadata.OwnedBy(tags, req.Owner):
		return driver.Machine{}, false, api.FailAs(driver.Invalid, "create", fmt.Errorf("%s exists, as machine %s of another shard: its tags are %s",
			req.InstanceID, m.ProviderID, strings.Join(tags, ";")))
	}
	return m, found, nil
}

// make brings a create to its end: done, or nothing left of it. Where neither is
// reached, the error is Ambiguous, and the next call goes on.
func (cr *Creator) make(ctx context.Context, j *job) error {
	for {
		err := j.failed
		if err == nil {
			err = cr.advance(ctx, j)
		}
		begun := cr.reg.progress(j).sent
		switch {
		case err == nil:
			return nil
		case errors.Is(err, api.ErrQuit):
			return WasDeleted(j.request.InstanceID) // who deletes it cleans up
		case begun && j.failed == nil && resumable(err):
			return api.FailAs(driver.Ambiguous, "create", err)
		}
		if begun {
			j.failed = err
			if left := cr.undo(ctx, j); left != nil {
				return api.FailAs(driver.Ambiguous, "create", errors.Join(err, fmt.Errorf("remove what was made: %w", left)))
			}
		}
		if !cr.retryElsewhere(j, err) {
			cr.reg.Forget(j.request.InstanceID)
			return api.FailAs(definite(err), "create", errors.Join(err, j.before))
		}
	}
}

// definite is the kind of an error that has left nothing behind.
func definite(err error) driver.ErrorClass {
	if kind := api.KindOf(err); kind != driver.Ambiguous && kind != driver.NotFound {
		return kind
	}
	return driver.Transient
}

// resumable reports whether a create that stopped with err may go on where it was.
func resumable(err error) bool {
	return api.Broken(err) || api.Unreachable(err) || api.KindOf(err) == driver.Throttled ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, machines.ErrMayExist)
}

// retryElsewhere lets a create of which nothing is left begin from the start, if it failed because
// of the node that was chosen for it.
func (cr *Creator) retryElsewhere(j *job, err error) bool {
	node := cr.reg.progress(j).at.Node
	full := api.KindOf(err) == driver.Capacity && (j.stage > stageClone || !j.from.shared)
	if node == "" || !full && !api.Unreachable(err) {
		return false
	}
	cr.opts.Log.Warn("create failed on a node; trying another", "node", node, "instance", j.request.InstanceID, "error", err)
	cr.reg.avoid(node)
	cr.reg.update(j, func(p *progress) { p.at, p.need, p.sent = api.VM{}, placement.Need{}, false })
	j.again(node, err)
	return true
}

// WasDeleted is the error of a create whose instance is to be deleted, or was.
func WasDeleted(id identity.ID) error {
	return driver.Fail(driver.Invalid, "create", fmt.Errorf("%s was deleted", id))
}
