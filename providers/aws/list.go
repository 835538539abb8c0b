package aws

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/server/driver"
)

// page is how many instances one answer may have: the most that EC2 allows.
const page = 1000

// List asks for the machines with the owner's tags, page by page.
func (d *Driver) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	const op = "list"
	if err := begin(ctx, op); err != nil {
		return nil, err
	}
	instances, err := d.describe(ctx, &ec2.DescribeInstancesInput{Filters: ofOwner(owner), MaxResults: sdk.Int32(page)})
	if err != nil {
		return nil, fail(op, reads, err)
	}
	machines, err := d.machinesOf(ctx, instances)
	if err != nil {
		return nil, fail(op, reads, err)
	}
	return machines, nil
}

// Get asks for one machine, by the provider's id where it is known and else by
// its tag.
func (d *Driver) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	const op = "get"
	if err := begin(ctx, op); err != nil {
		return driver.Machine{}, err
	}
	return d.find(ctx, op, ref)
}

// find is [Driver.Get] on behalf of op.
func (d *Driver) find(ctx context.Context, op string, ref driver.Ref) (driver.Machine, error) {
	in := &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(page)}
	switch {
	case ref.ProviderID != "":
		in = &ec2.DescribeInstancesInput{InstanceIds: []string{ref.ProviderID}}
	case ref.InstanceID != "":
		in.Filters = ofInstance(string(ref.InstanceID))
	default:
		return driver.Machine{}, driver.Fail(driver.Invalid, op, errNoRef)
	}
	instances, err := d.describe(ctx, in)
	if err != nil {
		return driver.Machine{}, fail(op, reads, err)
	}
	machines, err := d.machinesOf(ctx, instances)
	if err != nil {
		return driver.Machine{}, fail(op, reads, err)
	}
	for _, m := range machines {
		if ref.InstanceID == "" || m.InstanceID == ref.InstanceID {
			return m, nil
		}
	}
	return driver.Machine{}, driver.Fail(driver.NotFound, op, fmt.Errorf("no instance with the tags of %s", ref.InstanceID))
}

func (d *Driver) describe(ctx context.Context, in *ec2.DescribeInstancesInput) ([]types.Instance, error) {
	var all []types.Instance
	for pages := ec2.NewDescribeInstancesPaginator(d.ec2, in); pages.HasMorePages(); {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, instancesOf(out.Reservations)...)
	}
	return all, nil
}
