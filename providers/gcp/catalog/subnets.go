package catalog

import (
	"context"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/providers/gcp/api"
	"nstance.dev/server/driver"
)

// keptBack is how many addresses of a subnet are left to others: its load
// balancers and machines that people make by hand.
const keptBack = 10

// CheckSubnet returns how many of the addresses that are free in the subnet's
// primary range may still be used. It is unlimited if the cloud does not say:
// where the permission compute.subnetworks.get is missing, or the subnet has no
// IPv4 range.
func (c *Catalog) CheckSubnet(ctx context.Context, subnetID string) (int, error) {
	const op = "check-subnet"
	if err := api.Begin(ctx, op); err != nil {
		return 0, err
	}
	s, err := c.api.Subnet(subnetID)
	if err != nil {
		return 0, driver.Fail(driver.Invalid, op, err)
	}
	got, err := c.api.Subnets.Get(ctx, &computepb.GetSubnetworkRequest{
		Project: s.Project, Region: s.Region, Subnetwork: s.Name,
		Views: new(computepb.GetSubnetworkRequest_WITH_UTILIZATION.String()),
	})
	if err != nil {
		if err = api.Fail(op, api.Reads, err); driver.ClassOf(err) == driver.Auth {
			return -1, nil
		}
		return 0, err
	}
	return usable(got), nil
}

// usable is what of a subnet's primary range may be used; -1 is unlimited.
func usable(s *computepb.Subnetwork) int {
	for _, u := range s.GetUtilizationDetails().GetIpv4Utilizations() {
		if u.GetRangeName() == "" && u.TotalFreeIp != nil {
			return int(max(u.GetTotalFreeIp()-keptBack, 0))
		}
	}
	return -1
}
