package instances

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	case driver.PowerOffHard:
		return callNone, driver.Fail(driver.Unsupported, opPower, errors.New("the cloud has no call that switches a machine off without asking its system; use off or cycle"))
	case driver.PowerReboot:
		return callNone, driver.Fail(driver.Unsupported, opPower, errors.New("the cloud has no call that asks a system to reboot; use cycle"))
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
	if action == driver.PowerOff && !slices.Contains(powerOffers(inst), action) && statusOf(inst.GetStatus()) != driver.Deleting {
		return driver.Fail(driver.Unsupported, opPower, errors.New("the machine has a local SSD, whose data would be lost; use cycle"))
	}
	l, err := powerCallFor(action, inst.GetStatus())
	if err != nil {
		return err
	}
	return in.call(ctx, l, name)
}

// PowerActions are on, off and cycle. A machine with a local SSD cannot be switched off, as
// its disk would be lost, and so not on again.
func (in *Instances) PowerActions(ctx context.Context, ref driver.Ref) ([]driver.PowerAction, error) {
	const op = "power-actions"
	if err := api.Begin(ctx, op); err != nil {
		return nil, err
	}
	name, err := api.NameOf(op, ref)
	if err != nil {
		return nil, err
	}
	inst, err := in.api.Fetch(ctx, op, name)
	if err != nil {
		return nil, err
	}
	return powerOffers(inst), nil
}

// powerOffers are the actions of a machine.
func powerOffers(inst *computepb.Instance) []driver.PowerAction {
	switch {
	case statusOf(inst.GetStatus()) == driver.Deleting:
		return nil
	case slices.ContainsFunc(inst.GetDisks(), func(d *computepb.AttachedDisk) bool { return d.GetType() == "SCRATCH" }):
		return []driver.PowerAction{driver.PowerOn, driver.PowerCycle}
	default:
		return []driver.PowerAction{driver.PowerOn, driver.PowerOff, driver.PowerCycle}
	}
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
