package gcp_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/providers/gcp"
	"nstance.dev/providers/gcp/gcpfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// within runs a test in a bubble, on a new project.
func within(t *testing.T, test func(*testing.T, *world, *gcp.Driver), change ...func(*gcpfake.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, change...)
		test(t, w, w.driver(t))
	})
}

// patience is a context that ends after d.
func patience(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func wantKind(t *testing.T, what string, err error, want driver.ErrorClass) {
	t.Helper()
	if e, ok := errors.AsType[*driver.Error](err); !ok || e.Class != want {
		t.Errorf("%s: %v, want one of kind %s", what, err, want)
	}
}

// ours are the machines that tests asked for.
func (w *world) ours() (found []gcpfake.Machine) {
	for _, m := range w.Machines() {
		if !strings.HasPrefix(m.Name, "server-") {
			found = append(found, m)
		}
	}
	return found
}

// Every fault of the cloud, in its own words, is what it says in ours.
func TestFaultsHaveTheirKind(t *testing.T) {
	type kinds struct{ create, get, list, remove driver.ErrorClass }
	for fault, want := range map[driver.ErrorClass]kinds{
		driver.Throttled: {driver.Throttled, driver.Throttled, driver.Throttled, driver.Throttled},
		driver.Capacity:  {driver.Capacity, driver.Capacity, driver.Capacity, driver.Capacity},
		driver.Quota:     {driver.Quota, driver.Quota, driver.Quota, driver.Quota},
		driver.Invalid:   {driver.Invalid, driver.Invalid, driver.Invalid, driver.Invalid},
		driver.Auth:      {driver.Auth, driver.Auth, driver.Auth, driver.Auth},
		driver.Transient: {driver.Ambiguous, driver.Transient, driver.Transient, driver.Ambiguous},
		driver.Ambiguous: {driver.Ambiguous, driver.Transient, driver.Transient, driver.Ambiguous},
	} {
		t.Run(string(fault), func(t *testing.T) {
			within(t, func(t *testing.T, w *world, d *gcp.Driver) {
				w.Gate().SetFaults(wire.Only(func(c wire.Call) bool { return strings.HasPrefix(c.Op, "instances.") }, wire.Always("", wire.Fault{Kind: fault})))
				req := request(t)
				ref := driver.Ref{InstanceID: req.InstanceID}
				_, err := d.Create(t.Context(), req)
				wantKind(t, "create", err, want.create)
				_, err = d.Get(t.Context(), ref)
				wantKind(t, "get", err, want.get)
				_, err = d.List(t.Context(), owner)
				wantKind(t, "list", err, want.list)
				wantKind(t, "delete", d.Delete(t.Context(), ref), want.remove)
			})
		})
	}
}

// A create whose answer is lost, at whatever call, and that is sent again, makes
// one machine.
func TestF19_ALostAnswerMakesOneMachine(t *testing.T) {
	for _, op := range []string{"instances.insert", "zoneOperations.wait", "instances.get"} {
		t.Run(op, func(t *testing.T) {
			within(t, func(t *testing.T, w *world, d *gcp.Driver) {
				w.Gate().SetFaults(wire.Times(1, op, wire.Fault{Lost: true}))
				req := request(t)
				_, err := d.Create(t.Context(), req)
				if op == "instances.insert" {
					wantKind(t, "create", err, driver.Ambiguous)
				} else if err != nil {
					t.Errorf("create: %v", err)
				}
				m, err := d.Create(t.Context(), req)
				if err != nil || m.InstanceID != req.InstanceID || len(w.ours()) != 1 {
					t.Errorf("the repeat made %+v, %v; there are %d machines", m, err, len(w.ours()))
				}
			})
		})
	}
}

// An operation that takes longer than the caller has is not known to be done, and
// the same call again waits for it.
func TestF19_AnOperationLongerThanTheCall(t *testing.T) {
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		req := request(t)
		_, err := d.Create(patience(t, 30*time.Second), req)
		wantKind(t, "create in half of the time", err, driver.Ambiguous)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "operation ") {
			t.Errorf("the error does not say what it waited for: %v", err)
		}
		m, err := d.Create(patience(t, 2*time.Minute), req)
		if err != nil || m.Status != driver.Running || len(w.ours()) != 1 {
			t.Errorf("create again: %+v, %v; there are %d machines", m, err, len(w.ours()))
		}
	}, func(o *gcpfake.Options) { o.Boot = time.Minute })
}

func TestF20_ACreateThatDoesNotShowYetIsNotLost(t *testing.T) {
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		req := request(t)
		for range 2 {
			m, err := d.Create(t.Context(), req)
			if err != nil || m.Status != driver.Pending || m.ProviderID != string(req.InstanceID) || m.Group != "web" {
				t.Errorf("create: %+v, %v", m, err)
			}
		}
		_, err := d.Get(t.Context(), driver.Ref{InstanceID: req.InstanceID})
		wantKind(t, "get", err, driver.NotFound)
		if len(w.ours()) != 1 {
			t.Errorf("there are %d machines", len(w.ours()))
		}
	}, func(o *gcpfake.Options) { o.Lag = 2 * time.Minute })
}

func TestF22_AListingThatFailsOnALaterPageIsAnError(t *testing.T) {
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		for range 5 {
			if _, err := d.Create(t.Context(), request(t)); err != nil {
				t.Fatal(err)
			}
		}
		before := w.Gate().Count("instances.list")
		all, err := d.List(t.Context(), owner)
		if pages := w.Gate().Count("instances.list") - before; err != nil || len(all) != 5 || pages < 3 {
			t.Fatalf("%d machines in %d pages, %v", len(all), pages, err)
		}
		seen := 0
		w.Gate().SetFaults(func(c wire.Call) wire.Fault {
			if c.Op == "instances.list" {
				if seen++; seen == 3 {
					return wire.Fault{Kind: driver.Transient}
				}
			}
			return wire.Fault{}
		})
		all, err = d.List(t.Context(), owner)
		wantKind(t, "list", err, driver.Transient)
		if len(all) > 0 {
			t.Errorf("a listing that failed returned %d machines", len(all))
		}
	})
}

// Of ten creates those that the zone has no room for are refused, and say so.
func TestF23_SomeCreatesAreRefused(t *testing.T) {
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		w.SetRoom(zone, "e2-medium", 6)
		refused := 0
		for range 10 {
			if _, err := d.Create(t.Context(), request(t)); err != nil {
				wantKind(t, "create without room", err, driver.Capacity)
				refused++
			}
		}
		if refused != 4 || len(w.ours()) != 6 {
			t.Errorf("%d of ten were refused, and there are %d machines", refused, len(w.ours()))
		}
	})
}

func TestF25_ASubnetWithoutAddresses(t *testing.T) {
	within(t, func(t *testing.T, _ *world, d *gcp.Driver) {
		for range 4 { // a range of eight has four for machines
			if _, err := d.Create(t.Context(), request(t)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := d.Create(t.Context(), request(t))
		wantKind(t, "create without an address", err, driver.Capacity)
	}, func(o *gcpfake.Options) { o.Subnets[1].Range = "10.0.1.0/29" })
}

func TestF27_ADeleteThatTakesLongIsAcceptedAgain(t *testing.T) {
	within(t, func(t *testing.T, _ *world, d *gcp.Driver) {
		m, err := d.Create(t.Context(), request(t))
		if err != nil {
			t.Fatal(err)
		}
		ref := driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}
		for range 3 {
			if err := d.Delete(t.Context(), ref); err != nil {
				t.Errorf("delete: %v", err)
			}
			time.Sleep(5 * time.Minute)
			if m, err := d.Get(t.Context(), ref); err != nil || !m.Status.Down() {
				t.Errorf("a machine that is being deleted: %+v, %v", m, err)
			}
		}
	}, func(o *gcpfake.Options) { o.End = 20 * time.Minute })
}

// A machine that somebody is just stopping is not being deleted.
func TestDeleteOfAMachineThatIsStopping(t *testing.T) {
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		m, err := d.Create(t.Context(), request(t))
		if err != nil {
			t.Fatal(err)
		}
		ref := driver.Ref{InstanceID: m.InstanceID}
		if err := d.Power(t.Context(), ref, driver.PowerOff); err != nil {
			t.Fatal(err)
		}
		if err := d.Delete(t.Context(), ref); err != nil {
			wantKind(t, "delete while it stops", err, driver.Transient)
			time.Sleep(time.Minute)
			if err := d.Delete(t.Context(), ref); err != nil {
				t.Errorf("delete of a stopped machine: %v", err)
			}
		}
		time.Sleep(2 * time.Minute)
		if left := w.ours(); len(left) > 0 {
			t.Errorf("left: %+v", left)
		}
	})
}

// A machine with the labels of the shard and an id that is none is listed, so that
// it can be held; one with another's labels is not, and never touched.
func TestF29_StrangersAreListedAndNotTaken(t *testing.T) {
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		labels := map[string]string{"nstance-managed": "true", "nstance-cluster-id": "prod", "nstance-shard": "one", "nstance-instance-id": "mine"}
		if err := w.Plant(zone, "pet", labels); err != nil {
			t.Fatal(err)
		}
		all, err := d.List(t.Context(), owner)
		if err != nil || len(all) != 1 || all[0].InstanceID != "" || all[0].RawID != "mine" || all[0].ProviderID != "pet" {
			t.Errorf("list: %+v, %v", all, err)
		}
		req := request(t)
		wantKind(t, "delete of another machine", d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID, ProviderID: "pet"}), driver.Invalid)
		if err := w.Plant(zone, string(req.InstanceID), map[string]string{"nstance-shard": "two"}); err != nil {
			t.Fatal(err)
		}
		_, err = d.Create(t.Context(), req)
		wantKind(t, "create of a name that is taken", err, driver.Invalid)
		if len(w.ours()) != 2 {
			t.Errorf("there are %d machines", len(w.ours()))
		}
	})
}

// What was made under the id by another call is ours if its labels say so: the
// cloud forgets a request id after an hour.
func TestCreateAdoptsItsOwn(t *testing.T) {
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		req := request(t)
		first, err := d.Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		again, err := d.Create(t.Context(), req)
		if err != nil || again != first || len(w.ours()) != 1 {
			t.Errorf("create after two hours: %+v, %v; it was %+v", again, err, first)
		}
	})
}

// A nonce is in the user data, and what the cloud says of it must not be told.
func TestErrorsDoNotTellTheUserData(t *testing.T) {
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		w.Gate().SetFaults(wire.Always("instances.insert", wire.Fault{Kind: driver.Invalid}))
		req := request(t)
		req.UserData = []byte("#!/bin/sh\necho s3cret\n")
		if _, err := d.Create(t.Context(), req); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("create: %v", err)
		}
	})
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*gcp.Options)
		fault  wire.Fault
		say    string // empty: nothing is
	}{
		"nothing":             {},
		"no project":          {change: func(o *gcp.Options) { o.Project = "" }, say: "project: missing"},
		"another project":     {change: func(o *gcp.Options) { o.Project = "other-project" }, say: `"other-project" has no zone`},
		"no such zone":        {change: func(o *gcp.Options) { o.Zone = "mars-north1-a" }, say: `no zone "mars-north1-a"`},
		"no permission":       {fault: wire.Fault{Kind: driver.Auth}, say: "credentials do not let this server into project"},
		"a cloud that is ill": {fault: wire.Fault{Kind: driver.Transient}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(gcp.EnvProject, "")
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.Gate().SetFaults(wire.Always("", tt.fault))
				opts := gcp.Options{Project: w.Project(), Zone: zone, Endpoint: gcpfake.Endpoint, HTTPClient: w.Client(), Log: w.log}
				if tt.change != nil {
					tt.change(&opts)
				}
				_, err := gcp.New(t.Context(), opts)
				if tt.say == "" && err != nil || tt.say != "" && (err == nil || !strings.Contains(err.Error(), tt.say)) {
					t.Errorf("%v, want %q", err, tt.say)
				}
			})
		})
	}
}
