package gcp_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/gcp/gcpfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
)

func TestContract(t *testing.T) {
	for name, change := range map[string]func(*gcpfake.Options){
		"slow":    func(*gcpfake.Options) {},
		"lagging": func(o *gcpfake.Options) { o.Lag = time.Minute },
		"prompt":  func(o *gcpfake.Options) { o.Conditions = gcpfake.Conditions{} },
	} {
		t.Run(name, func(t *testing.T) {
			a := new(atlas)
			drivertest.Run(t, harness(a, change, name == "lagging"))
		})
	}
}

// harness is the suite's way to drivers, whose worlds a remembers. The load
// balancer whose members it moves is one of endpoint groups or an instance group.
func harness(a *atlas, change func(*gcpfake.Options), endpoints bool) drivertest.Harness {
	balancers := []driver.LoadBalancer{
		{Key: "api", InstanceGroup: "group-1"},
		{Key: "www", NetworkEndpointGroups: []string{"neg-1", "neg-2"}},
	}
	if endpoints {
		slices.Reverse(balancers)
	}
	return drivertest.Harness{
		New: func(t *testing.T) driver.Driver {
			w := newWorld(t, change)
			w.SetRoom(zone, "e2-medium", room)
			for _, err := range []error{
				w.AddInstanceGroup(zone, "group-1"), w.AddEndpointGroup(zone, "neg-1", 8443), w.AddEndpointGroup(zone, "neg-2", 443),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			return a.open(t, w)
		},
		Wrap:      synctest.Test,
		Request:   complete,
		Reopen:    func(t *testing.T, d driver.Driver) driver.Driver { return a.open(t, a.of(d)) },
		Kill:      func(_ *testing.T, d driver.Driver, id identity.ID) { a.of(d).Kill(string(id)) },
		Room:      room,
		Balancers: balancers,
		Patience:  2 * time.Minute,
	}
}
