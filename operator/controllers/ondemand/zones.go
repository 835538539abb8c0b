package ondemand

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Zones returns the zones in which a Pod can run, as far as its node selector, its
// required affinity and its volumes say; ok is false where none of them says anything. An
// empty list with ok: they contradict each other, or say it in another way than by a list.
func Zones(pod *corev1.Pod, volumes []corev1.PersistentVolume) (zones []string, ok bool) {
	var all zoneSet
	if zone := pod.Spec.NodeSelector[corev1.LabelTopologyZone]; zone != "" {
		all = all.and([]string{zone})
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		all = all.andSelector(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	for _, v := range volumes {
		if v.Spec.NodeAffinity != nil {
			all = all.andSelector(v.Spec.NodeAffinity.Required)
		}
	}
	return all.zones, all.limited
}

// zoneSet is a set of zones; not limited: all of them.
type zoneSet struct {
	limited bool
	zones   []string
}

func (s zoneSet) and(zones []string) zoneSet {
	if !s.limited {
		return zoneSet{true, slices.Compact(slices.Sorted(slices.Values(zones)))}
	}
	return zoneSet{true, slices.DeleteFunc(slices.Clone(s.zones), func(z string) bool { return !slices.Contains(zones, z) })}
}

// andSelector limits by a selector, of whose terms one has to hold.
func (s zoneSet) andSelector(selector *corev1.NodeSelector) zoneSet {
	if selector == nil {
		return s
	}
	var allowed []string
	for _, term := range selector.NodeSelectorTerms {
		var all zoneSet
		for _, e := range term.MatchExpressions {
			if e.Key == corev1.LabelTopologyZone && e.Operator == corev1.NodeSelectorOpIn {
				all = all.and(e.Values)
			}
		}
		if !all.limited {
			return s
		}
		allowed = append(allowed, all.zones...)
	}
	return s.and(allowed)
}
