package gcpfake_test

import (
	"testing"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/providers/gcp/gcpfake"
)

// TestGroupsAreMadeThroughTheAPI goes through what people do with groups, and drivers do
// not.
func TestGroupsAreMadeThroughTheAPI(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		groups, err := compute.NewInstanceGroupsRESTClient(t.Context(), a.options()...)
		if err != nil {
			t.Fatal(err)
		}
		insert := func(name string) error {
			op, err := groups.Insert(t.Context(), &computepb.InsertInstanceGroupRequest{Project: a.Project(), Zone: a.zone,
				InstanceGroupResource: &computepb.InstanceGroup{Name: &name}})
			if err != nil {
				return err
			}
			return op.Wait(t.Context())
		}
		for name, want := range map[string]string{"web": "", "api": "", "Web": "400 invalid"} {
			if err := insert(name); err != nil && said(err) != want || err == nil && want != "" {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		if err := insert("web"); said(err) != "409 alreadyExists" {
			t.Errorf("a name that is taken: %v", err)
		}
		got, err := groups.Get(t.Context(), &computepb.GetInstanceGroupRequest{Project: a.Project(), Zone: a.zone, InstanceGroup: "web"})
		if err != nil || got.GetSize() != 0 || got.GetKind() != "compute#instanceGroup" {
			t.Errorf("get: %v, %v", got, err)
		}
		it := groups.List(t.Context(), &computepb.ListInstanceGroupsRequest{Project: a.Project(), Zone: a.zone})
		same(t, "list", everyone(t, it.Next, (*computepb.InstanceGroup).GetName), []string{"api", "web"})
	})
}

func TestEndpointGroupsAreMadeThroughTheAPI(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		groups, err := compute.NewNetworkEndpointGroupsRESTClient(t.Context(), a.options()...)
		if err != nil {
			t.Fatal(err)
		}
		for kind, want := range map[string]string{"GCE_VM_IP_PORT": "", "SERVERLESS": "400 invalid"} {
			_, err := groups.Insert(t.Context(), &computepb.InsertNetworkEndpointGroupRequest{Project: a.Project(), Zone: a.zone,
				NetworkEndpointGroupResource: &computepb.NetworkEndpointGroup{Name: new("neg"), NetworkEndpointType: &kind, DefaultPort: new(int32(80))}})
			if err != nil && said(err) != want || err == nil && want != "" {
				t.Errorf("%s: %v, want %q", kind, err, want)
			}
		}
		got, err := groups.Get(t.Context(), &computepb.GetNetworkEndpointGroupRequest{Project: a.Project(), Zone: a.zone, NetworkEndpointGroup: "neg"})
		if err != nil || got.GetDefaultPort() != 80 || got.GetSize() != 0 {
			t.Errorf("get: %v, %v", got, err)
		}
		it := groups.List(t.Context(), &computepb.ListNetworkEndpointGroupsRequest{Project: a.Project(), Zone: a.zone})
		same(t, "list", everyone(t, it.Next, (*computepb.NetworkEndpointGroup).GetName), []string{"neg"})
	})
}

func TestOperationsAreListed(t *testing.T) {
	within(t, gcpfake.Options{Conditions: gcpfake.Conditions{Boot: time.Minute}}, func(t *testing.T, a *account) {
		a.must("knc1")
		if _, err := a.instances.Insert(t.Context(), a.request("knc2")); err != nil {
			t.Fatal(err)
		}
		for filter, want := range map[string]int{"": 2, "status=DONE": 1, "(operationType=insert) AND (status!=DONE)": 1, "operationType=delete": 0} {
			it := a.ops.List(t.Context(), &computepb.ListZoneOperationsRequest{Project: a.Project(), Zone: a.zone, Filter: &filter})
			if got := everyone(t, it.Next, (*computepb.Operation).GetName); len(got) != want {
				t.Errorf("%q: %q, want %d", filter, got, want)
			}
		}
	})
}

// TestAnotherClientSeesTheSame is what a server that was started again meets.
func TestAnotherClientSeesTheSame(t *testing.T) {
	within(t, gcpfake.Options{Conditions: gcpfake.Conditions{Boot: time.Minute}}, func(t *testing.T, a *account) {
		op, err := a.instances.Insert(t.Context(), a.request("knc1"))
		if err != nil {
			t.Fatal(err)
		}
		b := open(t, a.Cloud)
		got, err := b.ops.Wait(t.Context(), &computepb.WaitZoneOperationRequest{Project: b.Project(), Zone: b.zone, Operation: op.Name()})
		if err != nil || got.GetStatus() != computepb.Operation_DONE || b.status("knc1") != "RUNNING" {
			t.Errorf("%v, %v; the machine is %s", got, err, b.status("knc1"))
		}
	})
}
