package instances

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/aws/api"
	"nstance.dev/providers/aws/rules"
	"nstance.dev/server/driver"
)

// Create launches one instance with the instance id as client token, which makes a
// repeated call answer with the instance that the first one made.
// Source: https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
func (all *Instances) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	const op = "create"
	if err := api.Begin(ctx, op); err != nil {
		return driver.Machine{}, err
	}
	in, err := launch(req)
	if err != nil {
		return driver.Machine{}, driver.Fail(driver.Invalid, op, err)
	}
	done, err := all.ledger.take(ctx, req.InstanceID)
	if err != nil {
		return driver.Machine{}, driver.Fail(driver.Transient, op, err)
	}
	defer done()
	if _, ended := all.ledger.look(req.InstanceID); ended {
		return driver.Machine{}, driver.Fail(driver.Invalid, op, fmt.Errorf("the deletion of %s was asked for", req.InstanceID))
	}
	broke := false
	out, err := all.api.EC2.RunInstances(ctx, in, api.NoteBroken(&broke))
	switch {
	case err != nil && broke:
		return driver.Machine{}, driver.Fail(driver.Ambiguous, op, err)
	case err != nil:
		return driver.Machine{}, api.Fail(op, api.Changes, explain(in, err))
	}
	if len(out.Instances) != 1 {
		return driver.Machine{}, driver.Fail(driver.Ambiguous, op, fmt.Errorf("EC2 answered with %d instances; want 1", len(out.Instances)))
	}
	m := machineOf(out.Instances[0])
	all.ledger.made(req.InstanceID, m.ProviderID)
	if m.Status == driver.Deleting || m.Status == driver.Deleted {
		return driver.Machine{}, driver.Fail(driver.Invalid, op, fmt.Errorf("%s was %s and has ended", req.InstanceID, m.ProviderID))
	}
	m.InstanceID, m.RawID = req.InstanceID, string(req.InstanceID)
	return m, nil
}

// explain adds the remedy to an error whose cause a configuration does not show: the
// subnet of the call clashes with network interfaces of the launch template.
func explain(in *ec2.RunInstancesInput, err error) error {
	if in.LaunchTemplate != nil && len(in.NetworkInterfaces) == 0 && api.HasCode(err, "InvalidParameterCombination") {
		return fmt.Errorf("%w; if the launch template has network interfaces, add \"NetworkInterfaces\": [{\"DeviceIndex\": 0}] to args: "+
			"the subnet then goes into the interface", err)
	}
	return err
}

// launch is the call that makes the machine of a request. It is a pure function:
// equal requests give equal calls, as the client token demands.
func launch(req driver.CreateRequest) (*ec2.RunInstancesInput, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	in, err := decodeArgs(req.Args)
	if err != nil {
		return nil, err
	}
	if len(req.UserData) > 0 {
		userData, err := rules.EncodeUserData(req.UserData)
		if err != nil {
			return nil, err
		}
		in.UserData = sdk.String(userData)
	}
	in.ClientToken = sdk.String(string(req.InstanceID))
	in.MinCount, in.MaxCount = sdk.Int32(1), sdk.Int32(1)
	in.InstanceType = types.InstanceType(req.InstanceType)
	pay(in, req)
	in.TagSpecifications = withTags(in.TagSpecifications, tagsOf(req), string(req.InstanceID))
	place(in, req.SubnetID)
	return in, nil
}

// pay says how the machine is paid for, where the request does.
func pay(in *ec2.RunInstancesInput, req driver.CreateRequest) {
	switch req.CapacityType {
	case driver.Spot:
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{
			MarketType:  types.MarketTypeSpot,
			SpotOptions: &types.SpotMarketOptions{SpotInstanceType: types.SpotInstanceTypeOneTime, InstanceInterruptionBehavior: types.InstanceInterruptionBehaviorTerminate},
		}
	case driver.Reserved:
		in.CapacityReservationSpecification = &types.CapacityReservationSpecification{
			CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: sdk.String(req.Reservation)},
		}
	}
}

// place puts a machine into a subnet. EC2 takes it with the interfaces, if there
// are any, and else with the call; an interface that exists has one already.
func place(in *ec2.RunInstancesInput, subnet string) {
	if len(in.NetworkInterfaces) == 0 {
		in.SubnetId = sdk.String(subnet)
		return
	}
	for i := range in.NetworkInterfaces {
		if n := &in.NetworkInterfaces[i]; n.NetworkInterfaceId == nil {
			n.SubnetId = sdk.String(subnet)
		}
	}
}

var capacity = rules.Capacity()

// check finds what the server itself must have set.
func check(req driver.CreateRequest) error {
	var errs []error
	if _, err := identity.ParseID(string(req.InstanceID)); err != nil {
		errs = append(errs, fmt.Errorf("instance id: %w", err))
	}
	for _, n := range []struct{ what, name string }{{"cluster", req.Owner.Cluster}, {"shard", req.Owner.Shard}} {
		if err := identity.ValidateName(n.name); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.what, err))
		}
	}
	if req.InstanceType == "" {
		errs = append(errs, errors.New("instance type: missing"))
	}
	if req.SubnetID == "" {
		errs = append(errs, errors.New("subnet: missing"))
	}
	if err := capacity.Check(req); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
