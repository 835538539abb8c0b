package gcp

import (
	"context"
	"errors"
	"fmt"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/iterator"

	"nstance.dev/providers/gcp/rules"
	"nstance.dev/server/driver"
)

// pageSize is the most that one answer of a listing holds.
const pageSize = 500

// Get returns the machine of a name.
func (d *Driver) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	const op = "get"
	if err := begin(ctx, op); err != nil {
		return driver.Machine{}, err
	}
	name, err := nameOf(op, ref)
	if err != nil {
		return driver.Machine{}, err
	}
	return d.get(ctx, op, name)
}

func (d *Driver) get(ctx context.Context, op, name string) (driver.Machine, error) {
	inst, err := d.fetch(ctx, op, name)
	if err != nil {
		return driver.Machine{}, err
	}
	return d.machine(inst), nil
}

// fetch returns an instance, or an error of kind NotFound.
func (d *Driver) fetch(ctx context.Context, op, name string) (*computepb.Instance, error) {
	if !rules.ResourceName.MatchString(name) {
		return nil, driver.Fail(driver.NotFound, op, fmt.Errorf("%q is the name of no machine", name))
	}
	inst, err := d.api.instances.Get(ctx, &computepb.GetInstanceRequest{Project: d.project, Zone: d.zone, Instance: name})
	if err == nil {
		return inst, nil
	}
	err = fail(op, reads, err)
	if driver.KindOf(err) == driver.MissingRef {
		err = driver.Fail(driver.NotFound, op, err)
	}
	return nil, err
}

// List returns the machines with the owner's labels.
func (d *Driver) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	const op = "list"
	if err := begin(ctx, op); err != nil {
		return nil, err
	}
	var machines []driver.Machine
	err := d.each(ctx, op, d.zone, ownerFilter(owner), func(inst *computepb.Instance) {
		if owned(inst.GetLabels(), owner) {
			machines = append(machines, d.machine(inst))
		}
	})
	if err != nil {
		return nil, err
	}
	return machines, nil
}

// each calls visit for every instance of a zone that a filter selects, once. It
// has visited all of them if the error is nil.
func (d *Driver) each(ctx context.Context, op, zone, filter string, visit func(*computepb.Instance)) error {
	req := &computepb.ListInstancesRequest{Project: d.project, Zone: zone, MaxResults: new(uint32(pageSize))}
	if filter != "" {
		req.Filter = &filter
	}
	seen := map[uint64]bool{} // pages may overlap while machines come and go
	for it := d.api.instances.List(ctx, req); ; {
		inst, err := it.Next()
		done := errors.Is(err, iterator.Done)
		if err == nil || done {
			err = partial(it)
		}
		switch {
		case err != nil:
			return fail(op, reads, err)
		case done:
			return nil
		}
		if !seen[inst.GetId()] {
			seen[inst.GetId()] = true
			visit(inst)
		}
	}
}

// partial is the error of a page that says of itself that something is missing.
func partial(it *compute.InstanceIterator) error {
	page, _ := it.Response.(*computepb.InstanceList)
	switch warning := page.GetWarning(); warning.GetCode() {
	case computepb.Warning_UNREACHABLE.String(), computepb.Warning_PARTIAL_SUCCESS.String():
		return fmt.Errorf("the listing is not complete: %s: %s", warning.GetCode(), warning.GetMessage())
	}
	return nil
}
