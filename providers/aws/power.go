package aws

import (
	"context"
	"fmt"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"nstance.dev/server/driver"
)

// Power starts, stops or reboots a machine. EC2 has no cycle: a machine is stopped
// without regard to its system and started when it has stopped, which takes as long
// as ctx allows. If that is not enough, a repeated call goes on where it ended.
//
// Machines that EC2 cannot stop, such as spot instances, answer Unsupport.
func (d *Driver) Power(ctx context.Context, ref driver.Ref, action driver.PowerAction) error {
	const op = "power"
	if err := begin(ctx, op); err != nil {
		return err
	}
	if err := action.Validate(); err != nil {
		return driver.Fail(driver.Invalid, op, err)
	}
	m, err := d.find(ctx, op, ref)
	if err != nil {
		return err
	}
	steps, err := powerSteps(m.Status, action)
	if err != nil {
		return fmt.Errorf("%s: %w", m.ProviderID, err)
	}
	for _, step := range steps {
		err := step(d, ctx, m.ProviderID)
		if codeIs(err, "UnsupportedOperation") {
			return driver.Fail(driver.Unsupport, op, err)
		}
		if err != nil {
			return fail(op, changes, err)
		}
	}
	return nil
}

// powerStep is one call, or the wait for what it brings about.
type powerStep func(d *Driver, ctx context.Context, providerID string) error

// powerSteps are the calls by which an action comes about, from a status.
func powerSteps(from driver.Status, action driver.PowerAction) ([]powerStep, error) {
	switch {
	case from == driver.Deleting || from == driver.Deleted:
		return nil, driver.Fail(driver.NotFound, "power", fmt.Errorf("is %s", from))
	case action == driver.PowerReboot && from.Down():
		return nil, driver.Fail(driver.Invalid, "power", fmt.Errorf("is %s, and only a running machine can be rebooted", from))
	case action == driver.PowerReboot:
		return []powerStep{(*Driver).reboot}, nil
	case action == driver.PowerOff:
		return []powerStep{(*Driver).stop}, nil
	case action == driver.PowerOn && from == driver.Stopping:
		return []powerStep{(*Driver).awaitStopped, (*Driver).start}, nil
	case action == driver.PowerOn || from == driver.Stopped:
		return []powerStep{(*Driver).start}, nil
	default:
		return []powerStep{(*Driver).cut, (*Driver).awaitStopped, (*Driver).start}, nil
	}
}

func (d *Driver) start(ctx context.Context, id string) error {
	_, err := d.ec2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}})
	return err
}

func (d *Driver) stop(ctx context.Context, id string) error {
	_, err := d.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}})
	return err
}

// cut stops a machine without asking its system.
func (d *Driver) cut(ctx context.Context, id string) error {
	_, err := d.ec2.StopInstances(ctx, &ec2.StopInstancesInput{
		InstanceIds: []string{id}, Force: sdk.Bool(true), SkipOsShutdown: sdk.Bool(true),
	})
	return err
}

func (d *Driver) reboot(ctx context.Context, id string) error {
	_, err := d.ec2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}})
	return err
}

// stopPace is the time between two looks at a machine that stops.
const stopPace = 2 * time.Second

// awaitStopped waits until a machine has stopped. The error is driver's own if it
// will not stop any more.
func (d *Driver) awaitStopped(ctx context.Context, id string) error {
	for {
		m, err := d.find(ctx, "power", driver.Ref{ProviderID: id})
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("wait until %s has stopped: %w", id, ctx.Err())
		case err != nil:
			return err
		case m.Status == driver.Stopped:
			return nil
		case m.Status == driver.Deleting, m.Status == driver.Deleted:
			return driver.Fail(driver.NotFound, "power", fmt.Errorf("%s is %s", id, m.Status))
		}
		select {
		case <-ctx.Done():
		case <-time.After(stopPace):
		}
	}
}
