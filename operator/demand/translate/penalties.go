package translate

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// Penalties are two amounts of US dollars that have nothing to do with each other. nil: not
// said, which counts as nothing.
type Penalties struct {
	// Interruption is the cost of disturbing a Pod.
	Interruption *resource.Quantity `json:"interruptionPenalty,omitempty"`
	// Reclamation is the value of keeping its very machine.
	Reclamation *resource.Quantity `json:"reclamationPenalty,omitempty"`
}

// ParseClasses reads the default penalties of PriorityClasses, a YAML file such as
// `priorityClasses: {payments: {interruptionPenalty: "50"}}`. Unknown fields and negative
// amounts are errors.
func ParseClasses(data []byte) (map[string]Penalties, error) {
	var file struct {
		PriorityClasses map[string]Penalties `json:"priorityClasses"`
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, fmt.Errorf("read penalties of priority classes: %w", err)
	}
	var errs []error
	for name, p := range file.PriorityClasses {
		if negative(p.Interruption) || negative(p.Reclamation) {
			errs = append(errs, fmt.Errorf("read penalties of priority classes: %s: must not be negative", name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return file.PriorityClasses, nil
}

func negative(q *resource.Quantity) bool { return q != nil && q.Sign() < 0 }

// penalties returns each penalty by its own chain: annotation of the Pod, default of its
// PriorityClass, nothing.
func penalties(pod *corev1.Pod, o Options, w *warnings) (interruption, reclamation *resource.Quantity) {
	class := o.Classes[pod.Spec.PriorityClassName]
	return penalty(pod, o, demandv1.InterruptionPenalty, class.Interruption, w),
		penalty(pod, o, demandv1.ReclamationPenalty, class.Reclamation, w)
}

func penalty(pod *corev1.Pod, o Options, name string, byClass *resource.Quantity, w *warnings) *resource.Quantity {
	prefixes := o.PenaltyPrefixes
	if len(prefixes) == 0 {
		prefixes = []string{demandv1.AnnotationPrefix}
	}
	for _, prefix := range prefixes {
		annotation := prefix + "/" + name
		text, found := pod.Annotations[annotation]
		if !found {
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err == nil && q.Sign() >= 0 {
			return &q
		}
		w.addf(InvalidPenalty, "annotation %s must be an amount of dollars, such as 500m or 20; it counts as absent", annotation)
		break
	}
	if byClass == nil {
		return nil
	}
	q := byClass.DeepCopy()
	return &q
}
