package shard

import (
	"context"
	"testing"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
)

func TestReach(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	away := driver.Fail(driver.Transient, "list", nil)
	tests := []struct {
		name     string
		outcomes []error // one a second, each call a second long
		want     ProviderTrouble
	}{
		{"nothing tried", nil, ProviderTrouble{}},
		{"all is well", []error{nil, nil}, ProviderTrouble{}},
		{"a refusal comes through", []error{away, driver.Fail(driver.Capacity, "create", nil)}, ProviderTrouble{}},
		{"failing from the start", []error{away, context.DeadlineExceeded}, ProviderTrouble{Since: at(0), Last: at(2), Tried: 2}},
		{"failing after a success", []error{away, nil, away, away, away}, ProviderTrouble{Since: at(2), Last: at(5), Tried: 3}},
	}
	for _, tt := range tests {
		var r reach
		for i, err := range tt.outcomes {
			r.outcome(at(i), at(i+1), err)
		}
		if got := r.now(); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestL9_ALeaderKnowsThatTheProviderIsAway(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.current.AskProvider(time.Second)
		if got := w.current.ProviderTrouble(); got != (ProviderTrouble{}) {
			t.Errorf("all is well, and yet %+v", got)
		}
		w.cloud.SetFaults(func(drivertest.Call) drivertest.Fault { return drivertest.Fail(driver.Transient) })
		began := time.Now()
		for range 3 {
			w.current.AskProvider(time.Second)
		}
		if got := w.current.ProviderTrouble(); got.Tried < 3 || got.Since.Before(began) {
			t.Errorf("three calls failed: %+v", got)
		}
		w.cloud.SetFaults(func(drivertest.Call) drivertest.Fault { return drivertest.Fault{Latency: time.Minute} })
		w.current.AskProvider(time.Second)
		if got := w.current.ProviderTrouble(); got.Tried < 4 {
			t.Errorf("a call that gets no answer is one that failed: %+v", got)
		}
		w.cloud.SetFaults(nil)
		w.current.AskProvider(time.Second)
		if got := w.current.ProviderTrouble(); got != (ProviderTrouble{}) {
			t.Errorf("it came back, and yet %+v", got)
		}
	})
}
