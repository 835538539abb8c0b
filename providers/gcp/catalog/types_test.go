package catalog

import (
	"reflect"
	"testing"

	compute "cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/server/driver"
)

func TestInstanceTypeOf(t *testing.T) {
	for name, tt := range map[string]struct {
		given *compute.MachineType
		want  driver.InstanceType
	}{
		"plain": {
			&compute.MachineType{Name: new("c4a-standard-2"), Architecture: new("ARM64"), GuestCpus: new(int32(2)), MemoryMb: new(int32(8192))},
			driver.InstanceType{Name: "c4a-standard-2", Arch: "arm64", VCPU: 2, MemoryMiB: 8192, HourlyUSD: 0.0898, Family: "c4a"},
		},
		"with accelerators": {
			&compute.MachineType{Name: new("g2-standard-24"), Architecture: new("X86_64"), Accelerators: []*compute.Accelerators{{GuestAcceleratorType: new("nvidia-l4"), GuestAcceleratorCount: new(int32(2))}}},
			driver.InstanceType{Name: "g2-standard-24", Arch: "amd64", GPUs: 2, GPUModel: "nvidia-l4", Family: "g2", Extended: []driver.Resource{{Name: "nvidia.com/gpu", Count: 2}}},
		},
		"by its family":      {&compute.MachineType{Name: new("t2a-standard-1")}, driver.InstanceType{Name: "t2a-standard-1", Arch: "arm64", Family: "t2a"}},
		"of an unknown kind": {&compute.MachineType{Name: new("z9-mega-1"), Architecture: new("ARCHITECTURE_UNSPECIFIED")}, driver.InstanceType{Name: "z9-mega-1", Family: "z9"}},
	} {
		if got := instanceType(tt.given, map[string]float64{"c4a-standard-2": 0.0898}); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestUsable(t *testing.T) {
	free := func(name string, n int64) *compute.SubnetworkUtilizationDetailsIPV4Utilization {
		u := &compute.SubnetworkUtilizationDetailsIPV4Utilization{TotalFreeIp: &n}
		if name != "" {
			u.RangeName = &name
		}
		return u
	}
	for name, tt := range map[string]struct {
		ranges []*compute.SubnetworkUtilizationDetailsIPV4Utilization
		want   int
	}{
		"plenty":                   {[]*compute.SubnetworkUtilizationDetailsIPV4Utilization{free("pods", 5000), free("", 250)}, 240},
		"the last ones stay":       {[]*compute.SubnetworkUtilizationDetailsIPV4Utilization{free("", 10)}, 0},
		"fewer than are kept back": {[]*compute.SubnetworkUtilizationDetailsIPV4Utilization{free("", 3)}, 0},
		"nothing is said":          {nil, -1},
		"nothing of the primary":   {[]*compute.SubnetworkUtilizationDetailsIPV4Utilization{free("pods", 5000)}, -1},
	} {
		s := &compute.Subnetwork{UtilizationDetails: &compute.SubnetworkUtilizationDetails{Ipv4Utilizations: tt.ranges}}
		if got := usable(s); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}
