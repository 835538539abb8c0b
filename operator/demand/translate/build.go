package translate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// Options are the settings of a translation. The zero value expresses the least.
type Options struct {
	// Alternatives carries several terms of node affinity, and Gt and Lt. Without it the
	// first term alone counts, and Gt and Lt become Exists.
	Alternatives bool
	// VolumeTopology carries the zones and regions of volumes.
	VolumeTopology bool
	// PenaltyPrefixes are the prefixes of the annotations with penalties, the first that a
	// Pod has winning; demandv1.AnnotationPrefix when empty.
	PenaltyPrefixes []string
	// Classes are the default penalties of PriorityClasses, by name.
	Classes map[string]Penalties
}

// Result is what a Pod asks for.
type Result struct {
	Spec demandv1.CapacityRequestSpec
	// Warnings are what could not be expressed or read, in a fixed order.
	Warnings []Warning
}

// Build translates a Pod. volumes are what is known of its claims. The Pod is only read, and
// the result shares nothing with it that either may change.
//
// Who calls it has found that the Pod is neither [Terminal] nor [Excluded].
func Build(pod *corev1.Pod, volumes Volumes, o Options) Result {
	var w warnings
	requirements, alternatives := nodeRequirements(pod, o, &w)
	if o.VolumeTopology {
		requirements = append(requirements, volumeRequirements(volumes, &w)...)
	}
	requirements = normal(requirements)
	if len(requirements) == 0 && len(alternatives) == 0 {
		// Something for a matcher to hold on to: every machine has it.
		requirements = []demandv1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: demandv1.OperatorExists}}
	}
	spec := demandv1.CapacityRequestSpec{
		Requirements:   truncate(requirements, demandv1.MostRequirements, TooManyRequirements, &w),
		Alternatives:   alternatives,
		Resources:      demandv1.Resources{Requests: requests(pod, &w)},
		TopologySpread: spread(pod, &w),
		CoLocation:     coLocation(pod, &w),
		Tolerations:    tolerations(pod, &w),
	}
	if pod.Spec.Priority != nil {
		spec.Priority = *pod.Spec.Priority
	}
	spec.InterruptionPenalty, spec.ReclamationPenalty = penalties(pod, o, &w)
	if len(pod.Spec.ResourceClaims) > 0 {
		w.add(ResourceClaims, "dynamic resource claims are not counted")
	}
	return Result{Spec: spec, Warnings: w.sorted()}
}

// Object returns the CapacityRequest of a Pod with what [Build] made of it: named after the
// Pod and its UID, labelled with the UID, owned by the Pod.
func Object(pod *corev1.Pod, spec demandv1.CapacityRequestSpec) *demandv1.CapacityRequest {
	controller, block := true, false
	return &demandv1.CapacityRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name:      Name(pod),
			Namespace: pod.Namespace,
			Labels:    map[string]string{demandv1.LabelOwnedByPod: string(pod.UID)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &controller, BlockOwnerDeletion: &block,
			}},
		},
		Spec: spec,
	}
}

// Name returns the name of the CapacityRequest of a Pod: the Pod's, cut to 200 bytes, and the
// first eight hexadecimal digits of its UID. A Pod that is made again under the same name
// gets another one.
func Name(pod *corev1.Pod) string {
	name := pod.Name
	if len(name) > 200 {
		name = strings.TrimRight(name[:200], "-.")
	}
	return name + "-" + shortUID(string(pod.UID))
}

func shortUID(uid string) string {
	digits := strings.ReplaceAll(strings.ToLower(uid), "-", "")
	if len(digits) >= 8 && strings.Trim(digits[:8], "0123456789abcdef") == "" {
		return digits[:8]
	}
	sum := sha256.Sum256([]byte(uid)) // not a UUID: of a mirror Pod, say
	return hex.EncodeToString(sum[:4])
}

// spread returns the constraints that forbid scheduling. Soft ones would only tell rows apart.
func spread(pod *corev1.Pod, w *warnings) []demandv1.TopologySpread {
	var all []demandv1.TopologySpread
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		all = append(all, demandv1.TopologySpread{TopologyKey: c.TopologyKey, MaxSkew: max(c.MaxSkew, 1), WhenUnsatisfiable: demandv1.DoNotSchedule})
	}
	slices.SortFunc(all, func(a, b demandv1.TopologySpread) int {
		return cmp.Or(cmp.Compare(a.TopologyKey, b.TopologyKey), cmp.Compare(a.MaxSkew, b.MaxSkew))
	})
	return truncate(slices.Compact(all), demandv1.MostSpread, TooManyConstraints, w)
}

// truncate keeps what the schema of a CapacityRequest takes.
func truncate[T any](list []T, most int, reason Reason, w *warnings) []T {
	if len(list) <= most {
		return list
	}
	w.addf(reason, "%d of %d are left out", len(list)-most, len(list))
	return list[:most:most]
}
