package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// Volumes are what is known of the claims of a Pod. Its zero value: nothing.
type Volumes struct {
	// Bound are the volumes of the claims that are bound.
	Bound []*corev1.PersistentVolume
	// Unbound are the classes of the claims that are not, one for each claim.
	Unbound []*storagev1.StorageClass
}

// volumeRequirements returns the zones and regions that the volumes of a Pod are in, or may
// be made in: each volume is a requirement of its own.
func volumeRequirements(volumes Volumes, w *warnings) []demandv1.Requirement {
	var all []demandv1.Requirement
	for _, pv := range volumes.Bound {
		if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
			continue
		}
		var terms []topology
		for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
			t := topology{}
			for _, e := range term.MatchExpressions {
				if e.Operator != corev1.NodeSelectorOpIn || !t.add(e.Key, e.Values) {
					w.addf(VolumeTopology, "volume %s is bound to %s, which is not carried", pv.Name, e.Key)
				}
			}
			if len(term.MatchFields) > 0 {
				w.addf(VolumeTopology, "volume %s is bound to fields of a Node, which is not carried", pv.Name)
			}
			terms = append(terms, t)
		}
		all = append(all, anyOf(terms, w)...)
	}
	for _, class := range volumes.Unbound {
		var terms []topology
		for _, term := range class.AllowedTopologies {
			t := topology{}
			for _, e := range term.MatchLabelExpressions {
				if !t.add(e.Key, e.Values) {
					w.addf(VolumeTopology, "storage class %s is bound to %s, which is not carried", class.Name, e.Key)
				}
			}
			terms = append(terms, t)
		}
		all = append(all, anyOf(terms, w)...)
	}
	return all
}

// topologyKeys are the labels that say where a volume is and what shards know of.
var topologyKeys = []string{corev1.LabelTopologyRegion, corev1.LabelTopologyZone}

// topology is one term: the values that it allows, by key.
type topology map[string][]string

// add adds an expression, if it is about a zone or region.
func (t topology) add(key string, values []string) bool {
	if !slices.Contains(topologyKeys, key) || len(values) == 0 {
		return false
	}
	if earlier, twice := t[key]; twice { // both hold
		values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !slices.Contains(earlier, v) })
	}
	t[key] = values
	return true
}

// anyOf returns what holds if one of the terms does: for each key that all of them have, all
// values.
func anyOf(terms []topology, w *warnings) []demandv1.Requirement {
	var all []demandv1.Requirement
	for _, key := range topologyKeys {
		var values []string
		everywhere := len(terms) > 0
		for _, t := range terms {
			everywhere = everywhere && len(t[key]) > 0
			values = append(values, t[key]...)
		}
		if !everywhere {
			continue
		}
		if r, ok := listRequirement(demandv1.Requirement{Key: key, Operator: demandv1.OperatorIn}, values, w); ok {
			all = append(all, r)
		}
	}
	return all
}
