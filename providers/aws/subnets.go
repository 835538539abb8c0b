package aws

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"nstance.dev/server/driver"
)

// keptFree is how many addresses of a subnet the server leaves to others: load
// balancers, interfaces of databases, the leader's address.
const keptFree = 10

// CheckSubnet returns how many addresses are free, less those that are kept back.
func (d *Driver) CheckSubnet(ctx context.Context, subnetID string) (free int, err error) {
	const op = "check-subnet"
	if err := begin(ctx, op); err != nil {
		return 0, err
	}
	out, err := d.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{subnetID}})
	if err != nil {
		return 0, fail(op, reads, err)
	}
	for _, s := range out.Subnets {
		return max(0, int(sdk.ToInt32(s.AvailableIpAddressCount))-keptFree), nil
	}
	return 0, driver.Fail(driver.MissingRef, op, fmt.Errorf("no subnet %s", subnetID))
}
