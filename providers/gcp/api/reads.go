package api

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

// PageSize is the most that one answer of a listing holds.
const PageSize = 500

// Fetch returns an instance, or an error of class NotFound.
func (a *Client) Fetch(ctx context.Context, op, name string) (*computepb.Instance, error) {
	if !rules.ResourceName.MatchString(name) {
		return nil, driver.Fail(driver.NotFound, op, fmt.Errorf("%q is not a machine name", name))
	}
	inst, err := a.Instances.Get(ctx, &computepb.GetInstanceRequest{Project: a.Project, Zone: a.Zone, Instance: name})
	if err == nil {
		return inst, nil
	}
	err = Fail(op, Reads, err)
	if driver.ClassOf(err) == driver.MissingRef {
		err = driver.Fail(driver.NotFound, op, err)
	}
	return nil, err
}

// Each calls visit for every instance of a zone that a filter selects, once. It
// has visited all of them if the error is nil.
func (a *Client) Each(ctx context.Context, op, zone, filter string, visit func(*computepb.Instance)) error {
	req := &computepb.ListInstancesRequest{Project: a.Project, Zone: zone, MaxResults: new(uint32(PageSize))}
	if filter != "" {
		req.Filter = &filter
	}
	seen := map[uint64]bool{} // pages may overlap while machines come and go
	for it := a.Instances.List(ctx, req); ; {
		inst, err := it.Next()
		done := errors.Is(err, iterator.Done)
		if err == nil || done {
			err = partial(it)
		}
		switch {
		case err != nil:
			return Fail(op, Reads, err)
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
