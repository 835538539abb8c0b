package shard

import (
	"testing"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/provider"
)

func TestL9_ALeaderKnowsThatTheProviderIsAway(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.current.ProbeProvider(time.Second)
		if got := w.current.ProviderTrouble(); got != (provider.Trouble{}) {
			t.Errorf("all is well, and yet %+v", got)
		}
		w.cloud.SetFaults(func(drivertest.Call) drivertest.Fault { return drivertest.Fail(driver.Transient) })
		began := time.Now()
		for range 3 {
			w.current.ProbeProvider(time.Second)
		}
		if got := w.current.ProviderTrouble(); got.Tried < 3 || got.Since.Before(began) {
			t.Errorf("three calls failed: %+v", got)
		}
		w.cloud.SetFaults(func(drivertest.Call) drivertest.Fault { return drivertest.Fault{Latency: time.Minute} })
		w.current.ProbeProvider(time.Second)
		if got := w.current.ProviderTrouble(); got.Tried < 4 {
			t.Errorf("a call that gets no answer is one that failed: %+v", got)
		}
		w.cloud.SetFaults(nil)
		w.current.ProbeProvider(time.Second)
		if got := w.current.ProviderTrouble(); got != (provider.Trouble{}) {
			t.Errorf("it came back, and yet %+v", got)
		}
	})
}
