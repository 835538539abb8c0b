package aws

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"nstance.dev/server/driver"
)

var errNoRef = errors.New("neither an instance id nor a provider id is given")

// Delete terminates a machine. One that it cannot find does not exist, unless this
// process has made it: then the API lags, and the delete is to be tried again.
func (d *Driver) Delete(ctx context.Context, ref driver.Ref) error {
	const op = "delete"
	if err := begin(ctx, op); err != nil {
		return err
	}
	if ref.InstanceID == "" {
		return gone(d.terminate(ctx, ref.ProviderID))
	}
	done, err := d.ledger.take(ctx, ref.InstanceID)
	if err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	defer done()
	d.ledger.end(ref.InstanceID)
	made, _ := d.ledger.look(ref.InstanceID)
	if ref.ProviderID == "" {
		ref.ProviderID = made
	}
	if ref.ProviderID == "" {
		m, err := d.find(ctx, op, ref)
		if driver.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		ref.ProviderID = m.ProviderID
	}
	err = d.terminate(ctx, ref.ProviderID)
	if driver.IsNotFound(err) && ref.ProviderID == made && d.ledger.fresh(ref.InstanceID) {
		return driver.Fail(driver.Transient, op, fmt.Errorf("%s was made a moment ago, and EC2 does not know it yet", made))
	}
	return gone(err)
}

// gone takes a machine that does not exist for one that has ended.
func gone(err error) error {
	if driver.IsNotFound(err) {
		return nil
	}
	return err
}

func (d *Driver) terminate(ctx context.Context, providerID string) error {
	const op = "delete"
	if providerID == "" {
		return driver.Fail(driver.Invalid, op, errNoRef)
	}
	if _, err := d.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{providerID}}); err != nil {
		return fail(op, changes, err)
	}
	return nil
}
