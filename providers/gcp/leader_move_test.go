package gcp_test

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/providers/gcp"
	"nstance.dev/providers/gcp/gcpfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// holders are the machines that have an alias address.
func (w *world) holders(ip string) string {
	var names []string
	for _, m := range w.Machines() {
		for _, alias := range m.Aliases {
			if strings.TrimSuffix(alias, "/32") == ip {
				names = append(names, m.Name)
			}
		}
	}
	return strings.Join(names, " ")
}

// with opens a driver on a server for another address.
func (w *world) with(t *testing.T, name, ip string) *gcp.Driver {
	t.Helper()
	d, err := gcp.New(t.Context(), gcp.Options{
		Project: w.Project(), Zone: zone, Endpoint: gcpfake.Endpoint, LeaderIP: netip.MustParseAddr(ip),
		HTTPClient: w.Client(), Metadata: &http.Client{Transport: wire.RoundTripper(w.Metadata(name))}, Log: w.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestLeaderAddressMoves(t *testing.T) {
	within(t, func(t *testing.T, w *world, one *gcp.Driver) {
		two := w.driverOn(t, "server-2")
		for _, step := range []struct {
			name string
			do   func() error
			want string
		}{
			{"the first leads", func() error { return one.AssignLeaderNetwork(t.Context(), driver.Addresses{}) }, "server-1"},
			{"and again", func() error { return one.AssignLeaderNetwork(t.Context(), driver.Addresses{}) }, "server-1"},
			{"a standby gives up nothing", func() error { return two.ReleaseLeaderNetwork(t.Context()) }, "server-1"},
			{"the second leads", func() error { return two.AssignLeaderNetwork(t.Context(), driver.Addresses{}) }, "server-2"},
			{"the first gives up too late", func() error { return one.ReleaseLeaderNetwork(t.Context()) }, "server-2"},
			{"the second gives up", func() error { return two.ReleaseLeaderNetwork(t.Context()) }, ""},
		} {
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			time.Sleep(10 * time.Second) // a release is not waited for
			if got := w.holders(leaderIP); got != step.want {
				t.Errorf("%s: %q has the address, want %q", step.name, got, step.want)
			}
		}
	})
}

// Somebody else changes the interface between our look at it and our change: that
// is made again, and what the other one did stays.
func TestLeaderAddressAfterAConflict(t *testing.T) {
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		other := w.with(t, server, "10.0.0.200")
		w.Gate().SetFaults(wire.Times(1, "instances.updateNetworkInterface", wire.Fault{Delay: 10 * time.Second}))
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := d.AssignLeaderNetwork(t.Context(), driver.Addresses{}); err != nil {
				t.Errorf("assign: %v", err)
			}
		})
		synctest.Wait() // ours has begun, and waits at the gate
		if err := other.AssignLeaderNetwork(t.Context(), driver.Addresses{}); err != nil {
			t.Errorf("assign another: %v", err)
		}
		wg.Wait()
		if one, two := w.holders(leaderIP), w.holders("10.0.0.200"); one != server || two != server {
			t.Errorf("%q and %q have the addresses", one, two)
		}
		if n := w.Gate().Count("instances.updateNetworkInterface"); n != 3 {
			t.Errorf("%d changes were sent, want one that came too late and two that did not", n)
		}
	})
}

func TestLeaderAddressOfASecondaryRange(t *testing.T) {
	within(t, func(t *testing.T, w *world, _ *gcp.Driver) {
		d := w.with(t, server, "10.9.0.5")
		if err := d.AssignLeaderNetwork(t.Context(), driver.Addresses{}); err != nil || w.holders("10.9.0.5") != server {
			t.Errorf("assign: %v; %q has the address", err, w.holders("10.9.0.5"))
		}
		nowhere := w.with(t, server, "10.10.0.5")
		wantKind(t, "assign an address of no range", nowhere.AssignLeaderNetwork(t.Context(), driver.Addresses{}), driver.Invalid)
	}, func(o *gcpfake.Options) { o.Subnets[0].Secondary = map[string]string{"leaders": "10.9.0.0/24"} })
}

func TestLeaderAddressWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, err := gcp.New(t.Context(), gcp.Options{Project: w.Project(), Zone: zone, Endpoint: gcpfake.Endpoint, HTTPClient: w.Client(), Log: w.log})
		if err != nil {
			t.Fatal(err)
		}
		wantKind(t, "assign", d.AssignLeaderNetwork(t.Context(), driver.Addresses{}), driver.Unsupported)
		wantKind(t, "release", d.ReleaseLeaderNetwork(t.Context()), driver.Unsupported)
	})
}

func TestSelfIDOfAMachineInAnotherZone(t *testing.T) {
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		if id, err := d.SelfID(t.Context()); id != server || err != nil {
			t.Errorf("own id: %q, %v", id, err)
		}
		if err := w.Plant("europe-west1-c", "elsewhere", nil); err != nil {
			t.Fatal(err)
		}
		if id, err := w.driverOn(t, "elsewhere").SelfID(t.Context()); id != "zones/europe-west1-c/instances/elsewhere" || err != nil {
			t.Errorf("own id: %q, %v", id, err)
		}
	})
}

// A server that stops gives the address up in the time that it has, however long
// the cloud takes.
func TestLeaderAddressIsGivenUpWithoutWaiting(t *testing.T) {
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		if err := d.AssignLeaderNetwork(t.Context(), driver.Addresses{}); err != nil {
			t.Fatal(err)
		}
		w.SetConditions(gcpfake.Conditions{Work: time.Minute})
		if err := d.ReleaseLeaderNetwork(patience(t, 2*time.Second)); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}

// A server that gives the address up and starts again on the same machine finds it
// there for as long as it is being taken away. It has it when that is over, too.
func TestLeaderAddressAfterARestartOnTheSameMachine(t *testing.T) {
	within(t, func(t *testing.T, w *world, before *gcp.Driver) {
		w.SetConditions(gcpfake.Conditions{Work: 10 * time.Second})
		if err := before.AssignLeaderNetwork(t.Context(), driver.Addresses{}); err != nil {
			t.Fatal(err)
		}
		if err := before.ReleaseLeaderNetwork(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.driver(t).AssignLeaderNetwork(t.Context(), driver.Addresses{}); err != nil {
			t.Errorf("assign after the restart: %v", err)
		}
		time.Sleep(time.Minute)
		if got := w.holders(leaderIP); got != server {
			t.Errorf("%q has the address, want %q", got, server)
		}
	})
}
