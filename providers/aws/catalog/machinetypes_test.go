package catalog

import (
	"errors"
	"reflect"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/server/driver"
)

func TestTypesAreAskedForOnceADay(t *testing.T) {
	now := time.Unix(0, 0)
	cache := newTypeCache(func() time.Time { return now })
	asked, failing := 0, errors.New("not now")
	ask := func() ([]string, error) {
		asked++
		if failing != nil {
			return nil, failing
		}
		return []string{arm64}, nil
	}
	for i, step := range []struct {
		after time.Duration
		err   error
		asked int
	}{
		{0, failing, 1}, {0, nil, 2}, {time.Hour, nil, 2}, {22 * time.Hour, failing, 2}, {2 * time.Hour, nil, 3},
	} {
		now, failing = now.Add(step.after), step.err
		archs, err := cache.get("t4g.small", ask)
		if asked != step.asked || err == nil && archs[0] != arm64 {
			t.Errorf("step %d: %v, %v after %d questions, want %d", i, archs, err, asked, step.asked)
		}
	}
}

func TestCatalog(t *testing.T) {
	info := func(name string, archs ...types.ArchitectureType) types.InstanceTypeInfo {
		return types.InstanceTypeInfo{
			InstanceType: types.InstanceType(name), ProcessorInfo: &types.ProcessorInfo{SupportedArchitectures: archs},
			VCpuInfo: &types.VCpuInfo{DefaultVCpus: sdk.Int32(4)}, MemoryInfo: &types.MemoryInfo{SizeInMiB: sdk.Int64(8192)},
		}
	}
	gpus := info("g5.xlarge", "x86_64")
	gpus.GpuInfo = &types.GpuInfo{
		Gpus: []types.GpuDeviceInfo{{Count: sdk.Int32(2), Name: sdk.String("A10G"), Manufacturer: sdk.String("NVIDIA")}}, TotalGpuMemoryInMiB: sdk.Int32(49152),
	}
	gpus.NetworkInfo = &types.NetworkInfo{MaximumNetworkInterfaces: sdk.Int32(4), Ipv4AddressesPerInterface: sdk.Int32(15)}
	gpus.InstanceStorageInfo = &types.InstanceStorageInfo{TotalSizeInGB: sdk.Int64(250)}
	neuron := info("inf2.xlarge", "x86_64")
	neuron.NeuronInfo = &types.NeuronInfo{NeuronDevices: []types.NeuronDeviceInfo{{Count: sdk.Int32(1)}}}
	neuron.NetworkInfo = &types.NetworkInfo{MaximumNetworkInterfaces: sdk.Int32(15), Ipv4AddressesPerInterface: sdk.Int32(50)}
	infos := []types.InstanceTypeInfo{info("t4g.small", "arm64"), gpus, info("t3.small", "i386", "x86_64"), info("mac2.metal", "arm64_mac"), info("m7g.large", "arm64"), neuron}
	offered := map[types.InstanceType]bool{"t4g.small": true, "g5.xlarge": true, "t3.small": true, "mac2.metal": true, "inf2.xlarge": true}
	price := func(usd string, at int64) types.SpotPrice {
		return types.SpotPrice{InstanceType: "t4g.small", SpotPrice: sdk.String(usd), Timestamp: sdk.Time(time.Unix(at, 0))}
	}
	spot := latest([]types.SpotPrice{price("0.005", 1), price("0.006", 3), price("0.004", 2), price("?", 9)})
	got := catalog(infos, offered, map[string]float64{"g5.xlarge": 1.006}, spot)
	want := []driver.InstanceType{
		{
			Name: "g5.xlarge", Family: "g5", Arch: amd64, VCPU: 4, MemoryMiB: 8192, GPUs: 2, GPUModel: "A10G", GPUMemoryMiB: 49152, MaxPods: 58, EphemeralGiB: 232,
			HourlyUSD: 1.006, InterruptionPerHour: 0.20 / 730, Extended: []driver.Resource{{Name: "nvidia.com/gpu", Count: 2}},
		},
		{
			Name: "inf2.xlarge", Family: "inf2", Arch: amd64, VCPU: 4, MemoryMiB: 8192, MaxPods: 110,
			InterruptionPerHour: 0.20 / 730, Extended: []driver.Resource{{Name: "aws.amazon.com/neuron", Count: 1}},
		},
		{Name: "t3.small", Family: "t3", Arch: amd64, VCPU: 4, MemoryMiB: 8192, InterruptionPerHour: 0.05 / 730},
		{Name: "t4g.small", Family: "t4g", Arch: arm64, VCPU: 4, MemoryMiB: 8192, SpotUSD: 0.006, InterruptionPerHour: 0.05 / 730},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("catalog:\n%+v, want\n%+v", got, want)
	}
}
