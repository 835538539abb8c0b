package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Annotations of a MachinePool that the cluster autoscaler reads; they win over a status.
const (
	AnnotationCPU      = "capacity.cluster-autoscaler.kubernetes.io/cpu"
	AnnotationMemory   = "capacity.cluster-autoscaler.kubernetes.io/memory"
	AnnotationLabels   = "capacity.cluster-autoscaler.kubernetes.io/labels"
	AnnotationTaints   = "capacity.cluster-autoscaler.kubernetes.io/taints"
	AnnotationMaxPods  = "capacity.cluster-autoscaler.kubernetes.io/maxPods"
	AnnotationGPUCount = "capacity.cluster-autoscaler.kubernetes.io/gpu-count"
	AnnotationGPUType  = "capacity.cluster-autoscaler.kubernetes.io/gpu-type"
)

// Annotations returns what the MachinePool should say: labels and taints of a new Node,
// how many Pods it takes, and its accelerators if they are of one kind.
func Annotations(p Pool) map[string]string {
	want := map[string]string{}
	put := func(key, value string) {
		if value != "" {
			want[key] = value
		}
	}
	put(AnnotationLabels, pairs(p.labels()))
	if p.Template != nil {
		var taints []string
		for _, t := range p.Template.Taints {
			taints = append(taints, fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect))
		}
		put(AnnotationTaints, strings.Join(taints, ","))
	}
	offer := Of(p).Capacity
	if q, ok := offer[corev1.ResourcePods]; ok {
		put(AnnotationMaxPods, strconv.FormatInt(q.Value(), 10))
	}
	var gpus []corev1.ResourceName
	for _, d := range devices {
		if _, ok := offer[d.name]; ok {
			gpus = append(gpus, d.name)
		}
	}
	if len(gpus) == 1 { // there is room for one kind
		q := offer[gpus[0]]
		put(AnnotationGPUType, string(gpus[0]))
		put(AnnotationGPUCount, strconv.FormatInt(q.Value(), 10))
	}
	return want
}

// labels are those that Nodes get from their cloud and from the operator, and those that the
// user names. The operator's own belong here because a Pod may select Nodes by them, and
// because the autoscaler compares the labels of an empty pool with those of another pool's
// Nodes when it balances the two.
func (p Pool) labels() map[string]string {
	labels := map[string]string{
		corev1.LabelInstanceTypeStable: same(p.Parts, func(p Part) string { return p.InstanceType }, ""),
		corev1.LabelTopologyRegion:     same(p.Parts, func(p Part) string { return p.Region }, ""),
		corev1.LabelTopologyZone:       same(p.Parts, func(p Part) string { return p.Zone }, ""),
	}
	if p.Partial { // the others may differ
		clear(labels)
	}
	labels[infrav1.LabelGroup] = p.Group
	if len(p.Shards) == 1 {
		labels[infrav1.LabelShard] = p.Shards[0]
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	if p.Template != nil {
		maps.Copy(labels, p.Template.Labels)
	}
	return labels
}

// Missing returns which of cpu and memory an autoscaler cannot learn, from what a status
// offers and from the annotations of its MachinePool, in this order. While one is missing it
// ignores a pool that has no Nodes (cluster-autoscaler, provider clusterapi).
func Missing(offered infrav1.ResourceList, annotations map[string]string) []string {
	var missing []string
	for _, needed := range []struct {
		name       corev1.ResourceName
		annotation string
	}{{corev1.ResourceCPU, AnnotationCPU}, {corev1.ResourceMemory, AnnotationMemory}} {
		q := offered[needed.name]
		if written, err := resource.ParseQuantity(annotations[needed.annotation]); err == nil {
			q = written
		}
		if q.Sign() <= 0 {
			missing = append(missing, string(needed.name))
		}
	}
	return missing
}

func pairs(m map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		all = append(all, key+"="+m[key])
	}
	return strings.Join(all, ",")
}

// Change is what is to be changed of an object's annotations.
type Change struct {
	Set    map[string]string
	Remove []string // sorted
}

// Empty reports whether nothing is to be changed.
func (c Change) Empty() bool { return len(c.Set) == 0 && len(c.Remove) == 0 }

// Keep returns how annotations become those that are wanted. Only those count as ours
// that the list in AnnotationManagedAnnotations names; another one that is there was set
// by somebody else and stays, wanted or not.
func Keep(have, want map[string]string) Change {
	c := Change{Set: map[string]string{}}
	ours := map[string]bool{}
	for key := range strings.SplitSeq(have[infrav1.AnnotationManagedAnnotations], ",") {
		ours[strings.TrimSpace(key)] = true
	}
	var managed []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value, there := have[key]
		if there && !ours[key] {
			continue
		}
		managed = append(managed, key)
		if !there || value != want[key] {
			c.Set[key] = want[key]
		}
	}
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		_, wanted := want[key]
		if _, there := have[key]; there && !wanted {
			c.Remove = append(c.Remove, key)
		}
	}
	switch list := strings.Join(managed, ","); {
	case list != "" && list != have[infrav1.AnnotationManagedAnnotations]:
		c.Set[infrav1.AnnotationManagedAnnotations] = list
	case list == "" && have[infrav1.AnnotationManagedAnnotations] != "":
		c.Remove = append(c.Remove, infrav1.AnnotationManagedAnnotations)
	}
	return c
}
