package aggregate

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/protos/needs"
)

// vector appends what a request asks for to a list: cpu in milli-units, everything else in
// whole units, rounded up; sorted by name, without what is 0.
func vector(all []needs.Amount, requests corev1.ResourceList) ([]needs.Amount, error) {
	if len(requests) > demandv1.MostResources {
		return nil, skipped("%d resources", len(requests))
	}
	for name, q := range requests {
		amount := amountOf(name, &q)
		switch {
		case amount < 0:
			return nil, skipped("a negative amount of %s", name)
		case !needs.ValidKey(string(name)):
			return nil, skipped("a resource called %q", name)
		case amount > 0:
			all = append(all, needs.Amount{Name: string(name), Amount: amount})
		}
	}
	if len(all) == 0 {
		return nil, skipped("nothing is asked for")
	}
	slices.SortFunc(all, func(a, b needs.Amount) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// What fits into an amount.
var (
	mostMilli = *resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI)
	mostUnits = *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
)

// amountOf returns a quantity as an amount, at most math.MaxInt64; -1 for a negative one.
func amountOf(name corev1.ResourceName, q *resource.Quantity) int64 {
	switch {
	case q.Sign() < 0:
		return -1
	case name == corev1.ResourceCPU:
		if q.Cmp(mostMilli) >= 0 {
			return math.MaxInt64
		}
		return q.MilliValue()
	default:
		if q.Cmp(mostUnits) >= 0 {
			return math.MaxInt64
		}
		return q.Value()
	}
}
