package driver

import (
	"context"
	"fmt"
	"slices"
)

// PowerAction is what is done to the power of a machine.
type PowerAction string

// The actions.
const (
	PowerOn      PowerAction = "on"       // nothing if it runs
	PowerOff     PowerAction = "off"      // nothing if it is stopped; its system is asked first, where the cloud can do that
	PowerOffHard PowerAction = "off-hard" // nothing if it is stopped; its system is not asked
	PowerCycle   PowerAction = "cycle"    // off without asking, and on; a stopped machine starts
	PowerReboot  PowerAction = "reboot"   // its system is asked to start anew
)

// PowerActions returns every action, in the order in which [Powerer.PowerActions] lists them.
func PowerActions() []PowerAction {
	return []PowerAction{PowerOn, PowerOff, PowerOffHard, PowerCycle, PowerReboot}
}

// Validate returns an error that names the actions if a is none.
func (a PowerAction) Validate() error {
	if slices.Contains(PowerActions(), a) {
		return nil
	}
	return fmt.Errorf("power action %q: must be %s, %s, %s, %s or %s", a, PowerOn, PowerOff, PowerOffHard, PowerCycle, PowerReboot)
}

// Powerer is implemented by drivers whose machines can be switched off and on
// again as they were: disks, identity and provider id stay.
type Powerer interface {
	// Power returns nil once the cloud has accepted the action; that it has come
	// to its end, Get says. It may be repeated: on, off and off-hard then do nothing, and
	// cycle and reboot happen again.
	//
	// A machine that does not exist is an error of class NotFound, an action that
	// the provider or this machine has not one of class Unsupported, and a reboot of
	// a machine that is stopped one of class Invalid, as is an action that is none.
	// A machine whose deletion was asked for does not run again, whatever is said.
	Power(ctx context.Context, ref Ref, action PowerAction) error

	// PowerActions returns what this machine can be asked for, in the order of the
	// function of that name, whether it runs or not; what is missing is refused as one of
	// class Unsupported. A machine that is shown as deleted has none, or is an error of
	// class NotFound, as one is that does not exist.
	PowerActions(ctx context.Context, ref Ref) ([]PowerAction, error)
}
