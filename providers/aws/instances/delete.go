package instances

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"nstance.dev/providers/aws/api"
	"nstance.dev/server/driver"
)

var errNoRef = errors.New("neither an instance id nor a provider id is given")

// Delete terminates a machine. One that it cannot find does not exist, unless this
// process has made it: then the API lags, and the delete is to be tried again.
func (all *Instances) Delete(ctx context.Context, ref driver.Ref) error {
	const op = "delete"
	if err := api.Begin(ctx, op); err != nil {
		return err
	}
	if ref.InstanceID == "" {
		return api.IgnoreNotFound(all.terminate(ctx, ref.ProviderID))
	}
	done, err := all.ledger.take(ctx, ref.InstanceID)
	if err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	defer done()
	all.ledger.end(ref.InstanceID)
	made, _ := all.ledger.look(ref.InstanceID)
	if ref.ProviderID == "" {
		ref.ProviderID = made
	}
	if ref.ProviderID == "" {
		m, err := all.Find(ctx, op, ref)
		if driver.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		ref.ProviderID = m.ProviderID
	}
	err = all.terminate(ctx, ref.ProviderID)
	if driver.IsNotFound(err) && ref.ProviderID == made && all.ledger.fresh(ref.InstanceID) {
		return driver.Fail(driver.Transient, op, fmt.Errorf("%s was created moments ago, and EC2 does not show it yet", made))
	}
	return api.IgnoreNotFound(err)
}

func (all *Instances) terminate(ctx context.Context, providerID string) error {
	const op = "delete"
	if providerID == "" {
		return driver.Fail(driver.Invalid, op, errNoRef)
	}
	if _, err := all.api.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{providerID}}); err != nil {
		return api.Fail(op, api.Changes, err)
	}
	return nil
}
