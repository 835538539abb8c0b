package aws

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/server/driver"
)

// InstanceTypes returns the types that EC2 offers in the zone. Spot prices are
// those of this moment, for Linux; EC2 does not tell the others, so they come from
// [Options.Prices].
func (d *Driver) InstanceTypes(ctx context.Context) ([]driver.InstanceType, error) {
	const op = "instance-types"
	if err := begin(ctx, op); err != nil {
		return nil, err
	}
	infos, err := d.typeInfos(ctx)
	if err != nil {
		return nil, fail(op, reads, err)
	}
	offered, err := d.offered(ctx)
	if err != nil {
		return nil, fail(op, reads, err)
	}
	spot, err := d.spotPrices(ctx)
	if err != nil {
		d.opts.Log.WarnContext(ctx, "spot prices not known", "error", err)
	}
	return catalog(infos, offered, d.opts.Prices, latest(spot)), nil
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
		if g := info.GpuInfo; g != nil {
			for _, gpu := range g.Gpus {
				it.GPUs += int(sdk.ToInt32(gpu.Count))
				it.GPUModel = sdk.ToString(gpu.Name)
			}
		}
		list = append(list, it)
	}
	slices.SortFunc(list, func(a, b driver.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (d *Driver) typeInfos(ctx context.Context) ([]types.InstanceTypeInfo, error) {
	var all []types.InstanceTypeInfo
	for pages := ec2.NewDescribeInstanceTypesPaginator(d.ec2, &ec2.DescribeInstanceTypesInput{}); pages.HasMorePages(); {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, out.InstanceTypes...)
	}
	return all, nil
}

// offered are the types that can be launched in the zone.
func (d *Driver) offered(ctx context.Context) (map[types.InstanceType]bool, error) {
	in := &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: types.LocationTypeAvailabilityZone,
		Filters:      []types.Filter{filter("location", d.opts.Zone)},
	}
	all := map[types.InstanceType]bool{}
	for pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(d.ec2, in); pages.HasMorePages(); {
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
func (d *Driver) spotPrices(ctx context.Context) ([]types.SpotPrice, error) {
	in := &ec2.DescribeSpotPriceHistoryInput{
		AvailabilityZone:    sdk.String(d.opts.Zone),
		ProductDescriptions: []string{string(types.RIProductDescriptionLinuxUnix)},
		StartTime:           sdk.Time(d.opts.Now()),
	}
	var all []types.SpotPrice
	for pages := ec2.NewDescribeSpotPriceHistoryPaginator(d.ec2, in); pages.HasMorePages(); {
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
