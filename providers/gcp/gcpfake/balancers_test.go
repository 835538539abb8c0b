package gcpfake_test

import (
	"errors"
	"fmt"
	"testing"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/iterator"

	"nstance.dev/providers/gcp/gcpfake"
)

func TestInstanceGroups(t *testing.T) {
	within(t, gcpfake.Options{PageSize: 1}, func(t *testing.T, a *account) {
		groups, err := compute.NewInstanceGroupsRESTClient(t.Context(), a.options()...)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.AddInstanceGroup(a.zone, "web"); err != nil {
			t.Fatal(err)
		}
		a.must("one")
		a.must("two")
		refs := func(name string) []*computepb.InstanceReference {
			return []*computepb.InstanceReference{{Instance: new("projects/" + a.Project() + "/zones/" + a.zone + "/instances/" + name)}}
		}
		add := func(group, name string) error {
			_, err := groups.AddInstances(t.Context(), &computepb.AddInstancesInstanceGroupRequest{Project: a.Project(), Zone: a.zone, InstanceGroup: group,
				InstanceGroupsAddInstancesRequestResource: &computepb.InstanceGroupsAddInstancesRequest{Instances: refs(name)}})
			return err
		}
		remove := func(group, name string) error {
			_, err := groups.RemoveInstances(t.Context(), &computepb.RemoveInstancesInstanceGroupRequest{Project: a.Project(), Zone: a.zone, InstanceGroup: group,
				InstanceGroupsRemoveInstancesRequestResource: &computepb.InstanceGroupsRemoveInstancesRequest{Instances: refs(name)}})
			return err
		}
		for _, step := range []struct {
			do         func(group, name string) error
			group, who string
			says       string
			behind     []string
		}{
			{add, "web", "one", "", []string{"one"}},
			{add, "web", "one", "400 memberAlreadyExists", []string{"one"}},
			{add, "web", "two", "", []string{"one", "two"}},
			{add, "web", "three", "404 notFound", []string{"one", "two"}},
			{add, "none", "one", "404 notFound", []string{"one", "two"}},
			{remove, "web", "one", "", []string{"two"}},
			{remove, "web", "one", "400 memberNotFound", []string{"two"}},
			{remove, "none", "one", "404 notFound", []string{"two"}},
			{add, "web", "one", "", []string{"one", "two"}},
		} {
			if err := step.do(step.group, step.who); err == nil && step.says != "" || err != nil && said(err) != step.says {
				t.Errorf("%s of %s: %v, want %q", step.who, step.group, err, step.says)
			}
			same(t, step.who, a.Behind(a.zone, "web"), step.behind)
		}
		it := groups.ListInstances(t.Context(), &computepb.ListInstancesInstanceGroupsRequest{Project: a.Project(), Zone: a.zone, InstanceGroup: "web",
			InstanceGroupsListInstancesRequestResource: &computepb.InstanceGroupsListInstancesRequest{InstanceState: new("ALL")}})
		same(t, "members", everyone(t, it.Next, (*computepb.InstanceWithNamedPorts).GetInstance), []string{
			"https://www.googleapis.com/compute/v1/projects/nstance-fake/zones/europe-west1-b/instances/one",
			"https://www.googleapis.com/compute/v1/projects/nstance-fake/zones/europe-west1-b/instances/two"})
		a.Remove("one")
		same(t, "after its end", a.Behind(a.zone, "web"), []string{"two"})
	})
}

func TestNetworkEndpointGroups(t *testing.T) {
	within(t, gcpfake.Options{PageSize: 1}, func(t *testing.T, a *account) {
		groups, err := compute.NewNetworkEndpointGroupsRESTClient(t.Context(), a.options()...)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(a.AddEndpointGroup(a.zone, "neg", 443), a.AddEndpointGroup(a.zone, "portless", 0)); err != nil {
			t.Fatal(err)
		}
		a.must("one")
		a.must("two")
		attach := func(group string, e *computepb.NetworkEndpoint) error {
			_, err := groups.AttachNetworkEndpoints(t.Context(), &computepb.AttachNetworkEndpointsNetworkEndpointGroupRequest{
				Project: a.Project(), Zone: a.zone, NetworkEndpointGroup: group,
				NetworkEndpointGroupsAttachEndpointsRequestResource: &computepb.NetworkEndpointGroupsAttachEndpointsRequest{NetworkEndpoints: []*computepb.NetworkEndpoint{e}}})
			return err
		}
		detach := func(group string, e *computepb.NetworkEndpoint) error {
			_, err := groups.DetachNetworkEndpoints(t.Context(), &computepb.DetachNetworkEndpointsNetworkEndpointGroupRequest{
				Project: a.Project(), Zone: a.zone, NetworkEndpointGroup: group,
				NetworkEndpointGroupsDetachEndpointsRequestResource: &computepb.NetworkEndpointGroupsDetachEndpointsRequest{NetworkEndpoints: []*computepb.NetworkEndpoint{e}}})
			return err
		}
		one := &computepb.NetworkEndpoint{Instance: new("one")}
		two := &computepb.NetworkEndpoint{Instance: new("projects/" + a.Project() + "/zones/" + a.zone + "/instances/two"), Port: new(int32(8443))}
		for name, step := range []struct {
			do     func(string, *computepb.NetworkEndpoint) error
			group  string
			what   *computepb.NetworkEndpoint
			says   string
			behind []string
		}{
			{attach, "neg", one, "", []string{"one"}},
			{attach, "neg", one, "", []string{"one"}},
			{attach, "neg", two, "", []string{"one", "two"}},
			{attach, "neg", &computepb.NetworkEndpoint{Instance: new("three")}, "400 invalid", []string{"one", "two"}},
			{attach, "neg", &computepb.NetworkEndpoint{Instance: new("one"), IpAddress: new("10.0.0.3")}, "400 invalid", []string{"one", "two"}},
			{attach, "neg", &computepb.NetworkEndpoint{}, "400 required", []string{"one", "two"}},
			{attach, "portless", one, "400 invalid", []string{"one", "two"}},
			{attach, "none", one, "404 notFound", []string{"one", "two"}},
			{detach, "neg", &computepb.NetworkEndpoint{Instance: new("two")}, "400 invalid", []string{"one", "two"}}, // another port
			{detach, "neg", one, "", []string{"two"}},
			{detach, "neg", one, "400 invalid", []string{"two"}},
			{attach, "neg", one, "", []string{"one", "two"}},
		} {
			if err := step.do(step.group, step.what); err == nil && step.says != "" || err != nil && said(err) != step.says {
				t.Errorf("step %d: %v, want %q", name, err, step.says)
			}
			same(t, fmt.Sprint("step ", name), a.Behind(a.zone, "neg"), step.behind)
		}
		it := groups.ListNetworkEndpoints(t.Context(), &computepb.ListNetworkEndpointsNetworkEndpointGroupsRequest{Project: a.Project(), Zone: a.zone, NetworkEndpointGroup: "neg",
			NetworkEndpointGroupsListEndpointsRequestResource: &computepb.NetworkEndpointGroupsListEndpointsRequest{HealthStatus: new("SKIP")}})
		got := everyone(t, it.Next, func(e *computepb.NetworkEndpointWithHealthStatus) string {
			n := e.GetNetworkEndpoint()
			return fmt.Sprintf("%s %s:%d", n.GetInstance(), n.GetIpAddress(), n.GetPort())
		})
		same(t, "endpoints", got, []string{"one 10.0.0.2:443", "two 10.0.0.3:8443"})
		a.Remove("one")
		same(t, "after its end", a.Behind(a.zone, "neg"), []string{"two"})
	})
}

// everyone reads a listing to its end.
func everyone[T any](t *testing.T, next func() (T, error), say func(T) string) (all []string) {
	t.Helper()
	for {
		entry, err := next()
		if errors.Is(err, iterator.Done) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, say(entry))
	}
}
