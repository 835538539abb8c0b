package gcpfake_test

import (
	"fmt"
	"testing"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/providers/gcp/gcpfake"
)

func TestMachineTypes(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		types, err := compute.NewMachineTypesRESTClient(t.Context(), a.options()...)
		if err != nil {
			t.Fatal(err)
		}
		say := func(m *computepb.MachineType) string {
			s := fmt.Sprintf("%s %s %d vCPU %d MB", m.GetName(), m.GetArchitecture(), m.GetGuestCpus(), m.GetMemoryMb())
			for _, gpu := range m.GetAccelerators() {
				s += fmt.Sprintf(" %d %s", gpu.GetGuestAcceleratorCount(), gpu.GetGuestAcceleratorType())
			}
			return s
		}
		for name, want := range map[string]string{
			"e2-medium":      "e2-medium X86_64 2 vCPU 4096 MB",
			"t2a-standard-1": "t2a-standard-1 ARM64 1 vCPU 4096 MB",
			"g2-standard-4":  "g2-standard-4 X86_64 4 vCPU 16384 MB 1 nvidia-l4",
		} {
			m, err := types.Get(t.Context(), &computepb.GetMachineTypeRequest{Project: a.Project(), Zone: a.zone, MachineType: name})
			if err != nil || say(m) != want {
				t.Errorf("%s: %v, %v; want %s", name, m, err, want)
			}
		}
		if _, err := types.Get(t.Context(), &computepb.GetMachineTypeRequest{Project: a.Project(), Zone: a.zone, MachineType: "huge"}); said(err) != "404 notFound" {
			t.Errorf("an unknown one: %v", err)
		}
		it := types.List(t.Context(), &computepb.ListMachineTypesRequest{Project: a.Project(), Zone: a.zone, Filter: new("(architecture=ARM64) AND (guestCpus>1)")})
		same(t, "list", everyone(t, it.Next, say), []string{
			"c4a-standard-2 ARM64 2 vCPU 8192 MB", "n4a-standard-2 ARM64 2 vCPU 8192 MB", "t2a-standard-4 ARM64 4 vCPU 16384 MB"})
	})
}

func TestASubnetSaysHowFullItIs(t *testing.T) {
	subnet := gcpfake.Subnet{Name: "nstance", Network: "nstance", Range: "10.1.0.0/28", Secondary: map[string]string{"leader": "10.2.0.0/30"}}
	within(t, gcpfake.Options{Subnets: []gcpfake.Subnet{subnet}}, func(t *testing.T, a *account) {
		subnets, err := compute.NewSubnetworksRESTClient(t.Context(), a.options()...)
		if err != nil {
			t.Fatal(err)
		}
		a.must("one")
		a.must("two", func(m *computepb.Instance) {
			m.NetworkInterfaces[0].AliasIpRanges = []*computepb.AliasIpRange{{IpCidrRange: new("10.2.0.1/32"), SubnetworkRangeName: new("leader")}}
		})
		got, err := subnets.Get(t.Context(), &computepb.GetSubnetworkRequest{Project: a.Project(), Region: a.Region(), Subnetwork: "nstance", Views: new("WITH_UTILIZATION")})
		if err != nil || got.GetIpCidrRange() != "10.1.0.0/28" || got.GetGatewayAddress() != "10.1.0.1" || len(got.GetSecondaryIpRanges()) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		of := got.GetUtilizationDetails().GetIpv4Utilizations()[0]
		if of.GetTotalAllocatedIp() != 2 || of.GetTotalFreeIp() != 10 {
			t.Errorf("of 16 addresses 4 are kept and 2 taken: %v", of)
		}
		for _, name := range []string{"none", ""} {
			if _, err := subnets.Get(t.Context(), &computepb.GetSubnetworkRequest{Project: a.Project(), Region: a.Region(), Subnetwork: name}); err == nil {
				t.Errorf("%q is a subnet", name)
			}
		}
		it := subnets.List(t.Context(), &computepb.ListSubnetworksRequest{Project: a.Project(), Region: a.Region()})
		same(t, "list", everyone(t, it.Next, (*computepb.Subnetwork).GetName), []string{"nstance"})
	})
}

func TestZones(t *testing.T) {
	within(t, gcpfake.Options{PageSize: 2}, func(t *testing.T, a *account) {
		zones, err := compute.NewZonesRESTClient(t.Context(), a.options()...)
		if err != nil {
			t.Fatal(err)
		}
		it := zones.List(t.Context(), &computepb.ListZonesRequest{Project: a.Project()})
		same(t, "list", everyone(t, it.Next, (*computepb.Zone).GetName), []string{"europe-west1-b", "europe-west1-c", "europe-west1-d"})
		if _, err := zones.Get(t.Context(), &computepb.GetZoneRequest{Project: a.Project(), Zone: "us-east1-b"}); said(err) != "404 notFound" {
			t.Errorf("an unknown one: %v", err)
		}
	})
}
