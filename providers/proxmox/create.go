package proxmox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// create makes a machine, with its instance's turn held.
func (d *Driver) create(ctx context.Context, req driver.CreateRequest, want rules.Settings) (driver.Machine, error) {
	j := d.reg.job(req.InstanceID)
	if j == nil || !d.reg.making(req.InstanceID) {
		m, found, err := d.adopt(ctx, req)
		if err != nil || found {
			return m, err
		}
		if j != nil { // it was made, and is gone since
			return m, failAs(driver.Invalid, "create", fmt.Errorf("%s was made, and %w", req.InstanceID, errMissing))
		}
		j = d.reg.begin(req, want)
	}
	d.reg.update(j, func(p *progress) { p.busy = true })
	err := d.make(ctx, j)
	d.reg.update(j, func(p *progress) {
		p.busy = false
		if err == nil {
			p.done = d.opts.Now()
		}
	})
	if err != nil {
		return driver.Machine{}, err
	}
	n := notesOf(req)
	return driver.Machine{
		InstanceID: req.InstanceID, RawID: string(req.InstanceID), ProviderID: d.reg.progress(j).at.providerID(), Hostname: string(req.InstanceID),
		Status: driver.Running, CreatedAt: n.Created, Tenant: n.Tenant, Group: n.Group, Template: n.Template, Kind: n.Kind,
		SubnetID: req.SubnetID, Type: req.InstanceType,
	}, nil
}

// adopt returns the machine that a request has made already. Nothing is done to it:
// if it does not run, it has ended, or its maker has.
func (d *Driver) adopt(ctx context.Context, req driver.CreateRequest) (driver.Machine, bool, error) {
	m, tags, found, err := d.existing(ctx, req.InstanceID)
	switch kind := kindOf(err); {
	case err != nil && kind == driver.Ambiguous && !errors.Is(err, errOpen):
		return m, false, failAs(driver.Transient, "create", err) // only asked
	case err != nil && errors.Is(err, errOpen):
		return m, false, failAs(driver.Ambiguous, "create", err)
	case err != nil:
		return m, false, failAs(kind, "create", err)
	case found && !ownedBy(tags, req.Owner):
		return driver.Machine{}, false, failAs(driver.Invalid, "create", fmt.Errorf("%s exists, as machine %s of another shard: its tags are %s",
			req.InstanceID, m.ProviderID, strings.Join(tags, ";")))
	}
	return m, found, nil
}

// make brings a create to its end: done, or nothing left of it. Where neither is
// reached, the error is Ambiguous, and the next call goes on.
func (d *Driver) make(ctx context.Context, j *job) error {
	for {
		err := j.failed
		if err == nil {
			err = d.advance(ctx, j)
		}
		begun := d.reg.progress(j).sent
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errQuit):
			return wasDeleted(j.request.InstanceID) // who deletes it cleans up
		case begun && j.failed == nil && resumable(err):
			return failAs(driver.Ambiguous, "create", err)
		}
		if begun {
			j.failed = err
			if left := d.undo(ctx, j); left != nil {
				return failAs(driver.Ambiguous, "create", errors.Join(err, fmt.Errorf("remove what was made: %w", left)))
			}
		}
		if !d.elsewhere(j, err) {
			d.reg.end(j.request.InstanceID)
			return failAs(definite(err), "create", errors.Join(err, j.before))
		}
	}
}

// definite is the kind of an error that has left nothing behind.
func definite(err error) driver.Kind {
	if kind := kindOf(err); kind != driver.Ambiguous && kind != driver.NotFound {
		return kind
	}
	return driver.Transient
}

// resumable reports whether a create that stopped with err may go on where it was.
func resumable(err error) bool {
	return broken(err) || unreachable(err) || kindOf(err) == driver.Throttled ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errOpen)
}

// elsewhere has a create of which nothing is left begin anew, if the node is to
// blame that was chosen for it.
func (d *Driver) elsewhere(j *job, err error) bool {
	node := d.reg.progress(j).at.node
	full := kindOf(err) == driver.Capacity && (j.stage > stageClone || !j.shared)
	if node == "" || !full && !unreachable(err) {
		return false
	}
	d.opts.Log.Warn("a machine could not be made on a node", "node", node, "instance", j.request.InstanceID, "error", err)
	d.reg.shun(node)
	d.reg.update(j, func(p *progress) { p.at, p.need, p.sent = at{}, need{}, false })
	j.again(node, err)
	return true
}
