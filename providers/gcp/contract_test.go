package gcp_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/option"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/gcp"
	"nstance.dev/providers/gcp/gcpfake"
	"nstance.dev/providers/gcp/rules"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/driver/drivertest/docpage"
	"nstance.dev/server/driver/drivertest/wire"
)

// The contract, by a server that may do what the page says and nothing else.
func TestContract(t *testing.T) {
	a := new(atlas)
	for name, change := range map[string]func(*gcpfake.Options){
		"slow":    func(*gcpfake.Options) {},
		"lagging": func(o *gcpfake.Options) { o.Lag = time.Minute },
		"prompt":  func(o *gcpfake.Options) { o.Conditions = gcpfake.Conditions{} },
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, harness(a, func(o *gcpfake.Options) { change(o); o.Permissions = append(role(t), optionalPermissions(t)...) }, name == "lagging"))
		})
	}
	t.Run("PowerOfASuspendedMachine", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { powerOfSuspended(t, a) }) })
	t.Run("Documentation", func(t *testing.T) {
		made, taken := a.taken()
		suspended := func(name string) bool { return strings.HasSuffix(name, "instances.suspend") } // by the test, not the driver
		calls, permissions := documentedCalls(t)
		docpage.Same(t, "call", slices.DeleteFunc(made, suspended), calls)
		docpage.Same(t, "permission", slices.DeleteFunc(taken, suspended), permissions)
	})
}

// powerOfSuspended switches a machine on that somebody has suspended.
func powerOfSuspended(t *testing.T, a *atlas) {
	w := newWorld(t)
	d := a.open(t, w).(*gcp.Driver)
	m, err := d.Create(t.Context(), request(t))
	if err != nil {
		t.Fatal(err)
	}
	by, err := compute.NewInstancesRESTClient(t.Context(), option.WithHTTPClient(w.Client()), option.WithEndpoint(gcpfake.Endpoint))
	if err != nil {
		t.Fatal(err)
	}
	_, err = by.Suspend(t.Context(), &computepb.SuspendInstanceRequest{Project: w.Project(), Zone: zone, Instance: m.ProviderID})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Minute)
	ref := driver.Ref{InstanceID: m.InstanceID}
	if m, err := d.Get(t.Context(), ref); err != nil || m.Status != driver.Suspended {
		t.Errorf("suspended: %+v, %v", m, err)
	}
	if err := d.Power(t.Context(), ref, driver.PowerOn); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Minute)
	if m, err := d.Get(t.Context(), ref); err != nil || m.Status != driver.Running {
		t.Errorf("switched on: %+v, %v", m, err)
	}
}

// harness is the suite's way to drivers, whose worlds a remembers. The load
// balancer whose members it moves is one of endpoint groups or an instance group.
func harness(a *atlas, change func(*gcpfake.Options), endpoints bool) drivertest.Harness {
	balancers := []driver.LoadBalancer{
		{Key: "api", Args: map[string]any{"instance_group_name": "group-1"}},
		{Key: "www", Args: map[string]any{"network_endpoint_groups": []any{"neg-1", "neg-2"}}},
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
		Wrap:    synctest.Test,
		Request: complete,
		Reopen:  func(t *testing.T, d driver.Driver) driver.Driver { return a.open(t, a.of(d)) },
		Kill:    func(_ *testing.T, d driver.Driver, id identity.ID) { a.of(d).Kill(string(id)) },
		Write:   func(_ *testing.T, d driver.Driver, id identity.ID, text string) { a.of(d).Write(string(id), text) },
		Delay: func(_ *testing.T, d driver.Driver, by time.Duration) {
			a.of(d).Gate().SetFaults(wire.Always("instances.insert", wire.Fault{Delay: by}))
		},
		Room:      room,
		Many:      room - 1,
		Capacity:  rules.Capacity(),
		Balancers: balancers,
		Patience:  2 * time.Minute,
	}
}
