package instances

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/providers/aws/api"
	"nstance.dev/server/driver"
)

// List asks for the machines with the owner's tags, page by page.
func (all *Instances) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	const op = "list"
	if err := api.Begin(ctx, op); err != nil {
		return nil, err
	}
	instances, err := all.api.Describe(ctx, &ec2.DescribeInstancesInput{Filters: ofOwner(owner), MaxResults: sdk.Int32(api.PageSize)})
	if err != nil {
		return nil, api.Fail(op, api.Reads, err)
	}
	machines, err := all.machinesOf(ctx, instances)
	if err != nil {
		return nil, api.Fail(op, api.Reads, err)
	}
	return machines, nil
}

// Get asks for one machine, by the provider's id where it is known and else by
// its tag.
func (all *Instances) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	const op = "get"
	if err := api.Begin(ctx, op); err != nil {
		return driver.Machine{}, err
	}
	return all.Find(ctx, op, ref)
}

// Find is [Instances.Get] on behalf of op.
func (all *Instances) Find(ctx context.Context, op string, ref driver.Ref) (driver.Machine, error) {
	_, m, err := all.find(ctx, op, ref)
	return m, err
}

// find is [Instances.Find] with the instance as EC2 describes it.
func (all *Instances) find(ctx context.Context, op string, ref driver.Ref) (types.Instance, driver.Machine, error) {
	none := types.Instance{}
	in := &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(api.PageSize)}
	switch {
	case ref.ProviderID != "":
		in = &ec2.DescribeInstancesInput{InstanceIds: []string{ref.ProviderID}}
	case ref.InstanceID != "":
		in.Filters = ofInstance(string(ref.InstanceID))
	default:
		return none, driver.Machine{}, driver.Fail(driver.Invalid, op, errNoRef)
	}
	instances, err := all.api.Describe(ctx, in)
	if err != nil {
		return none, driver.Machine{}, api.Fail(op, api.Reads, err)
	}
	machines, err := all.machinesOf(ctx, instances)
	if err != nil {
		return none, driver.Machine{}, api.Fail(op, api.Reads, err)
	}
	for k, m := range machines {
		if ref.InstanceID == "" || m.InstanceID == ref.InstanceID {
			return instances[k], m, nil
		}
	}
	return none, driver.Machine{}, driver.Fail(driver.NotFound, op, fmt.Errorf("no instance with the tags of %s", ref.InstanceID))
}
