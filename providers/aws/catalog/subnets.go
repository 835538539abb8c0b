package catalog

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"nstance.dev/providers/aws/api"
	"nstance.dev/server/driver"
)

// keptFree is how many addresses of a subnet the server leaves to others: load
// balancers, interfaces of databases, the leader's address.
const keptFree = 10

// CheckSubnet returns how many addresses are free, less those that are kept back. A
// subnet of another zone than the shard's is an error of class Invalid, unless
// [Options].OtherZones allows it.
func (c *Catalog) CheckSubnet(ctx context.Context, subnetID string) (free int, err error) {
	const op = "check-subnet"
	if err := api.Begin(ctx, op); err != nil {
		return 0, err
	}
	out, err := c.api.EC2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{subnetID}})
	if err != nil {
		return 0, api.Fail(op, api.Reads, err)
	}
	if len(out.Subnets) == 0 {
		return 0, driver.Fail(driver.MissingRef, op, fmt.Errorf("no subnet %s", subnetID))
	}
	s := out.Subnets[0]
	if zone := sdk.ToString(s.AvailabilityZone); c.opts.Zone != "" && zone != c.opts.Zone && !c.opts.OtherZones {
		return 0, driver.Fail(driver.Invalid, op, fmt.Errorf(
			"subnet %s is in zone %s, and server.provider.zone is %s; Kubernetes would look for its machines in the wrong zone: "+
				"use a subnet of the zone, or set other_zones in server.provider.options", subnetID, zone, c.opts.Zone))
	}
	return max(0, int(sdk.ToInt32(s.AvailableIpAddressCount))-keptFree), nil
}
