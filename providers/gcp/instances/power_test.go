package instances

import (
	"testing"

	"nstance.dev/server/driver"
)

func TestPowerCallFor(t *testing.T) {
	type outcome struct {
		call powerCall
		kind driver.ErrorClass // of the error
	}
	for state, want := range map[string]map[driver.PowerAction]outcome{
		"RUNNING":    {driver.PowerOn: {}, driver.PowerOff: {call: callStop}, driver.PowerCycle: {call: callReset}},
		"STAGING":    {driver.PowerOn: {}, driver.PowerOff: {call: callStop}, driver.PowerCycle: {}},
		"TERMINATED": {driver.PowerOn: {call: callStart}, driver.PowerOff: {}, driver.PowerCycle: {call: callStart}},
		"SUSPENDED":  {driver.PowerOn: {call: callResume}, driver.PowerOff: {call: callStop}, driver.PowerCycle: {call: callResume}},
		"STOPPING":   {driver.PowerOn: {kind: driver.Transient}, driver.PowerOff: {}, driver.PowerCycle: {kind: driver.Transient}},
		"SUSPENDING": {driver.PowerOn: {kind: driver.Transient}, driver.PowerOff: {}, driver.PowerCycle: {kind: driver.Transient}},
		"REPAIRING":  {driver.PowerOn: {}, driver.PowerOff: {call: callStop}, driver.PowerCycle: {}},
	} {
		want[driver.PowerReboot], want[driver.PowerOffHard] = outcome{kind: driver.Unsupported}, outcome{kind: driver.Unsupported}
		for action, want := range want {
			l, err := powerCallFor(action, state)
			got := outcome{call: l}
			if err != nil {
				got.kind = driver.ClassOf(err)
			}
			if got != want {
				t.Errorf("%s while %s: %+v, want %+v", action, state, got, want)
			}
		}
	}
}
