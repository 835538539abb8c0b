package shard

import (
	"testing"
	"time"

	"nstance.dev/server/driver/drivertest"
)

// TestL3_TheTimeToRegisterBeginsWhenTheMachineRuns: a cloud that takes longer to make a machine
// than an agent has to register. The nonce lives long enough, and a machine that then does
// not register is replaced in its time.
func TestL3_TheTimeToRegisterBeginsWhenTheMachineRuns(t *testing.T) {
	opts := worldOptions{
		DeadAgents: true, Timeout: "2m", Server: `"registration": {"nonce_ttl": "10m"},`,
		Cloud: drivertest.Options{Conditions: drivertest.Conditions{BootTime: 5 * time.Minute}},
	}
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(5*time.Minute + 30*time.Second)
		vm := w.vms(web)[0]
		if n := w.cloud.Created(); n != 1 {
			t.Fatalf("%d machines were made while the first one was being made", n)
		}
		if _, err := register(w.term(), string(vm.Request.UserData), newKey(t)); err != nil {
			t.Errorf("the agent of a machine that took five minutes: %v", err)
		}
	})
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(5*time.Minute + time.Minute)
		if n := w.cloud.Created(); n != 1 {
			t.Errorf("%d machines after six minutes", n)
		}
		w.settle(3 * time.Minute)
		if n := w.cloud.Created(); n < 2 {
			t.Error("a machine that ran for four minutes, and whose agent had two, was not replaced")
		}
	})
}
