package instances

import (
	"context"
	"fmt"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/providers/aws/api"
	"nstance.dev/server/driver"
)

// Power starts, stops or reboots a machine. EC2 has no cycle: a machine is stopped
// without regard to its system and started when it has stopped, which takes as long
// as ctx allows. If that is not enough, a repeated call goes on where it ended.
//
// Machines that EC2 cannot stop, such as spot instances, answer with an error of class Unsupported.
func (all *Instances) Power(ctx context.Context, ref driver.Ref, action driver.PowerAction) error {
	const op = "power"
	if err := api.Begin(ctx, op); err != nil {
		return err
	}
	if err := action.Validate(); err != nil {
		return driver.Fail(driver.Invalid, op, err)
	}
	i, m, err := all.find(ctx, op, ref)
	if err != nil {
		return err
	}
	if offers := powerOffers(i, m.Status); len(offers) > 0 && !slices.Contains(offers, action) {
		return driver.Fail(driver.Unsupported, op, fmt.Errorf("%s: a spot instance, or one whose root is an instance store, cannot be stopped", m.ProviderID))
	}
	steps, err := powerSteps(m.Status, action)
	if err != nil {
		return fmt.Errorf("%s: %w", m.ProviderID, err)
	}
	for _, step := range steps {
		err := step(all, ctx, m.ProviderID)
		if api.HasCode(err, "UnsupportedOperation") {
			return driver.Fail(driver.Unsupported, op, err)
		}
		if err != nil {
			return api.Fail(op, api.Changes, err)
		}
	}
	return nil
}

// PowerActions are all, but of what EC2 cannot stop: a spot instance, as those are launched by
// one-time requests, and an instance whose root is an instance store. Those can be rebooted.
func (all *Instances) PowerActions(ctx context.Context, ref driver.Ref) ([]driver.PowerAction, error) {
	const op = "power-actions"
	if err := api.Begin(ctx, op); err != nil {
		return nil, err
	}
	i, m, err := all.find(ctx, op, ref)
	if err != nil {
		return nil, err
	}
	return powerOffers(i, m.Status), nil
}

// powerOffers are the actions of an instance with a status.
func powerOffers(i types.Instance, status driver.Status) []driver.PowerAction {
	switch {
	case status == driver.Deleting || status == driver.Deleted:
		return nil
	case i.InstanceLifecycle == types.InstanceLifecycleTypeSpot, i.RootDeviceType == types.DeviceTypeInstanceStore:
		return []driver.PowerAction{driver.PowerReboot}
	default:
		return driver.PowerActions()
	}
}

// powerStep is one call, or the wait for what it brings about.
type powerStep func(all *Instances, ctx context.Context, providerID string) error

// powerSteps are the calls by which an action comes about, from a status.
func powerSteps(from driver.Status, action driver.PowerAction) ([]powerStep, error) {
	switch {
	case from == driver.Deleting || from == driver.Deleted:
		return nil, driver.Fail(driver.NotFound, "power", fmt.Errorf("is %s", from))
	case action == driver.PowerReboot && from.Down():
		return nil, driver.Fail(driver.Invalid, "power", fmt.Errorf("is %s, and only a running machine can be rebooted", from))
	case action == driver.PowerReboot:
		return []powerStep{(*Instances).reboot}, nil
	case action == driver.PowerOff:
		return []powerStep{(*Instances).stop}, nil
	case action == driver.PowerOffHard:
		return []powerStep{(*Instances).cut}, nil
	case action == driver.PowerOn && from == driver.Stopping:
		return []powerStep{(*Instances).awaitStopped, (*Instances).start}, nil
	case action == driver.PowerOn || from == driver.Stopped:
		return []powerStep{(*Instances).start}, nil
	default:
		return []powerStep{(*Instances).cut, (*Instances).awaitStopped, (*Instances).start}, nil
	}
}

func (all *Instances) start(ctx context.Context, id string) error {
	_, err := all.api.EC2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}})
	return err
}

func (all *Instances) stop(ctx context.Context, id string) error {
	_, err := all.api.EC2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}})
	return err
}

// cut stops a machine without asking its system.
func (all *Instances) cut(ctx context.Context, id string) error {
	_, err := all.api.EC2.StopInstances(ctx, &ec2.StopInstancesInput{
		InstanceIds: []string{id}, Force: sdk.Bool(true), SkipOsShutdown: sdk.Bool(true),
	})
	return err
}

func (all *Instances) reboot(ctx context.Context, id string) error {
	_, err := all.api.EC2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}})
	return err
}

// stopPace is the time between two looks at a machine that stops.
const stopPace = 2 * time.Second

// awaitStopped waits until a machine has stopped. The error is driver's own if it
// will not stop any more.
func (all *Instances) awaitStopped(ctx context.Context, id string) error {
	for {
		m, err := all.Find(ctx, "power", driver.Ref{ProviderID: id})
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
