package aws

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/server/driver"
)

func TestArchitectureOfAFamily(t *testing.T) {
	for name, want := range map[string]string{
		"a1.large": arm64, "t4g.small": arm64, "m7gd.metal": arm64, "c6gn.16xlarge": arm64, "im4gn.large": arm64, "is4gen.medium": arm64,
		"g5g.xlarge": arm64, "x2gd.medium": arm64, "hpc7g.4xlarge": arm64, "c7g-flex.large": arm64, "r8gb.large": arm64,
		"t3.small": amd64, "m7i-flex.large": amd64, "g5.xlarge": amd64, "g6e.48xlarge": amd64, "c5n.18xlarge": amd64, "p4de.24xlarge": amd64,
		"u-6tb1.metal": amd64, "u7in-16tb.224xlarge": amd64, "i7ie.large": amd64, "trn1n.32xlarge": amd64, "inf2.xlarge": amd64,
		"hpc6id.32xlarge": amd64, "vt1.3xlarge": amd64, "d3en.xlarge": amd64, "z1d.large": amd64, "g4dn.xlarge": amd64, "g4ad.xlarge": amd64,
	} {
		if got := familyArch(name); !reflect.DeepEqual(got, []string{want}) {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
	for _, name := range []string{"", "medium", "t4g", "cpu:4,memory:8192", "n2-standard-4", "T4g.small"} {
		if got := familyArch(name); got != nil {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// The SDK lists the types that were there when it was made: each has to have the
// form of a name.
func TestArchitectureOfEveryFamily(t *testing.T) {
	for _, name := range types.InstanceType("").Values() {
		if familyArch(string(name)) == nil {
			t.Errorf("%s is not taken for a type", name)
		}
	}
}

func TestTypesInAConfiguration(t *testing.T) {
	for _, c := range []struct{ name, arch, want string }{
		{"t4g.small", arm64, ""},
		{"t4g.small", amd64, `"t4g.small" has the architecture arm64`},
		{"m7i.large", arm64, `"m7i.large" has the architecture amd64`},
		{"n2-standard-4", amd64, "is not an instance type of EC2, such as t4g.medium"},
		{"m99g.large", arm64, "is newer than this build, or misspelled"},
	} {
		err := checkType(c.name, c.arch)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on %s: %v, want %q", c.name, c.arch, err, c.want)
		}
		if unknown := errors.Is(err, driver.ErrUnknownType); unknown != strings.Contains(c.want, "newer") {
			t.Errorf("%s: a warning: %v", c.name, unknown)
		}
	}
}

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
	gpus.GpuInfo = &types.GpuInfo{Gpus: []types.GpuDeviceInfo{{Count: sdk.Int32(2), Name: sdk.String("A10G")}}}
	infos := []types.InstanceTypeInfo{info("t4g.small", "arm64"), gpus, info("t3.small", "i386", "x86_64"), info("mac2.metal", "arm64_mac"), info("m7g.large", "arm64")}
	offered := map[types.InstanceType]bool{"t4g.small": true, "g5.xlarge": true, "t3.small": true, "mac2.metal": true}
	price := func(usd string, at int64) types.SpotPrice {
		return types.SpotPrice{InstanceType: "t4g.small", SpotPrice: sdk.String(usd), Timestamp: sdk.Time(time.Unix(at, 0))}
	}
	spot := latest([]types.SpotPrice{price("0.005", 1), price("0.006", 3), price("0.004", 2), price("?", 9)})
	got := catalog(infos, offered, map[string]float64{"g5.xlarge": 1.006}, spot)
	want := []driver.InstanceType{
		{Name: "g5.xlarge", Arch: amd64, VCPU: 4, MemoryMiB: 8192, GPUs: 2, GPUModel: "A10G", HourlyUSD: 1.006},
		{Name: "t3.small", Arch: amd64, VCPU: 4, MemoryMiB: 8192},
		{Name: "t4g.small", Arch: arm64, VCPU: 4, MemoryMiB: 8192, SpotUSD: 0.006},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("catalog:\n%+v, want\n%+v", got, want)
	}
}
