package tally

import (
	"slices"
	"strconv"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// holds reports whether a machine with these labels may serve what a unit asks for: its
// requirements, and one of its alternatives if it has any.
func holds(spec *demandv1.CapacityRequestSpec, labels map[string]string) bool {
	all := func(rs []demandv1.Requirement) bool {
		return !slices.ContainsFunc(rs, func(r demandv1.Requirement) bool { return !satisfies(labels, r) })
	}
	return all(spec.Requirements) &&
		(len(spec.Alternatives) == 0 || slices.ContainsFunc(spec.Alternatives, func(a demandv1.Alternative) bool { return all(a.Requirements) }))
}

func satisfies(labels map[string]string, r demandv1.Requirement) bool {
	value, has := labels[r.Key]
	switch r.Operator {
	case demandv1.OperatorIn:
		return has && slices.Contains(r.Values, value)
	case demandv1.OperatorNotIn:
		return !has || !slices.Contains(r.Values, value)
	case demandv1.OperatorExists:
		return has
	case demandv1.OperatorDoesNotExist:
		return !has
	case demandv1.OperatorGt, demandv1.OperatorLt:
		if len(r.Values) != 1 {
			return false
		}
		have, err1 := strconv.ParseInt(value, 10, 64)
		than, err2 := strconv.ParseInt(r.Values[0], 10, 64)
		return err1 == nil && err2 == nil && (r.Operator == demandv1.OperatorGt && have > than || r.Operator == demandv1.OperatorLt && have < than)
	}
	return false
}
