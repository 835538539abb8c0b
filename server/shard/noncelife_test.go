package shard

import (
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
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
		if _, err := register(w.reign(), string(vm.Request.UserData), newKey(t)); err != nil {
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

type slowDriver struct {
	driver.Driver
	longest time.Duration
}

func (d slowDriver) LongestCreate() time.Duration { return d.longest }

// TestTheNonceOutlivesTheSlowestCreate, unless its life is configured.
func TestTheNonceOutlivesTheSlowestCreate(t *testing.T) {
	for _, tt := range []struct {
		server  string
		longest time.Duration
		want    time.Duration
	}{
		{``, 0, 2 * time.Minute},
		{``, 15 * time.Minute, 17 * time.Minute},
		{`"registration": {"nonce_ttl": "5m"},`, 15 * time.Minute, 5 * time.Minute},
	} {
		inWorld(t, worldOptions{DeadAgents: true, Server: tt.server}, func(t *testing.T, w *world) {
			if tt.longest > 0 {
				w.reign().opts.Driver = slowDriver{w.reign().opts.Driver, tt.longest}
			}
			w.scale(web, 1)
			w.settle(time.Second)
			claims, err := identity.DecodeNonceUnverified(string(w.vms(web)[0].Request.UserData))
			if err != nil {
				t.Fatal(err)
			}
			rec := w.records()[0]
			if life := time.Duration(claims.ExpiresAt-claims.IssuedAt) * time.Second; life != tt.want || !rec.NonceExpires.Time.Equal(time.Unix(claims.ExpiresAt, 0)) {
				t.Errorf("%s, %v: the nonce lives for %v, and until %v by its record; want %v", tt.server, tt.longest, life, rec.NonceExpires, tt.want)
			}
		})
	}
}
