package gcpfake_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/option"

	"nstance.dev/providers/gcp/gcpfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

const requestID = "01939f2c-0000-7000-8000-000000000001"

func TestF19_ARepeatedRequestIDAnswersTheSameOperation(t *testing.T) {
	within(t, gcpfake.Options{Conditions: gcpfake.Conditions{Boot: time.Minute}}, func(t *testing.T, a *account) {
		req := a.request("knc1")
		req.RequestId = new(requestID)
		a.Gate().SetFaults(wire.Times(1, "instances.insert", wire.Fault{Lost: true}))
		if _, err := a.instances.Insert(t.Context(), req); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("the first answer is to be lost: %v", err)
		}
		again, err := a.instances.Insert(t.Context(), req)
		if err != nil || again.Wait(t.Context()) != nil || len(a.Machines()) != 1 {
			t.Fatalf("repeated: %v; machines %+v", err, a.Machines())
		}

		if err := a.delete("knc1"); err != nil {
			t.Fatal(err)
		}
		late, err := a.instances.Insert(t.Context(), req)
		if err != nil || late.Name() != again.Name() || !late.Done() || len(a.Machines()) != 0 {
			t.Errorf("after its delete: %v, operation %s, machines %+v", err, late.Name(), a.Machines())
		}
		later(time.Hour)
		if _, err := a.instances.Insert(t.Context(), req); err != nil || len(a.Machines()) != 1 {
			t.Errorf("an hour later it is forgotten: %v; machines %+v", err, a.Machines())
		}
	})
}

func TestARefusedRequestIDMayBeUsedAgain(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		req := a.request("KNC1")
		req.RequestId = new(requestID)
		if _, err := a.instances.Insert(t.Context(), req); said(err) != "400 invalid" {
			t.Fatalf("insert: %v", err)
		}
		req.InstanceResource.Name = new("knc1")
		if _, err := a.instances.Insert(t.Context(), req); err != nil {
			t.Errorf("insert: %v", err)
		}
	})
}

func TestAnOperationSaysWhatItDid(t *testing.T) {
	within(t, gcpfake.Options{Conditions: gcpfake.Conditions{Boot: time.Minute}}, func(t *testing.T, a *account) {
		op, err := a.instances.Insert(t.Context(), a.request("knc1"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.ops.Get(t.Context(), &computepb.GetZoneOperationRequest{Project: a.Project(), Zone: a.zone, Operation: op.Name()})
		if err != nil || got.GetStatus() != computepb.Operation_RUNNING || got.GetOperationType() != "insert" ||
			got.GetTargetLink() != "https://www.googleapis.com/compute/v1/projects/nstance-fake/zones/europe-west1-b/instances/knc1" {
			t.Errorf("operation: %v, %v", got, err)
		}
		_, err = a.ops.Get(t.Context(), &computepb.GetZoneOperationRequest{Project: a.Project(), Zone: a.Region() + "-c", Operation: op.Name()})
		if said(err) != "404 notFound" {
			t.Errorf("in another zone: %v", err)
		}
		machine, err := a.get("knc1")
		if err != nil || machine.GetId() != got.GetTargetId() {
			t.Errorf("the target is %d, the machine %d, %v", got.GetTargetId(), machine.GetId(), err)
		}
	})
}

func TestAWaitEndsWithTheOperationOrAfterTwoMinutes(t *testing.T) {
	for boot, want := range map[time.Duration]time.Duration{30 * time.Second: 30 * time.Second, 5 * time.Minute: 2 * time.Minute} {
		within(t, gcpfake.Options{Conditions: gcpfake.Conditions{Boot: boot}}, func(t *testing.T, a *account) {
			op, err := a.instances.Insert(t.Context(), a.request("knc1"))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			got, err := a.ops.Wait(t.Context(), &computepb.WaitZoneOperationRequest{Project: a.Project(), Zone: a.zone, Operation: op.Name()})
			if took := time.Since(start); err != nil || took != want || (got.GetStatus() == computepb.Operation_DONE) != (boot <= want) {
				t.Errorf("an operation of %v: %v after %v, %v", boot, got.GetStatus(), took, err)
			}
		})
	}
}

func TestAnOperationIsOverWhenSomethingElseBegins(t *testing.T) {
	within(t, gcpfake.Options{Conditions: gcpfake.Conditions{Boot: time.Hour}}, func(t *testing.T, a *account) {
		op, err := a.instances.Insert(t.Context(), a.request("knc1"))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.delete("knc1"); err != nil {
			t.Errorf("delete of a machine that boots: %v", err)
		}
		if err := op.Poll(t.Context()); err != nil || !op.Done() {
			t.Errorf("the insert goes on: %v", err)
		}
		later(2 * time.Hour)
		if all := a.Machines(); len(all) > 0 {
			t.Errorf("it came back: %+v", all)
		}
	})
}

// failed waits for an operation and returns the code that it ended with.
func failed(t *testing.T, op *compute.Operation, err error) string {
	t.Helper()
	if err != nil {
		return "no operation: " + said(err)
	}
	if op.Wait(t.Context()) == nil {
		return ""
	}
	return op.Proto().GetError().GetErrors()[0].GetCode()
}

func TestF25_WhatIsMissingShowsWhenTheOperationEnds(t *testing.T) {
	small := gcpfake.Subnet{Name: "nstance", Network: "nstance", Range: "10.0.0.0/29"} // four of its addresses are usable
	for name, c := range map[string]struct {
		opts    gcpfake.Options
		prepare func(*account)
		fits    int
		want    string
	}{
		"machines":  {gcpfake.Options{}, func(a *account) { a.SetRoom(a.zone, "e2-medium", 2) }, 2, "ZONE_RESOURCE_POOL_EXHAUSTED"},
		"addresses": {gcpfake.Options{Subnets: []gcpfake.Subnet{small}}, func(*account) {}, 4, "IP_SPACE_EXHAUSTED"},
		"quota":     {gcpfake.Options{CPUs: 6}, func(*account) {}, 3, "QUOTA_EXCEEDED"},
		"an ill zone": {gcpfake.Options{}, func(a *account) {
			a.Gate().SetFaults(wire.Always("instances.insert", wire.Fault{Kind: driver.Capacity}))
		}, 0, "ZONE_RESOURCE_POOL_EXHAUSTED"},
		"nothing else": {gcpfake.Options{}, func(*account) {}, 8, ""},
	} {
		within(t, c.opts, func(t *testing.T, a *account) {
			c.prepare(a)
			for n := range c.fits {
				a.must("knc" + string(rune('a'+n)))
			}
			op, err := a.instances.Insert(t.Context(), a.request("last"))
			if got := failed(t, op, err); got != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
			if s := a.status("last"); c.want != "" && s != "404 notFound" {
				t.Errorf("%s: the machine is %s", name, s)
			}
			if c.fits == 0 || c.want == "" {
				return
			}
			if err := a.delete("knca"); err != nil {
				t.Fatal(err)
			}
			if err := a.insert("next"); err != nil {
				t.Errorf("%s: after one has gone: %v", name, err)
			}
		})
	}
}

func TestAFaultIsWordedAsTheServiceWordsIt(t *testing.T) {
	for kind, want := range map[driver.ErrorClass]string{
		driver.Throttled: "403 rateLimitExceeded", driver.Quota: "403 quotaExceeded", driver.Invalid: "400 invalid", driver.Auth: "403 forbidden",
		driver.MissingRef: "404 notFound", driver.NotFound: "404 notFound", driver.Ambiguous: "500 internalError", driver.Transient: "503 backendError",
	} {
		within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
			a.Gate().SetFaults(wire.Times(1, "", wire.Fault{Kind: kind}))
			if err := a.insert("knc1"); said(err) != want || len(a.Machines()) != 0 {
				t.Errorf("%s: %v, want %s; machines %+v", kind, err, want, a.Machines())
			}
			a.Gate().SetFaults(wire.Times(1, "", wire.Fault{Kind: kind, After: true}))
			if err := a.insert("knc1"); said(err) != want || len(a.Machines()) != 1 {
				t.Errorf("%s after the effect: %v, want %s; machines %+v", kind, err, want, a.Machines())
			}
		})
	}
}

func TestCallsNeedAToken(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		plain, err := compute.NewInstancesRESTClient(t.Context(), option.WithEndpoint(gcpfake.Endpoint), option.WithHTTPClient(a.Open()))
		if err != nil {
			t.Fatal(err)
		}
		it := plain.List(t.Context(), &computepb.ListInstancesRequest{Project: a.Project(), Zone: a.zone})
		if _, err := names(it); said(err) != "401 required" {
			t.Errorf("without a token: %v", err)
		}
		if _, err := a.names("", 0); err != nil {
			t.Errorf("with one: %v", err)
		}
		if n := a.Gate().Count(""); n != 1 {
			t.Errorf("the gate saw %d calls; one without a token is none", n)
		}
	})
}

func TestACallerWithoutPatienceLearnsNothing(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.Gate().SetFaults(wire.Times(1, "instances.insert", wire.Fault{Linger: time.Minute}))
		_, err := a.instances.Insert(impatient(t, time.Second), a.request("knc1"))
		if !errors.Is(err, context.DeadlineExceeded) || len(a.Machines()) != 1 {
			t.Errorf("insert: %v, machines %+v", err, a.Machines())
		}
	})
}
