package offers

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"nstance.dev/server/config/effective"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/driver"
)

// Labels that the Nodes of all machines have, beside those of their groups. LabelInstance is each
// machine's own, and in no class.
const (
	LabelInstanceType = "node.kubernetes.io/instance-type"
	LabelZone         = "topology.kubernetes.io/zone"
	LabelRegion       = "topology.kubernetes.io/region"
	LabelArch         = "kubernetes.io/arch"
	LabelOS           = "kubernetes.io/os"
	LabelCapacityType = "nstance.dev/capacity-type"
	LabelGroup        = "nstance.dev/group"
	LabelShard        = "nstance.dev/shard"
	LabelInstance     = "nstance.dev/instance-id"
)

// class is what machines of a kind are to those who look for capacity.
func (s *shard) class(g *effective.Group, t driver.InstanceType, capacity driver.CapacityType) demand.Class {
	server := &s.cfg.Server
	labels := maps.Clone(g.Node.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range map[string]string{
		LabelInstanceType: t.Name, LabelZone: server.Provider.Zone, LabelRegion: server.Provider.Region,
		LabelArch: g.Arch, LabelOS: "linux", LabelCapacityType: string(capacity), LabelGroup: g.Key, LabelShard: server.Shard,
	} {
		if value != "" {
			labels[key] = LabelValue(value)
		}
	}
	class := demand.Class{
		Group: g.Tenant + "/" + g.Key, InstanceType: t.Name, CapacityType: demand.CapacityType(capacity),
		Labels: labels, Allocatable: allocatable(g, t), InterruptionPPM: s.interruption(t, capacity),
	}
	for _, taint := range g.Node.Taints {
		class.Taints = append(class.Taints, match.Taint{Key: taint.Key, Value: taint.Value, Effect: effects[taint.Effect]})
	}
	slices.SortFunc(class.Taints, func(a, b match.Taint) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect), strings.Compare(a.Value, b.Value))
	})
	return class
}

var effects = map[string]match.Effect{"NoSchedule": match.NoSchedule, "PreferNoSchedule": match.PreferNoSchedule, "NoExecute": match.NoExecute}

// maxLabel is how long the value of a label may be in Kubernetes.
const maxLabel = 63

// LabelValue is a text as the value of a label: what no value may have becomes a dash, as the colons
// and commas of a type such as "cpu:4,memory:8192".
func LabelValue(text string) string {
	value := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, text)
	if len(value) > maxLabel {
		value = value[:maxLabel]
	}
	return strings.Trim(value, "-_.")
}

// Amounts in the units of package vector.
const (
	mib = 1 << 20
	gib = 1 << 30
)

// defaultPods is how many Pods a machine takes where nothing says so.
const defaultPods = 110

// maxPods is how many Pods the kubelet of a machine is told to take.
func maxPods(g *effective.Group, t driver.InstanceType) int64 {
	if n := g.Node.MaxPods; n != nil {
		return int64(*n)
	}
	return int64(cmp.Or(t.MaxPods, defaultPods))
}

// eviction is how much memory the kubelet keeps free by evicting Pods.
const eviction = 100 * mib

// allocatable is what Pods can have of a machine, by resource name: what it has less what is
// reserved for the system and for the kubelet. Nothing at all where its size is not known.
func allocatable(g *effective.Group, t driver.InstanceType) []vector.Amount {
	if t.VCPU == 0 || t.MemoryMiB == 0 {
		return nil
	}
	pods := maxPods(g, t)
	amounts := map[string]int64{
		"cpu": saturating(int64(t.VCPU), 1000), "memory": saturating(int64(t.MemoryMiB), mib), "pods": pods,
	}
	reserved := map[string]int64{
		"cpu": 60 + 10*int64(t.VCPU-1), "memory": (255 + 11*pods) * mib,
	}
	if t.EphemeralGiB > 0 {
		amounts["ephemeral-storage"] = saturating(int64(t.EphemeralGiB), gib)
		reserved["ephemeral-storage"] = amounts["ephemeral-storage"] / 10
	}
	for _, r := range t.Extended {
		amounts[r.Name] += r.Count
	}
	for name, q := range g.Node.Reserved {
		if n, err := q.Amount(name); err == nil {
			reserved[name] = n
		}
	}
	reserved["memory"] = min(reserved["memory"], amounts["memory"]) + eviction
	var all []vector.Amount
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		if n := amounts[name] - reserved[name]; n > 0 {
			all = append(all, vector.Amount{Name: name, Amount: n})
		}
	}
	return all
}

// capacityOf is what a machine counts for in the limits of its group: all of it.
func capacityOf(t driver.InstanceType) []vector.Amount {
	all := []vector.Amount{
		{Name: "cpu", Amount: saturating(int64(t.VCPU), 1000)}, {Name: "memory", Amount: saturating(int64(t.MemoryMiB), mib)},
	}
	for _, r := range t.Extended {
		all = append(all, vector.Amount{Name: r.Name, Amount: r.Count})
	}
	return all
}
