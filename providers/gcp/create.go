package gcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"nstance.dev/server/driver"
)

const opCreate = "create"

// Create makes a machine, or finds what an earlier create of it came to. It waits
// for the operation, for only that says whether the zone has room.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	if err := begin(ctx, opCreate); err != nil {
		return driver.Machine{}, err
	}
	inst, err := d.instance(req)
	if err != nil {
		return driver.Machine{}, driver.Fail(driver.Invalid, opCreate, err)
	}
	if d.ended.has(req.InstanceID) {
		return driver.Machine{}, d.takeBack(ctx, req)
	}
	m, err := d.create(ctx, req, inst)
	if d.ended.has(req.InstanceID) {
		return driver.Machine{}, d.takeBack(ctx, req)
	}
	return m, err
}

func wasDeleted(req driver.CreateRequest) error {
	return driver.Fail(driver.Invalid, opCreate, fmt.Errorf("%s was deleted", req.InstanceID))
}

// takeBack ends a machine whose end was asked for while it was being made.
func (d *Driver) takeBack(ctx context.Context, req driver.CreateRequest) error {
	if err := d.delete(ctx, string(req.InstanceID)); err != nil {
		return driver.Fail(driver.Ambiguous, opCreate, fmt.Errorf("%s was deleted while it was made, and may be left: %w", req.InstanceID, err))
	}
	return wasDeleted(req)
}

// create sends the call and says what came of it.
func (d *Driver) create(ctx context.Context, req driver.CreateRequest, inst *computepb.Instance) (driver.Machine, error) {
	begun, err := d.insert(ctx, req, inst)
	switch {
	case err != nil && reasonOf(err) == reasonExists:
		return d.adopt(ctx, req)
	case err != nil:
		return driver.Machine{}, fail(opCreate, writes, err)
	}
	op := begun.Proto()
	old := begun.Done() // a new one never is: this is the answer to an earlier call
	if err := d.finish(ctx, opCreate, op); err != nil {
		return d.resolve(ctx, req, err)
	}
	made, err := d.fetch(ctx, opCreate, string(req.InstanceID))
	switch {
	case err == nil && old: // of a request with this id, which another shard may have sent
		return d.own(req, made)
	case err == nil:
		return d.machine(made), nil
	case !old:
		return d.promised(inst), nil // made just now, whatever a look at it says
	}
	return d.remember(ctx, req, inst, op, err)
}

// insert sends the call: without labels on the disks, if the role does not allow those.
// They are for people, and a role from before they were set is no reason to make nothing.
func (d *Driver) insert(ctx context.Context, req driver.CreateRequest, inst *computepb.Instance) (*compute.Operation, error) {
	send := func(inst *computepb.Instance) (*compute.Operation, error) {
		return d.api.instances.Insert(ctx, &computepb.InsertInstanceRequest{
			Project: d.project, Zone: d.zone, InstanceResource: inst,
			RequestId: new(req.InstanceID.UUID().String()),
		})
	}
	if d.plainDisks.Load() {
		return send(withoutDiskLabels(inst))
	}
	begun, err := send(inst)
	if err == nil || kindOf(writes, err) != driver.Auth || !strings.Contains(err.Error(), diskLabels) {
		return begun, err
	}
	if !d.plainDisks.Swap(true) {
		d.opts.Log.WarnContext(ctx, "disks are made without labels, until the server is started again", "reason", "the role lacks "+diskLabels)
	}
	return send(withoutDiskLabels(inst))
}

// diskLabels is the permission that labels of disks need.
const diskLabels = "compute.disks.setLabels"

func withoutDiskLabels(inst *computepb.Instance) *computepb.Instance {
	plain := proto.CloneOf(inst)
	for _, disk := range plain.GetDisks() {
		if disk.InitializeParams != nil {
			disk.InitializeParams.Labels = nil
		}
	}
	return plain
}

// remember says what became of a machine that an earlier call has made and that
// does not show: its end leaves an operation behind, and where there is none the
// cloud has only not caught up.
func (d *Driver) remember(ctx context.Context, req driver.CreateRequest, inst *computepb.Instance, made *computepb.Operation, err error) (driver.Machine, error) {
	if !driver.IsNotFound(err) {
		return driver.Machine{}, driver.Fail(driver.Ambiguous, opCreate, err)
	}
	deletes, err := d.deletions(ctx, made.GetTargetId())
	switch {
	case err != nil:
		return driver.Machine{}, driver.Fail(driver.Ambiguous, opCreate, err)
	case slices.ContainsFunc(deletes, succeeds):
		return driver.Machine{}, wasDeleted(req)
	}
	return d.promised(inst), nil
}

// promised is a machine that a finished operation has made and that does not
// show yet.
func (d *Driver) promised(inst *computepb.Instance) driver.Machine {
	m := d.machine(inst)
	m.Status = driver.Pending
	return m
}

// adopt returns the machine that has the request's name already, if it is the
// one that the request asks for.
func (d *Driver) adopt(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	inst, err := d.fetch(ctx, opCreate, string(req.InstanceID))
	if err != nil { // one that does not show, too: it may be coming or going
		return driver.Machine{}, driver.Fail(driver.Ambiguous, opCreate, err)
	}
	return d.own(req, inst)
}

// own returns a machine that has the request's name, or an error if it is another shard's.
func (d *Driver) own(req driver.CreateRequest, inst *computepb.Instance) (driver.Machine, error) {
	if !owned(inst.GetLabels(), req.Owner) || inst.GetLabels()[labelInstanceID] != string(req.InstanceID) {
		return driver.Machine{}, driver.Fail(driver.Invalid, opCreate, fmt.Errorf("a machine named %s exists whose labels are not those of shard %s in cluster %s", req.InstanceID, req.Owner.Shard, req.Owner.Cluster))
	}
	return d.machine(inst), nil
}

// resolve says what a create came to whose operation failed. A failure that
// nobody has explained did nothing if there is no such machine.
func (d *Driver) resolve(ctx context.Context, req driver.CreateRequest, err error) (driver.Machine, error) {
	failure, ok := errors.AsType[*operationError](err)
	switch {
	case !ok:
		return driver.Machine{}, err // not done: nobody knows
	case failure.code == codeExists:
		return d.adopt(ctx, req)
	case driver.KindOf(err) != driver.Ambiguous:
		return driver.Machine{}, err
	}
	if _, found := d.fetch(ctx, opCreate, string(req.InstanceID)); driver.IsNotFound(found) {
		return driver.Machine{}, driver.Fail(driver.Transient, opCreate, failure)
	}
	return driver.Machine{}, err
}
