package demandsim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"nstance.dev/e2e/sim/demandsim/cloud"
	"nstance.dev/e2e/sim/demandsim/cluster"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
)

// offer is what a provider sells in a world: a machine type of a group, in a market and a rack.
type offer struct {
	group, instanceType, market, rack string

	allocatable cluster.Vector // of one machine
	price       int64          // micro-USD an hour
	interrupted int64          // per hour, in millionths
	taint       string         // key of one with NoSchedule; empty is none
	startup     bool           // whether a network agent has to remove a startup taint
}

// name is the offer's own.
func (o *offer) name() string {
	return o.group + "/" + o.instanceType + "/" + o.market + "/" + o.rack
}

// StartupTaint is the key of the taint that the network agent of a world removes.
const StartupTaint = "network.example.com/agent-not-ready"

// networkAgent is how long it takes for that.
const networkAgent = 5 * time.Second

// offers are those of every world: two sizes on demand in three racks, the small one as spot
// machines too, and machines of eight GPUs in two racks.
var offers = makeOffers()

func makeOffers() (all []offer) {
	for _, rack := range []string{"r1", "r2", "r3"} {
		all = append(all,
			offer{group: "general", instanceType: "small", market: "on-demand", rack: rack, allocatable: cluster.Vector{3900, 15 * gib, 58, 90 * gib}, price: 200_000, startup: true},
			offer{group: "general", instanceType: "large", market: "on-demand", rack: rack, allocatable: cluster.Vector{15800, 61 * gib, 110, 90 * gib}, price: 760_000, startup: true},
			offer{group: "cheap", instanceType: "small", market: "spot", rack: rack, allocatable: cluster.Vector{3900, 15 * gib, 58, 90 * gib}, price: 70_000, interrupted: 20_000},
		)
	}
	for _, rack := range []string{"r1", "r2"} {
		all = append(all, offer{
			group: "gpu", instanceType: "gpu8", market: "on-demand", rack: rack,
			allocatable: cluster.Vector{95000, 760 * gib, 110, 900 * gib, 8}, price: 24_000_000, taint: string(cluster.GPU),
		})
	}
	return all
}

// offerOf is the offer of a name, or nil.
func offerOf(name string) *offer {
	for i := range offers {
		if offers[i].name() == name {
			return &offers[i]
		}
	}
	return nil
}

// labels are those of the Nodes of an offer's machines.
func (o *offer) labels() map[string]string {
	return map[string]string{
		corev1.LabelInstanceTypeStable: o.instanceType, corev1.LabelTopologyZone: "zone-1", corev1.LabelTopologyRegion: "region-1",
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", "nstance.dev/capacity-type": o.market,
		"nstance.dev/group": o.group, "nstance.dev/shard": "zone-1", RackLabel: o.rack,
	}
}

// taints are those of the Nodes, without the startup taint.
func (o *offer) taints() []corev1.Taint {
	if o.taint == "" {
		return nil
	}
	return []corev1.Taint{{Key: o.taint, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
}

// node is the object that the kubelet of a machine registers.
func (o *offer) node(machine string) *corev1.Node {
	n := &corev1.Node{}
	n.Name, n.Spec.ProviderID, n.Labels, n.Spec.Taints = "node-"+machine, machine, o.labels(), o.taints()
	n.Labels[corev1.LabelHostname], n.Labels["nstance.dev/instance-id"] = n.Name, machine
	if o.startup {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: StartupTaint, Effect: corev1.TaintEffectNoSchedule})
	}
	n.Status.Allocatable = o.allocatable.List()
	n.Status.Capacity = n.Status.Allocatable
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// times are how long the machines of an offer take, with a boot of the world's setting.
func (o *offer) times(boot time.Duration) cloud.Times {
	t := cloud.Times{Boot: boot, Join: 10 * time.Second, Leave: 5 * time.Second, Delete: 10 * time.Second}
	if boot == 0 {
		t = cloud.Times{}
	}
	if o.instanceType == "gpu8" {
		t.Boot *= 2
	}
	return t
}

// engine is the offer as the engine takes it, at a price.
func (o *offer) engine(price int64) demand.Offer {
	class := demand.Class{Group: o.group, InstanceType: o.instanceType, CapacityType: demand.CapacityType(o.market), Labels: o.labels(), InterruptionPPM: o.interrupted}
	for _, a := range o.allocatable.Amounts() {
		class.Allocatable = append(class.Allocatable, vector.Amount{Name: a.Name, Amount: a.Amount})
	}
	if o.taint != "" {
		class.Taints = []match.Taint{{Key: o.taint, Value: "true", Effect: match.NoSchedule}}
	}
	return demand.Offer{
		Name: o.name(), Class: class, PricePerHour: price, Limit: -1,
		Pools: []demand.PoolUse{{Pool: quota, Units: (o.allocatable[0] + 999) / 1000}},
	}
}

// quota is the pool of all offers, in CPUs.
const quota = "cpus"

// groups are the settings of the offers' groups.
func groups(consolidate bool) (all []demand.Group) {
	for _, name := range []string{"general", "cheap", "gpu"} {
		all = append(all, demand.Group{
			Name: name, Max: -1, ScaleDownDelay: time.Minute, MinLifetime: 5 * time.Minute, JoinDeadline: 10 * time.Minute,
			Consolidation: demand.Consolidation{Enabled: consolidate, MinSaving: 150_000},
		})
	}
	return all
}
