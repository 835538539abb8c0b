package gcpfake_test

import (
	"context"
	"testing"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/providers/gcp/gcpfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// switches are the calls that change the power of knc1.
func (a *account) switches() map[string]func(context.Context) (*compute.Operation, error) {
	project, zone, name := a.Project(), a.zone, "knc1"
	return map[string]func(context.Context) (*compute.Operation, error){
		"stop": func(ctx context.Context) (*compute.Operation, error) {
			return a.instances.Stop(ctx, &computepb.StopInstanceRequest{Project: project, Zone: zone, Instance: name})
		},
		"start": func(ctx context.Context) (*compute.Operation, error) {
			return a.instances.Start(ctx, &computepb.StartInstanceRequest{Project: project, Zone: zone, Instance: name})
		},
		"reset": func(ctx context.Context) (*compute.Operation, error) {
			return a.instances.Reset(ctx, &computepb.ResetInstanceRequest{Project: project, Zone: zone, Instance: name})
		},
		"suspend": func(ctx context.Context) (*compute.Operation, error) {
			return a.instances.Suspend(ctx, &computepb.SuspendInstanceRequest{Project: project, Zone: zone, Instance: name})
		},
		"resume": func(ctx context.Context) (*compute.Operation, error) {
			return a.instances.Resume(ctx, &computepb.ResumeInstanceRequest{Project: project, Zone: zone, Instance: name})
		},
	}
}

func TestPower(t *testing.T) {
	type step struct{ do, says, then string }
	for name, steps := range map[string][]step{
		"off and on":           {{"stop", "", "TERMINATED"}, {"start", "", "RUNNING"}},
		"off twice, on twice":  {{"stop", "", "TERMINATED"}, {"stop", "", "TERMINATED"}, {"start", "", "RUNNING"}, {"start", "", "RUNNING"}},
		"reset":                {{"reset", "", "RUNNING"}},
		"reset of what is off": {{"stop", "", "TERMINATED"}, {"reset", "400 resourceNotReady", "TERMINATED"}},
		"to sleep and back":    {{"suspend", "", "SUSPENDED"}, {"resume", "", "RUNNING"}},
		"start of what sleeps": {{"suspend", "", "SUSPENDED"}, {"start", "400 resourceNotReady", "SUSPENDED"}},
		"wake what is off":     {{"stop", "", "TERMINATED"}, {"resume", "400 resourceNotReady", "TERMINATED"}},
	} {
		within(t, gcpfake.Options{Conditions: gcpfake.Conditions{Boot: 20 * time.Second, End: 10 * time.Second}}, func(t *testing.T, a *account) {
			a.must("knc1")
			for _, s := range steps {
				op, err := a.switches()[s.do](t.Context())
				if err == nil {
					err = op.Wait(t.Context())
				}
				if got := said(err); err != nil && got != s.says || err == nil && s.says != "" || a.status("knc1") != s.then {
					t.Errorf("%s: %s said %v, want %q; it is %s, want %s", name, s.do, err, s.says, a.status("knc1"), s.then)
				}
			}
		})
	}
}

func TestAMachineIsBetweenStatesForAWhile(t *testing.T) {
	within(t, gcpfake.Options{Conditions: gcpfake.Conditions{Boot: 20 * time.Second, End: 10 * time.Second}}, func(t *testing.T, a *account) {
		a.must("knc1")
		if _, err := a.switches()["stop"](t.Context()); err != nil || a.status("knc1") != "STOPPING" {
			t.Errorf("stop: %v, then %s", err, a.status("knc1"))
		}
		if _, err := a.switches()["start"](t.Context()); said(err) != "400 resourceNotReady" {
			t.Errorf("start of what is stopping: %v", err)
		}
		later(10 * time.Second)
		if _, err := a.switches()["start"](t.Context()); err != nil || a.status("knc1") != "PROVISIONING" {
			t.Errorf("start: %v, then %s", err, a.status("knc1"))
		}
	})
}

func TestAStartNeedsAMachineOfTheZone(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.SetRoom(a.zone, "e2-medium", 1)
		a.must("knc1")
		if op, err := a.switches()["stop"](t.Context()); err != nil || op.Wait(t.Context()) != nil {
			t.Fatalf("stop: %v", err)
		}
		a.must("knc2") // takes the place
		op, err := a.switches()["start"](t.Context())
		if got := failed(t, op, err); got != "ZONE_RESOURCE_POOL_EXHAUSTED" || a.status("knc1") != "TERMINATED" {
			t.Errorf("start: %q, then %s", got, a.status("knc1"))
		}
		a.SetRoom(a.zone, "e2-medium", -1)
		a.Gate().SetFaults(wire.Times(1, "instances.start", wire.Fault{Kind: driver.Capacity}))
		op, err = a.switches()["start"](t.Context())
		if got := failed(t, op, err); got != "ZONE_RESOURCE_POOL_EXHAUSTED" {
			t.Errorf("start in an ill zone: %q", got)
		}
	})
}

func TestF26_ACrashStays(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("knc1")
		if !a.Kill("knc1") || a.status("knc1") != "TERMINATED" || a.Kill("knc1") || a.Kill("knc2") {
			t.Errorf("it is %s", a.status("knc1"))
		}
		if err := a.delete("knc1"); err != nil || a.status("knc1") != "404 notFound" {
			t.Errorf("delete: %v, then %s", err, a.status("knc1"))
		}
	})
}

func TestF28_WhatOthersDeleteIsGone(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("knc1")
		if !a.Remove("knc1") || a.Remove("knc1") || a.status("knc1") != "404 notFound" {
			t.Errorf("it is %s", a.status("knc1"))
		}
		if err := a.Plant(a.zone, "stranger", map[string]string{"team": "two"}); err != nil {
			t.Fatal(err)
		}
		if all, err := a.names("labels.team=two", 0); err != nil || len(all) != 1 || a.status("stranger") != "RUNNING" {
			t.Errorf("planted: %v, %v", all, err)
		}
	})
}

func TestASpotMachineIsTakenAway(t *testing.T) {
	for action, want := range map[string]string{"STOP": "TERMINATED", "DELETE": "404 notFound"} {
		within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
			a.must("normal")
			a.must("spot", func(m *computepb.Instance) {
				m.Scheduling = &computepb.Scheduling{ProvisioningModel: new("SPOT"), InstanceTerminationAction: &action}
			})
			if a.Interrupt("normal") || !a.Interrupt("spot") {
				t.Fatal("the spot machine can be interrupted, and no other")
			}
			later(29 * time.Second)
			if s := a.status("spot"); s != "RUNNING" {
				t.Errorf("it is %s a second before its end", s)
			}
			later(time.Second)
			if s := a.status("spot"); s != want {
				t.Errorf("in the end it is %s, want %s", s, want)
			}
		})
	}
}

func TestALocalSSDKeepsAMachineOn(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("knc1", func(i *computepb.Instance) {
			i.Disks = append(i.Disks, &computepb.AttachedDisk{
				Type: new("SCRATCH"), Interface: new("NVME"), AutoDelete: new(true),
				InitializeParams: &computepb.AttachedDiskInitializeParams{DiskType: new("projects/" + a.Project() + "/zones/" + a.zone + "/diskTypes/local-ssd")},
			})
		})
		if _, err := a.switches()["stop"](t.Context()); said(err) != "400 badRequest" || a.status("knc1") != "RUNNING" {
			t.Errorf("stop: %v, then %s", err, a.status("knc1"))
		}
		op, err := a.instances.Stop(t.Context(), &computepb.StopInstanceRequest{Project: a.Project(), Zone: a.zone, Instance: "knc1", DiscardLocalSsd: new(true)})
		if err == nil {
			err = op.Wait(t.Context())
		}
		if err != nil || a.status("knc1") != "TERMINATED" {
			t.Errorf("stop that discards what is on it: %v, then %s", err, a.status("knc1"))
		}
	})
}
