package settings

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machinepool/planner"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Upper bounds beside planner.Machines, by their fields. That of an accelerator has its name in brackets.
const (
	vcpuBound   planner.Bound = "limits.vcpu"
	memoryBound planner.Bound = "limits.memoryGiB"
	spendBound  planner.Bound = "limits.hourlySpend" // millionths of a dollar
	gpuPrefix                 = "limits.gpu["
)

// BoundsOf are the numbers of a block that are divided over shards.
func BoundsOf(d *infrav1.DemandSettings) planner.Bounds {
	if d == nil {
		return planner.Bounds{}
	}
	b := planner.Bounds{Min: int64(ptr.Deref(d.Min, 0)), MinIdle: int64(ptr.Deref(d.MinIdle, 0)), Most: map[planner.Bound]int64{}}
	if d.Max != nil {
		b.Most[planner.Machines] = int64(*d.Max)
	}
	if l := d.Limits; l != nil {
		if l.VCPU != nil {
			b.Most[vcpuBound] = int64(*l.VCPU)
		}
		if l.MemoryGiB != nil {
			b.Most[memoryBound] = int64(*l.MemoryGiB)
		}
		for name, n := range l.GPU {
			b.Most[gpuBound(name)] = int64(n)
		}
		if l.HourlySpend != nil {
			b.Most[spendBound] = l.HourlySpend.ScaledValue(resource.Micro)
		}
	}
	return b
}

func gpuBound(name string) planner.Bound { return planner.Bound(gpuPrefix + name + "]") }

// Used is how much of each bound the machines of a group take, as its server says; those that it has
// bounds for are all there. nil: the server does not say.
func Used(u *nstancev1.DemandUsage, of planner.Bounds) map[planner.Bound]int64 {
	if u == nil {
		return nil
	}
	used := map[planner.Bound]int64{
		planner.Machines: int64(u.GetMachines()), vcpuBound: u.GetVcpu(), memoryBound: u.GetMemoryGib(), spendBound: u.GetHourlyMicroUsd(),
	}
	for bound := range of.Most {
		if name, ok := strings.CutPrefix(string(bound), gpuPrefix); ok {
			used[bound] = u.GetGpu()[strings.TrimSuffix(name, "]")]
		}
	}
	return used
}

// Share is the block of a pool as one shard gets it: with other bounds, and all else the same. What
// the pool leaves out a share leaves out.
func Share(d *infrav1.DemandSettings, b planner.Bounds) *infrav1.DemandSettings {
	out := d.DeepCopy()
	number := func(was *int32, n int64) *int32 {
		if was == nil && n == 0 {
			return nil
		}
		return ptr.To(int32(n)) // at most a million
	}
	out.Min, out.MinIdle = number(d.Min, b.Min), number(d.MinIdle, b.MinIdle)
	out.Max, out.Limits = nil, nil
	limits := infrav1.DemandLimits{}
	for bound, n := range b.Most {
		switch bound {
		case planner.Machines:
			out.Max = ptr.To(int32(n))
		case vcpuBound:
			limits.VCPU = ptr.To(infrav1.LimitAmount(n))
		case memoryBound:
			limits.MemoryGiB = ptr.To(infrav1.LimitAmount(n))
		case spendBound:
			limits.HourlySpend = Dollars(n)
		default:
			if limits.GPU == nil {
				limits.GPU = map[string]infrav1.LimitAmount{}
			}
			limits.GPU[strings.TrimSuffix(strings.TrimPrefix(string(bound), gpuPrefix), "]")] = infrav1.LimitAmount(n)
		}
	}
	if _, machines := b.Most[planner.Machines]; len(b.Most) > 1 || len(b.Most) == 1 && !machines {
		out.Limits = &limits
	}
	return out
}

// Sum is the block of a pool whose shards have these, which are the same but for their bounds: an upper
// bound that one of them lacks the pool lacks.
func Sum(shares []*infrav1.DemandSettings) *infrav1.DemandSettings {
	total := BoundsOf(shares[0])
	for _, s := range shares[1:] {
		b := BoundsOf(s)
		total.Min, total.MinIdle = total.Min+b.Min, total.MinIdle+b.MinIdle
		for bound := range total.Most {
			n, ok := b.Most[bound]
			if !ok {
				delete(total.Most, bound)
				continue
			}
			total.Most[bound] += n
		}
	}
	return Share(shares[0], total)
}
