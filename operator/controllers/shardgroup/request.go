package shardgroup

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"nstance.dev/operator/controllers/machinepool/planner"
	"nstance.dev/operator/demand/settings"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Optional fields of the spec that can be cleared on a server, as the status names them.
const (
	fieldVars          = "vars"
	fieldLoadBalancers = "loadBalancers"
	fieldInstanceType  = "instanceType"
	fieldSubnets       = "subnets"
	fieldRequirements  = "instanceRequirements"
)

// request is what the shard is told. What the spec does not say is left out, so that the
// server's stays, unless the server was told it by us before: then it is cleared. What a
// static group has from its file is never said.
func (p shardGroup) request(static bool) *nstancev1.UpsertGroupRequest {
	spec := p.object.Spec
	config := &nstancev1.GroupConfig{}
	p.requestMode(config, static)
	if spec.InstanceType != "" {
		config.InstanceType = &spec.InstanceType
	}
	if p.clears() {
		config.Clear = p.removed(static)
	}
	if len(spec.Vars) > 0 || p.told(fieldVars) {
		config.Vars = &nstancev1.StringMap{Values: maps.Clone(spec.Vars)}
	}
	if !static {
		if spec.Template != "" {
			config.Template = &spec.Template
		}
		if spec.Subnets != "" {
			config.SubnetPool = &spec.Subnets
		}
		if len(spec.LoadBalancers) > 0 || p.told(fieldLoadBalancers) {
			config.LoadBalancers = &nstancev1.StringList{Values: slices.Clone(spec.LoadBalancers)}
		}
	}
	request := &nstancev1.UpsertGroupRequest{Key: spec.Group, Config: config}
	if p.group != nil && p.group.GetEtag() != "" {
		request.ExpectedEtag = proto.String(p.group.GetEtag())
	}
	return request
}

// requestMode says whether the group has a size, and which one, or is one of mode demand, and within
// which bounds. A group that becomes one of fixed size without a size keeps as many instances as the
// server finds when it hears of it.
func (p shardGroup) requestMode(config *nstancev1.GroupConfig, static bool) {
	spec := p.object.Spec
	switch {
	case spec.Demand != nil && !static:
		config.Mode = proto.String(settings.ModeDemand)
		config.Demand, config.InstanceRequirements = settings.ToServer(spec.Demand), settings.RequirementsToServer(spec.InstanceRequirements)
	case spec.Demand != nil:
	case !static && p.group.GetMode() == settings.ModeDemand:
		config.Mode = proto.String(settings.ModeFixed)
	}
	if spec.Size != nil {
		config.Size = proto.Int32(p.size())
	}
}

// misplaced is whether the server has the group in another mode than the spec, or with other bounds
// than it was told.
func (p shardGroup) misplaced(config *nstancev1.GroupConfig) bool {
	mode := settings.ModeFixed
	if p.object.Spec.Demand != nil {
		mode = settings.ModeDemand
	}
	if is := p.group.GetMode(); mode != cmp.Or(is, settings.ModeFixed) && !p.static() {
		return true
	}
	told := p.group.GetDynamic()
	return config.GetDemand() != nil && !settings.Same(config.GetDemand(), told.GetDemand()) ||
		config.GetInstanceRequirements() != nil && !settings.SameRequirements(config.GetInstanceRequirements(), told.GetInstanceRequirements())
}

// removed names the fields, as a server does, that it was told by us before and that the spec
// says no more.
func (p shardGroup) removed(static bool) []string {
	var fields []string
	if p.object.Spec.InstanceType == "" && p.told(fieldInstanceType) {
		fields = append(fields, "instance_type")
	}
	if p.object.Spec.Demand != nil && p.object.Spec.InstanceRequirements == nil && p.told(fieldRequirements) && !static {
		fields = append(fields, "instance_requirements")
	}
	if p.object.Spec.Subnets == "" && p.told(fieldSubnets) && !static {
		fields = append(fields, "subnet_pool")
	}
	return fields
}

// clears is whether the server can set fields back. One that cannot keeps what it was told.
func (p shardGroup) clears() bool { return !slices.Contains(p.shard.Missing, shards.ClearFields) }

// stuck names the fields of the server that cannot be set back; empty: none.
func (p shardGroup) stuck() []string {
	if p.clears() {
		return nil
	}
	return p.removed(p.static())
}

func (p shardGroup) told(field string) bool { return slices.Contains(p.object.Status.Sent, field) }

// sent names the optional fields that a request says something in.
func sent(config *nstancev1.GroupConfig) []string {
	var fields []string
	if config.GetInstanceType() != "" {
		fields = append(fields, fieldInstanceType)
	}
	if config.GetInstanceRequirements() != nil {
		fields = append(fields, fieldRequirements)
	}
	if config.GetLoadBalancers() != nil && len(config.GetLoadBalancers().GetValues()) > 0 {
		fields = append(fields, fieldLoadBalancers)
	}
	if config.GetSubnetPool() != "" {
		fields = append(fields, fieldSubnets)
	}
	if config.GetVars() != nil && len(config.GetVars().GetValues()) > 0 {
		fields = append(fields, fieldVars)
	}
	return fields
}

// size is the size that the server is told: that of the spec, and on top the instances
// that are retiring. The deletion of each of those lowers the server's size by one, in one
// step, and whether that step has been taken is not always known. So there are two bounds,
// and what the server has between them is right.
//
// Too little on top costs time: an instance that should grow is made after one has gone.
// Too much would make the server choose a victim of its own later. So below the bounds the
// lower one counts, and no server is told more than it takes. A server that came back and has
// not said yet who is there may have seen them go meanwhile: they count as perhaps.
func (p shardGroup) size() int32 {
	low, high := p.bounds()
	low, high = min(low, planner.MaxSize), min(high, planner.MaxSize)
	if p.group == nil || p.group.GetDeleting() || p.object.Status.ObservedGeneration == 0 {
		return high
	}
	return min(max(p.group.GetSize(), low), high)
}

func (p shardGroup) bounds() (low, high int32) {
	low = p.object.Spec.SizeOrZero()
	high = low
	for _, id := range p.object.Spec.Retiring {
		switch {
		case slices.Contains(p.gone, id):
		case p.counted(id):
		case slices.Contains(p.ending, id), !p.synced.InstancesSynced:
			high++
		default:
			low++
			high++
		}
	}
	return low, high
}

// counted is whether an instance was condemned because we asked for it: the server lowered
// its size in the same step.
func (p shardGroup) counted(id string) bool {
	i := slices.IndexFunc(p.instances, func(in *nstancev1.InstanceStatus) bool { return in.GetInstanceId() == id })
	return i >= 0 && p.instances[i].GetCondemned().GetReason() == "requested"
}

// drifted is whether the server has something else than it was told: somebody else has
// changed it. While instances are retiring its size may be anything on the way.
func (p shardGroup) drifted() bool {
	if p.group == nil || p.group.GetDeleting() {
		return true
	}
	spec := p.object.Spec
	size, retiring := p.group.GetSize(), int32(len(spec.Retiring)) // at most 1000
	if spec.Size != nil && (size < min(*spec.Size, planner.MaxSize-retiring) || size > *spec.Size+retiring) {
		return true
	}
	config := p.request(p.static()).GetConfig()
	return p.misplaced(config) || len(config.GetClear()) > 0 || config.Template != nil && config.GetTemplate() != p.group.GetTemplate() ||
		config.SubnetPool != nil && config.GetSubnetPool() != p.group.GetSubnetPool() ||
		config.InstanceType != nil && config.GetInstanceType() != p.instanceType() ||
		config.Vars != nil && !p.hasVars(config.GetVars().GetValues()) ||
		config.LoadBalancers != nil && !sameSet(config.GetLoadBalancers().GetValues(), p.group.GetLoadBalancers())
}

// instanceType is what the server was told, where it says so, else what it uses.
func (p shardGroup) instanceType() string {
	if told := p.group.GetDynamic(); told != nil && told.InstanceType != nil {
		return told.GetInstanceType()
	}
	return p.group.GetInstanceType()
}

// hasVars is whether the server was told exactly these variables; of one that does not say
// what it was told, whether it has them.
func (p shardGroup) hasVars(vars map[string]string) bool {
	if told := p.group.GetDynamic(); told != nil {
		return maps.Equal(told.GetVars().GetValues(), vars)
	}
	for name, value := range vars {
		if has, ok := p.group.GetVars()[name]; !ok || has != value {
			return false
		}
	}
	return true
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
