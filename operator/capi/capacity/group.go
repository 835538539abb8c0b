package capacity

import nstancev1 "nstance.dev/protos/nstance/v1"

// PartOf is what a shard makes instances of a group from.
func PartOf(g *nstancev1.GroupStatus) Part {
	return Part{
		Arch: g.GetArch(), Zone: g.GetZone(), Region: g.GetRegion(), Template: g.GetTemplate(), Vars: g.GetVars(),
		InstanceType: g.GetInstanceType(), InstanceTypes: g.GetInstanceTypes(),
		Capacity: g.GetCapacity(), GPUType: g.GetGpu().GetType(), GPUs: g.GetGpu().GetCount(),
	}
}
