package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// list makes a list of resources of names and quantities.
func list(pairs ...string) infrav1.ResourceList {
	out := infrav1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// written is a list as a status shows it, so that equal quantities compare equal.
func written(l infrav1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, q := range l {
		out[string(name)] = q.String()
	}
	return out
}

func part(change func(*Part)) Part {
	p := Part{
		Arch: "amd64", Zone: "a", Region: "r", InstanceType: "small", Template: "base",
		Capacity: map[string]string{"cpu": "4", "memory": "16Gi", "ephemeral-storage": "80Gi"},
	}
	if change != nil {
		change(&p)
	}
	return p
}

func node(pairs ...string) Node {
	return Node{InstanceType: "small", Template: "base", Ready: true, Allocatable: corev1.ResourceList(list(pairs...))}
}

func TestO17_CapacityOfAnEmptyPool(t *testing.T) {
	b := part(func(p *Part) { p.Zone, p.Capacity = "b", map[string]string{"cpu": "2", "memory": "32Gi"} })
	learned := Learn(Pool{Parts: []Part{part(nil)}, Nodes: []Node{node("cpu", "3900m", "memory", "14Gi", "pods", "58")}})
	for _, tt := range []struct {
		name string
		pool Pool
		want map[string]string
		info *infrav1.NodeInfo
	}{
		{"nothing is known", Pool{}, map[string]string{}, nil},
		{
			"what the shard reports, and less memory", Pool{Parts: []Part{part(nil)}},
			map[string]string{"cpu": "4", "memory": "15155Mi", "ephemeral-storage": "80Gi"}, &infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"},
		},
		{
			"another share of the memory", Pool{Parts: []Part{part(nil)}, MemoryShare: 0.5},
			map[string]string{"cpu": "4", "memory": "8Gi", "ephemeral-storage": "80Gi"}, &infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"},
		},
		{
			"the least of two shards", Pool{Parts: []Part{part(nil), b}},
			map[string]string{"cpu": "2", "memory": "15155Mi"}, &infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"},
		},
		{
			"shards of two architectures", Pool{Parts: []Part{part(func(p *Part) { p.Capacity = nil }), part(func(p *Part) { p.Arch = "arm64" })}},
			map[string]string{}, nil,
		},
		{
			"accelerators", Pool{Parts: []Part{part(func(p *Part) { p.GPUType, p.GPUs, p.Capacity = "T4", 2, nil })}},
			map[string]string{"nvidia.com/gpu": "2"}, &infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"},
		},
		{
			"accelerators of another maker", Pool{Parts: []Part{part(func(p *Part) { p.GPUType, p.GPUs, p.Capacity = "Radeon Pro V520", 1, nil })}},
			map[string]string{"amd.com/gpu": "1"}, &infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"},
		},
		{
			"what a server writes wrongly is left out", Pool{Parts: []Part{part(func(p *Part) { p.Capacity = map[string]string{"cpu": "many", "memory": "-1", "pods": "20"} })}},
			map[string]string{"pods": "20"}, &infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"},
		},
		{
			"what was learnt wins over the table", Pool{Parts: []Part{part(nil)}, Learned: learned},
			map[string]string{"cpu": "3900m", "memory": "14Gi", "pods": "58", "ephemeral-storage": "80Gi"}, &infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"},
		},
		{
			"not once the machine type is another one", Pool{Parts: []Part{part(func(p *Part) { p.InstanceType, p.Capacity = "big", nil })}, Learned: learned},
			map[string]string{}, &infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"},
		},
		{
			"but while a shard is not known", Pool{Partial: true, Learned: learned},
			map[string]string{"cpu": "3900m", "memory": "14Gi", "pods": "58"}, nil,
		},
		{
			"what a person says wins over all", Pool{
				Parts: []Part{part(nil)}, Learned: learned,
				Template: &infrav1.NodeTemplate{Capacity: list("cpu", "1"), MaxPods: 10, NodeInfo: &infrav1.NodeInfo{Architecture: "arm64"}},
			},
			map[string]string{"cpu": "1", "memory": "14Gi", "pods": "10", "ephemeral-storage": "80Gi"}, &infrav1.NodeInfo{Architecture: "arm64", OperatingSystem: "linux"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Of(tt.pool)
			if diff := cmp.Diff(tt.want, written(got.Capacity)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.info, got.NodeInfo); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestO17_Learn(t *testing.T) {
	pool := func(nodes ...Node) Pool { return Pool{Parts: []Part{part(nil)}, Nodes: nodes} }
	first := Learn(pool(node("cpu", "3900m", "memory", "14Gi"), node("cpu", "3800m", "memory", "15Gi")))
	after := func(p Pool) Pool { p.Learned = first; return p }
	for _, tt := range []struct {
		name string
		pool Pool
		want map[string]string
	}{
		{"the least of each", pool(node("cpu", "3900m", "memory", "14Gi"), node("cpu", "3800m", "memory", "15Gi")), map[string]string{"cpu": "3800m", "memory": "14Gi"}},
		{"nothing of nothing", pool(), map[string]string{}},
		{"it outlives the nodes", after(pool()), map[string]string{"cpu": "3800m", "memory": "14Gi"}},
		{"and does not rise", after(pool(node("cpu", "4", "memory", "13Gi"))), map[string]string{"cpu": "3800m", "memory": "13Gi"}},
		{"it outlives a change of size alone", after(Pool{Parts: []Part{part(nil), part(nil)}}), map[string]string{"cpu": "3800m", "memory": "14Gi"}},
		{"not a change of the variables", after(Pool{Parts: []Part{part(func(p *Part) { p.Vars = map[string]string{"A": "b"} })}}), map[string]string{}},
		{"a shard that is silent takes nothing away", after(Pool{Partial: true, Nodes: []Node{node("cpu", "1")}}), map[string]string{"cpu": "3800m", "memory": "14Gi"}},
		{"no configuration, no lesson", after(Pool{}), map[string]string{"cpu": "3800m", "memory": "14Gi"}},
		{"a node that is not ready", pool(Node{InstanceType: "small", Template: "base", Allocatable: corev1.ResourceList(list("cpu", "1"))}), map[string]string{}},
		{"a node of another type", pool(Node{InstanceType: "big", Template: "base", Ready: true, Allocatable: corev1.ResourceList(list("cpu", "1"))}), map[string]string{}},
		{"an accelerator whose driver comes later", pool(node("nvidia.com/gpu", "0"), node("nvidia.com/gpu", "4")), map[string]string{"nvidia.com/gpu": "4"}},
		{"what no autoscaler asks for", pool(node("hugepages-2Mi", "1Gi")), map[string]string{}},
		{
			"one of the types that are tried",
			Pool{Parts: []Part{part(func(p *Part) { p.InstanceType, p.InstanceTypes = "big", []string{"small"} })}, Nodes: []Node{node("cpu", "2")}},
			map[string]string{"cpu": "2"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := map[string]string{}
			if learned := Learn(tt.pool); learned != nil {
				got = written(learned.Allocatable)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestO17_Annotations(t *testing.T) {
	template := &infrav1.NodeTemplate{
		Labels:  map[string]string{"pool": "web", corev1.LabelTopologyRegion: "mine"},
		Taints:  []infrav1.Taint{{Key: "a", Value: "b", Effect: corev1.TaintEffectNoSchedule}, {Key: "c", Effect: corev1.TaintEffectNoExecute}},
		MaxPods: 30,
	}
	other := part(func(p *Part) { p.Zone = "b" })
	for _, tt := range []struct {
		name string
		pool Pool
		want map[string]string
	}{
		{"nothing is known", Pool{}, map[string]string{}},
		{"one zone", Pool{Parts: []Part{part(nil), part(nil)}}, map[string]string{
			AnnotationLabels: "node.kubernetes.io/instance-type=small,topology.kubernetes.io/region=r,topology.kubernetes.io/zone=a",
		}},
		{"its group and its only shard, which the operator puts on each Node", Pool{Group: "batch", Shards: []string{"us-a"}, Parts: []Part{part(nil)}}, map[string]string{
			AnnotationLabels: "node.kubernetes.io/instance-type=small,nstance.dev/group=batch,nstance.dev/shard=us-a,topology.kubernetes.io/region=r,topology.kubernetes.io/zone=a",
		}},
		{"its group alone where Nodes are of several shards", Pool{Group: "batch", Shards: []string{"us-a", "us-b"}}, map[string]string{
			AnnotationLabels: "nstance.dev/group=batch",
		}},
		{"its group and shard while a shard is not known", Pool{Group: "batch", Shards: []string{"us-a"}, Partial: true, Parts: []Part{part(nil)}}, map[string]string{
			AnnotationLabels: "nstance.dev/group=batch,nstance.dev/shard=us-a",
		}},
		{"a user's label of the same name", Pool{Group: "batch", Template: &infrav1.NodeTemplate{Labels: map[string]string{infrav1.LabelGroup: "mine"}}}, map[string]string{
			AnnotationLabels: "nstance.dev/group=mine",
		}},
		{"two zones", Pool{Parts: []Part{part(nil), other}}, map[string]string{
			AnnotationLabels: "node.kubernetes.io/instance-type=small,topology.kubernetes.io/region=r",
		}},
		{"a zone that may not be the only one", Pool{Parts: []Part{part(nil)}, Partial: true}, map[string]string{}},
		{"all that a person says", Pool{Parts: []Part{part(nil)}, Template: template}, map[string]string{
			AnnotationLabels:  "node.kubernetes.io/instance-type=small,pool=web,topology.kubernetes.io/region=mine,topology.kubernetes.io/zone=a",
			AnnotationTaints:  "a=b:NoSchedule,c=:NoExecute",
			AnnotationMaxPods: "30",
		}},
		{"accelerators", Pool{Template: &infrav1.NodeTemplate{Capacity: list("nvidia.com/gpu", "8")}}, map[string]string{
			AnnotationGPUType: "nvidia.com/gpu", AnnotationGPUCount: "8",
		}},
		{"accelerators of two kinds", Pool{Template: &infrav1.NodeTemplate{Capacity: list("nvidia.com/gpu", "8", "amd.com/gpu", "1")}}, map[string]string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Annotations(tt.pool)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestO17_KeepAnnotations(t *testing.T) {
	const list = infrav1.AnnotationManagedAnnotations
	for _, tt := range []struct {
		name       string
		have, want map[string]string
		change     Change
	}{
		{"nothing", nil, nil, Change{Set: map[string]string{}}},
		{"the first ones", map[string]string{"x": "y"}, map[string]string{"a": "1", "b": "2"}, Change{Set: map[string]string{"a": "1", "b": "2", list: "a,b"}}},
		{"nothing new", map[string]string{"a": "1", list: "a"}, map[string]string{"a": "1"}, Change{Set: map[string]string{}}},
		{"another value", map[string]string{"a": "1", list: "a"}, map[string]string{"a": "2"}, Change{Set: map[string]string{"a": "2"}}},
		{"a user's stays", map[string]string{"a": "mine"}, map[string]string{"a": "1"}, Change{Set: map[string]string{}}},
		{"a user's beside ours", map[string]string{"a": "mine", "b": "1", list: "b"}, map[string]string{"a": "1", "b": "2"}, Change{Set: map[string]string{"b": "2"}}},
		{"ours is not wanted any more", map[string]string{"a": "1", "b": "1", list: "a,b"}, map[string]string{"b": "1"}, Change{Set: map[string]string{list: "b"}, Remove: []string{"a"}}},
		{"nothing is wanted any more", map[string]string{"a": "1", "x": "y", list: "a"}, nil, Change{Set: map[string]string{}, Remove: []string{"a", list}}},
		{"somebody took it off", map[string]string{list: "a"}, map[string]string{"a": "1"}, Change{Set: map[string]string{"a": "1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Keep(tt.have, tt.want)
			if diff := cmp.Diff(tt.change, got); diff != "" {
				t.Error(diff)
			}
			if got.Empty() != (len(tt.change.Set)+len(tt.change.Remove) == 0) {
				t.Error("Empty is wrong")
			}
		})
	}
}

func TestO17_Missing(t *testing.T) {
	for _, tt := range []struct {
		name        string
		have        infrav1.ResourceList
		annotations map[string]string
		want        []string
	}{
		{"nothing is known", nil, nil, []string{"cpu", "memory"}},
		{"both", list("cpu", "1", "memory", "1Gi"), nil, nil},
		{"memory alone", list("memory", "1Gi", "pods", "10"), nil, []string{"cpu"}},
		{"the rest on the MachinePool", list("memory", "1Gi"), map[string]string{AnnotationCPU: "4"}, nil},
		{"all of it on the MachinePool", nil, map[string]string{AnnotationCPU: "4", AnnotationMemory: "8Gi"}, nil},
		{"an annotation that is no quantity", nil, map[string]string{AnnotationCPU: "many", AnnotationMemory: "8Gi"}, []string{"cpu"}},
		{"nought", list("cpu", "0", "memory", "1Gi"), nil, []string{"cpu"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Missing(tt.have, tt.annotations)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
