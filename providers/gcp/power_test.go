package gcp

import (
	"testing"

	"nstance.dev/server/driver"
)

func TestLeverFor(t *testing.T) {
	type outcome struct {
		lever lever
		kind  driver.Kind // of the error
	}
	for state, want := range map[string]map[driver.PowerAction]outcome{
		"RUNNING":    {driver.PowerOn: {}, driver.PowerOff: {lever: leverStop}, driver.PowerCycle: {lever: leverReset}},
		"STAGING":    {driver.PowerOn: {}, driver.PowerOff: {lever: leverStop}, driver.PowerCycle: {}},
		"TERMINATED": {driver.PowerOn: {lever: leverStart}, driver.PowerOff: {}, driver.PowerCycle: {lever: leverStart}},
		"SUSPENDED":  {driver.PowerOn: {lever: leverResume}, driver.PowerOff: {lever: leverStop}, driver.PowerCycle: {lever: leverResume}},
		"STOPPING":   {driver.PowerOn: {kind: driver.Transient}, driver.PowerOff: {}, driver.PowerCycle: {kind: driver.Transient}},
		"SUSPENDING": {driver.PowerOn: {kind: driver.Transient}, driver.PowerOff: {}, driver.PowerCycle: {kind: driver.Transient}},
		"REPAIRING":  {driver.PowerOn: {}, driver.PowerOff: {lever: leverStop}, driver.PowerCycle: {}},
	} {
		want[driver.PowerReboot] = outcome{kind: driver.Unsupport}
		for action, want := range want {
			l, err := leverFor(action, state)
			got := outcome{lever: l}
			if err != nil {
				got.kind = driver.KindOf(err)
			}
			if got != want {
				t.Errorf("%s while %s: %+v, want %+v", action, state, got, want)
			}
		}
	}
}
