package gcp

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/server/driver"
)

// lever is a call that changes a machine's power.
type lever string

const (
	leverNone   lever = ""
	leverStart  lever = "start"
	leverStop   lever = "stop"
	leverReset  lever = "reset"
	leverResume lever = "resume"
)

// leverFor is the call that an action takes for a machine in a state, in the
// cloud's words. The cloud has no call that asks a system to start anew: reset is
// the button, and a stop and a start are two.
func leverFor(action driver.PowerAction, state string) (lever, error) {
	off := state == "TERMINATED" || state == "STOPPED"
	switch action {
	case driver.PowerReboot:
		return leverNone, driver.Fail(driver.Unsupport, opPower, errors.New("the cloud has no call that asks a system to reboot; use cycle"))
	case driver.PowerOff:
		if off || statusOf(state) == driver.Stopping {
			return leverNone, nil
		}
		return leverStop, nil
	}
	switch {
	case state == "SUSPENDED":
		return leverResume, nil
	case off:
		return leverStart, nil
	case statusOf(state).Down():
		return leverNone, driver.Fail(driver.Transient, opPower, fmt.Errorf("the machine is %s", state))
	case action == driver.PowerCycle && state == "RUNNING":
		return leverReset, nil
	}
	return leverNone, nil
}

const opPower = "power"

// Power switches a machine off and on. Reboot is not supported.
func (d *Driver) Power(ctx context.Context, ref driver.Ref, action driver.PowerAction) error {
	if err := begin(ctx, opPower); err != nil {
		return err
	}
	if err := action.Validate(); err != nil {
		return driver.Fail(driver.Invalid, opPower, err)
	}
	name, err := nameOf(opPower, ref)
	if err != nil {
		return err
	}
	inst, err := d.fetch(ctx, opPower, name)
	if err != nil {
		return err
	}
	l, err := leverFor(action, inst.GetStatus())
	if err != nil {
		return err
	}
	return d.pull(ctx, l, name)
}

// pull makes the call.
func (d *Driver) pull(ctx context.Context, l lever, name string) (err error) {
	switch c := d.api.instances; l {
	case leverStart:
		_, err = c.Start(ctx, &computepb.StartInstanceRequest{Project: d.project, Zone: d.zone, Instance: name})
	case leverStop:
		_, err = c.Stop(ctx, &computepb.StopInstanceRequest{Project: d.project, Zone: d.zone, Instance: name})
	case leverReset:
		_, err = c.Reset(ctx, &computepb.ResetInstanceRequest{Project: d.project, Zone: d.zone, Instance: name})
	case leverResume:
		_, err = c.Resume(ctx, &computepb.ResumeInstanceRequest{Project: d.project, Zone: d.zone, Instance: name})
	}
	if err == nil {
		return nil
	}
	if err = fail(opPower, writes, err); driver.KindOf(err) == driver.MissingRef {
		return driver.Fail(driver.NotFound, opPower, err)
	}
	return err
}
