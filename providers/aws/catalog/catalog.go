// Package catalog says which instance types a zone has and what they cost, which image a query
// means, and how many addresses a subnet has left.
package catalog

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/providers/aws/api"
	"nstance.dev/providers/aws/rules"
	"nstance.dev/server/driver"
)

// Options are the settings of a [Catalog]. Log and Now are required.
type Options struct {
	Zone       string             // of the machines, such as us-east-1a
	OtherZones bool               // allows subnets that are not in Zone
	Prices     map[string]float64 // USD for an hour of an instance type; EC2 does not say

	Log *slog.Logger     // hears of prices that are not known
	Now func() time.Time // decides how long answers are kept
}

// Catalog is what EC2 offers in a zone. Make it with [New]. Methods are safe for concurrent use.
type Catalog struct {
	api   *api.Client
	opts  Options
	types *typeCache
}

// New returns the catalog behind a client. It asks nothing.
func New(client *api.Client, opts Options) *Catalog {
	return &Catalog{api: client, opts: opts, types: newTypeCache(opts.Now)}
}

// InstanceTypes returns the types that EC2 offers in the zone. Spot prices are
// those of this moment, for Linux; EC2 does not tell the others, so they come from
// [Options.Prices].
func (c *Catalog) InstanceTypes(ctx context.Context) ([]driver.InstanceType, error) {
	const op = "instance-types"
	if err := api.Begin(ctx, op); err != nil {
		return nil, err
	}
	infos, err := c.typeInfos(ctx)
	if err != nil {
		return nil, api.Fail(op, api.Reads, err)
	}
	offered, err := c.offered(ctx)
	if err != nil {
		return nil, api.Fail(op, api.Reads, err)
	}
	spot, err := c.spotPrices(ctx)
	if err != nil {
		c.opts.Log.WarnContext(ctx, "spot prices not known", "error", err)
	}
	return catalog(infos, offered, c.opts.Prices, latest(spot)), nil
}

// catalog puts together what is known of the offered types. Those whose processors
// have neither of our architectures are left out.
func catalog(infos []types.InstanceTypeInfo, offered map[types.InstanceType]bool, prices map[string]float64, spot map[types.InstanceType]float64) []driver.InstanceType {
	var list []driver.InstanceType
	for _, info := range infos {
		archs := archsOf(info)
		if !offered[info.InstanceType] || len(archs) == 0 {
			continue
		}
		it := driver.InstanceType{
			Name: string(info.InstanceType), Arch: archs[0],
			HourlyUSD: prices[string(info.InstanceType)], SpotUSD: spot[info.InstanceType],
		}
		if v := info.VCpuInfo; v != nil {
			it.VCPU = int(sdk.ToInt32(v.DefaultVCpus))
		}
		if m := info.MemoryInfo; m != nil {
			it.MemoryMiB = int(sdk.ToInt64(m.SizeInMiB))
		}
		it.Family, it.InterruptionPerHour = rules.Family(it.Name), rules.Interruption(it.Name)
		if n := info.NetworkInfo; n != nil {
			it.MaxPods = maxPods(n)
		}
		if s := info.InstanceStorageInfo; s != nil {
			it.EphemeralGiB = int(sdk.ToInt64(s.TotalSizeInGB) * 1_000_000_000 >> 30)
		}
		addDevices(&it, info)
		list = append(list, it)
	}
	slices.SortFunc(list, func(a, b driver.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// mostPods is how many Pods a kubelet takes unless it is told otherwise.
const mostPods = 110

// maxPods is how many Pods have addresses where each Pod has one of the machine's interfaces.
// Source: https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html
func maxPods(n *types.NetworkInfo) int {
	interfaces, addresses := int(sdk.ToInt32(n.MaximumNetworkInterfaces)), int(sdk.ToInt32(n.Ipv4AddressesPerInterface))
	if interfaces == 0 || addresses == 0 {
		return 0
	}
	return min(interfaces*(addresses-1)+2, mostPods)
}

// addDevices adds the accelerators of a type, and what they are called in Kubernetes.
func addDevices(it *driver.InstanceType, info types.InstanceTypeInfo) {
	devices := map[string]int64{}
	if g := info.GpuInfo; g != nil {
		it.GPUMemoryMiB = int(sdk.ToInt32(g.TotalGpuMemoryInMiB))
		for _, gpu := range g.Gpus {
			it.GPUs += int(sdk.ToInt32(gpu.Count))
			it.GPUModel = sdk.ToString(gpu.Name)
			if name := pluginOf[sdk.ToString(gpu.Manufacturer)]; name != "" {
				devices[name] += int64(sdk.ToInt32(gpu.Count))
			}
		}
	}
	if n := info.NeuronInfo; n != nil {
		for _, device := range n.NeuronDevices {
			devices["aws.amazon.com/neuron"] += int64(sdk.ToInt32(device.Count))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		it.Extended = append(it.Extended, driver.Resource{Name: name, Count: devices[name]})
	}
}

// pluginOf are the resources that the device plug-ins of manufacturers advertise.
var pluginOf = map[string]string{"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Habana": "habana.ai/gaudi"}

func (c *Catalog) typeInfos(ctx context.Context) ([]types.InstanceTypeInfo, error) {
	var all []types.InstanceTypeInfo
	for pages := ec2.NewDescribeInstanceTypesPaginator(c.api.EC2, &ec2.DescribeInstanceTypesInput{}); pages.HasMorePages(); {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, out.InstanceTypes...)
	}
	return all, nil
}

// offered are the types that can be launched in the zone.
func (c *Catalog) offered(ctx context.Context) (map[types.InstanceType]bool, error) {
	in := &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: types.LocationTypeAvailabilityZone,
		Filters:      []types.Filter{api.Filter("location", c.opts.Zone)},
	}
	all := map[types.InstanceType]bool{}
	for pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(c.api.EC2, in); pages.HasMorePages(); {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range out.InstanceTypeOfferings {
			all[o.InstanceType] = true
		}
	}
	return all, nil
}

// spotPrices are the prices in force in the zone: a history from now on begins with
// them.
func (c *Catalog) spotPrices(ctx context.Context) ([]types.SpotPrice, error) {
	in := &ec2.DescribeSpotPriceHistoryInput{
		AvailabilityZone:    sdk.String(c.opts.Zone),
		ProductDescriptions: []string{string(types.RIProductDescriptionLinuxUnix)},
		StartTime:           sdk.Time(c.opts.Now()),
	}
	var all []types.SpotPrice
	for pages := ec2.NewDescribeSpotPriceHistoryPaginator(c.api.EC2, in); pages.HasMorePages(); {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, out.SpotPriceHistory...)
	}
	return all, nil
}

// latest is the last price of each type.
func latest(history []types.SpotPrice) map[types.InstanceType]float64 {
	prices, at := map[types.InstanceType]float64{}, map[types.InstanceType]time.Time{}
	for _, p := range history {
		usd, err := strconv.ParseFloat(sdk.ToString(p.SpotPrice), 64)
		if when := sdk.ToTime(p.Timestamp); err == nil && !when.Before(at[p.InstanceType]) {
			prices[p.InstanceType], at[p.InstanceType] = usd, when
		}
	}
	return prices
}
