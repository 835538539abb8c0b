package driver

import (
	"context"
	"fmt"
)

// PowerAction is what is done to the power of a machine.
type PowerAction string

// The actions.
const (
	PowerOn     PowerAction = "on"     // nothing if it runs
	PowerOff    PowerAction = "off"    // nothing if it is stopped; its system is asked first, where the cloud can do that
	PowerCycle  PowerAction = "cycle"  // off without asking, and on; a stopped machine starts
	PowerReboot PowerAction = "reboot" // its system is asked to start anew
)

// Validate returns an error that names the actions if a is none.
func (a PowerAction) Validate() error {
	switch a {
	case PowerOn, PowerOff, PowerCycle, PowerReboot:
		return nil
	}
	return fmt.Errorf("power action %q: must be %s, %s, %s or %s", a, PowerOn, PowerOff, PowerCycle, PowerReboot)
}

// Powerer is implemented by drivers whose machines can be switched off and on
// again as they were: disks, identity and provider id stay.
type Powerer interface {
	// Power returns nil once the cloud has accepted the action; that it has come
	// to its end, Get says. It may be repeated: on and off then do nothing, and
	// cycle and reboot happen again.
	//
	// A machine that does not exist is an error of class NotFound, an action that
	// the provider or this machine has not one of kind Unsupport, and a reboot of
	// a machine that is stopped one of kind Invalid, as is an action that is none.
	// A machine whose deletion was asked for does not run again, whatever is said.
	Power(ctx context.Context, ref Ref, action PowerAction) error
}
