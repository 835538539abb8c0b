package instances

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/providers/gcp/api"
	"nstance.dev/server/driver"
)

// powerCall is a call that changes a machine's power.
type powerCall string

const (
	callNone   powerCall = ""
	callStart  powerCall = "start"
	callStop   powerCall = "stop"
	callReset  powerCall = "reset"
	callResume powerCall = "resume"
)

// powerCallFor is the call that an action takes for a machine in a state, in the
// cloud's words. The cloud has no call that asks a system to reboot: reset is
// the button, and a stop and a start are two.
func powerCallFor(action driver.PowerAction, state string) (powerCall, error) {
	off := state == "TERMINATED" || state == "STOPPED"
	switch action {
	case driver.PowerReboot:
		return callNone, driver.Fail(driver.Unsupport, opPower, errors.New("the cloud has no call that asks a system to reboot; use cycle"))
	case driver.PowerOff:
		if off || statusOf(state) == driver.Stopping {
			return callNone, nil
		}
		return callStop, nil
	}
	switch {
	case state == "SUSPENDED":
		return callResume, nil
	case off:
		return callStart, nil
	case statusOf(state).Down():
		return callNone, driver.Fail(driver.Transient, opPower, fmt.Errorf("the machine is %s", state))
	case action == driver.PowerCycle && state == "RUNNING":
		return callReset, nil
	}
	return callNone, nil
}

const opPower = "power"

// Power switches a machine off and on. Reboot is not supported.
func (in *Instances) Power(ctx context.Context, ref driver.Ref, action driver.PowerAction) error {
	if err := api.Begin(ctx, opPower); err != nil {
		return err
	}
	if err := action.Validate(); err != nil {
		return driver.Fail(driver.Invalid, opPower, err)
	}
	name, err := api.NameOf(opPower, ref)
	if err != nil {
		return err
	}
	inst, err := in.api.Fetch(ctx, opPower, name)
	if err != nil {
		return err
	}
	l, err := powerCallFor(action, inst.GetStatus())
	if err != nil {
		return err
	}
	return in.call(ctx, l, name)
}

// call makes the call.
func (in *Instances) call(ctx context.Context, l powerCall, name string) (err error) {
	switch c := in.api.Instances; l {
	case callStart:
		_, err = c.Start(ctx, &computepb.StartInstanceRequest{Project: in.api.Project, Zone: in.api.Zone, Instance: name})
	case callStop:
		_, err = c.Stop(ctx, &computepb.StopInstanceRequest{Project: in.api.Project, Zone: in.api.Zone, Instance: name})
	case callReset:
		_, err = c.Reset(ctx, &computepb.ResetInstanceRequest{Project: in.api.Project, Zone: in.api.Zone, Instance: name})
	case callResume:
		_, err = c.Resume(ctx, &computepb.ResumeInstanceRequest{Project: in.api.Project, Zone: in.api.Zone, Instance: name})
	}
	if err == nil {
		return nil
	}
	if err = api.Fail(opPower, api.Writes, err); driver.ClassOf(err) == driver.MissingRef {
		return driver.Fail(driver.NotFound, opPower, err)
	}
	return err
}
