package instances

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"nstance.dev/providers/gcp/api"
	"nstance.dev/server/driver"
)

const opCreate = "create"

// Create makes a machine, or finds what an earlier create of it came to. It waits
// for the operation, for only that says whether the zone has room.
func (in *Instances) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	if err := api.Begin(ctx, opCreate); err != nil {
		return driver.Machine{}, err
	}
	inst, err := instanceOf(in.api.Place, req)
	if err != nil {
		return driver.Machine{}, driver.Fail(driver.Invalid, opCreate, err)
	}
	if in.ended.has(req.InstanceID) {
		return driver.Machine{}, in.takeBack(ctx, req)
	}
	m, err := in.create(ctx, req, inst)
	if in.ended.has(req.InstanceID) {
		return driver.Machine{}, in.takeBack(ctx, req)
	}
	return m, err
}

func wasDeleted(req driver.CreateRequest) error {
	return driver.Fail(driver.Invalid, opCreate, fmt.Errorf("%s was deleted", req.InstanceID))
}

// takeBack ends a machine whose end was asked for while it was being made.
func (in *Instances) takeBack(ctx context.Context, req driver.CreateRequest) error {
	if err := in.delete(ctx, string(req.InstanceID)); err != nil {
		return driver.Fail(driver.Ambiguous, opCreate, fmt.Errorf("%s was deleted while it was being created, and may still exist: %w", req.InstanceID, err))
	}
	return wasDeleted(req)
}

// create sends the call and says what came of it.
func (in *Instances) create(ctx context.Context, req driver.CreateRequest, inst *computepb.Instance) (driver.Machine, error) {
	begun, err := in.insert(ctx, req, inst)
	switch {
	case err != nil && api.ReasonOf(err) == api.ReasonExists:
		return in.adopt(ctx, req)
	case err != nil:
		return driver.Machine{}, api.Fail(opCreate, api.Writes, err)
	}
	op := begun.Proto()
	old := begun.Done() // a new one never is: this is the answer to an earlier call
	if err := in.api.Finish(ctx, opCreate, op); err != nil {
		return in.resolve(ctx, req, err)
	}
	made, err := in.api.Fetch(ctx, opCreate, string(req.InstanceID))
	switch {
	case err == nil && old: // of a request with this id, which another shard may have sent
		return in.own(req, made)
	case err == nil:
		return machineOf(in.api.Place, made), nil
	case !old:
		return in.promised(inst), nil // made just now, whatever a look at it says
	}
	return in.remember(ctx, req, inst, op, err)
}

// insert sends the call: without labels on the disks, if the role does not allow those.
// They are for people, and a role from before they were set is no reason to make nothing.
func (in *Instances) insert(ctx context.Context, req driver.CreateRequest, inst *computepb.Instance) (*compute.Operation, error) {
	send := func(inst *computepb.Instance) (*compute.Operation, error) {
		return in.api.Instances.Insert(ctx, &computepb.InsertInstanceRequest{
			Project: in.api.Project, Zone: in.api.Zone, InstanceResource: inst,
			RequestId: new(req.InstanceID.UUID().String()),
		})
	}
	if in.plainDisks.Load() {
		return send(withoutDiskLabels(inst))
	}
	begun, err := send(inst)
	if err == nil || api.KindOf(api.Writes, err) != driver.Auth || !strings.Contains(err.Error(), diskLabels) {
		return begun, err
	}
	if !in.plainDisks.Swap(true) {
		in.log.WarnContext(ctx, "creating disks without labels until the server restarts", "reason", "the role lacks "+diskLabels)
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
func (in *Instances) remember(ctx context.Context, req driver.CreateRequest, inst *computepb.Instance, made *computepb.Operation, err error) (driver.Machine, error) {
	if !driver.IsNotFound(err) {
		return driver.Machine{}, driver.Fail(driver.Ambiguous, opCreate, err)
	}
	deletes, err := in.api.Deletions(ctx, made.GetTargetId())
	switch {
	case err != nil:
		return driver.Machine{}, driver.Fail(driver.Ambiguous, opCreate, err)
	case slices.ContainsFunc(deletes, api.Succeeds):
		return driver.Machine{}, wasDeleted(req)
	}
	return in.promised(inst), nil
}

// promised is a machine that a finished operation has made and that does not
// show yet.
func (in *Instances) promised(inst *computepb.Instance) driver.Machine {
	m := machineOf(in.api.Place, inst)
	m.Status = driver.Pending
	return m
}

// adopt returns the machine that has the request's name already, if it is the
// one that the request asks for.
func (in *Instances) adopt(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	inst, err := in.api.Fetch(ctx, opCreate, string(req.InstanceID))
	if err != nil { // one that does not show, too: it may be coming or going
		return driver.Machine{}, driver.Fail(driver.Ambiguous, opCreate, err)
	}
	return in.own(req, inst)
}

// own returns a machine that has the request's name, or an error if it is another shard's.
func (in *Instances) own(req driver.CreateRequest, inst *computepb.Instance) (driver.Machine, error) {
	if !owned(inst.GetLabels(), req.Owner) || inst.GetLabels()[labelInstanceID] != string(req.InstanceID) {
		return driver.Machine{}, driver.Fail(driver.Invalid, opCreate, fmt.Errorf("a machine named %s exists whose labels are not those of shard %s in cluster %s", req.InstanceID, req.Owner.Shard, req.Owner.Cluster))
	}
	return machineOf(in.api.Place, inst), nil
}

// resolve says what a create came to whose operation failed. A failure that
// nobody has explained did nothing if there is no such machine.
func (in *Instances) resolve(ctx context.Context, req driver.CreateRequest, err error) (driver.Machine, error) {
	failure, ok := errors.AsType[*api.OperationError](err)
	switch {
	case !ok:
		return driver.Machine{}, err // not done: nobody knows
	case failure.Code == api.CodeExists:
		return in.adopt(ctx, req)
	case driver.ClassOf(err) != driver.Ambiguous:
		return driver.Machine{}, err
	}
	if _, found := in.api.Fetch(ctx, opCreate, string(req.InstanceID)); driver.IsNotFound(found) {
		return driver.Machine{}, driver.Fail(driver.Transient, opCreate, failure)
	}
	return driver.Machine{}, err
}
