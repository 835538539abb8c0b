package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The labels of the controller that writes CapacityRequests for Pods.
var (
	byOutcome = Label{"outcome", []string{"cr_created", "cr_exists", "cr_patched", "pod_gone", "pod_terminal", "pod_excluded", "error"}}
	byWarning = Label{"reason", []string{
		"MultipleAffinityTerms", "UnsupportedOperator", "MatchFields", "InvalidRequirement", "MultiplePodAffinityTerms", "VolumeTopology",
		"ResourceClaims", "TooManyRequirements", "TooManyConstraints", "TooManyResources", "InvalidPenalty", other,
	}}
)

var requestBounds = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}

// Its metrics.
var (
	podReconciles = Metric{"demand_upc_reconciles_total", Counter, []Label{byOutcome}, "Pods that were looked at for their CapacityRequest, by what became of it.", nil}
	podWarnings   = Metric{"demand_upc_translate_warnings_total", Counter, []Label{byWarning}, "Parts of Pods that a CapacityRequest cannot express, or that could not be read.", nil}
	podToRequest  = Metric{"demand_upc_pod_to_cr_seconds", Histogram, nil, "Time from the creation of a Pod to that of its CapacityRequest.", requestBounds}
)

// PodDemand returns the metrics of the controller that writes CapacityRequests for Pods.
func PodDemand() []Metric { return []Metric{podReconciles, podWarnings, podToRequest} }

// Pods counts what that controller does. It is safe for concurrent use; NewPods makes one.
type Pods struct {
	reconciles, warnings *prometheus.CounterVec
	toRequest            *prometheus.HistogramVec
}

// NewPods returns metrics that a registry shows.
func NewPods(registry prometheus.Registerer) *Pods {
	p := &Pods{reconciles: podReconciles.counter(), warnings: podWarnings.counter(), toRequest: podToRequest.histogram()}
	registry.MustRegister(p.reconciles, p.warnings, p.toRequest)
	return p
}

// Reconciled notes what became of the request of a Pod.
func (p *Pods) Reconciled(outcome string) {
	p.reconciles.WithLabelValues(known(byOutcome, outcome)).Inc()
}

// Warned notes a part of a Pod that could not be translated.
func (p *Pods) Warned(reason string) { p.warnings.WithLabelValues(known(byWarning, reason)).Inc() }

// Requested notes how long after a Pod its request was made.
func (p *Pods) Requested(after time.Duration) {
	p.toRequest.WithLabelValues().Observe(after.Seconds())
}
