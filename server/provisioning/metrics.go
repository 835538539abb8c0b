package provisioning

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// Metrics are the measurements of creates. Label values are bounded: error classes and the
// groups of the configuration.
type Metrics struct {
	createSeconds  prometheus.Histogram
	creates        *prometheus.CounterVec
	createFailures *prometheus.CounterVec
	imageLookups   *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them; a nil registerer leaves them
// unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		createSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "nstance_instance_create_seconds", Help: "Time from a create call to its answer.",
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}),
		creates:        counters("nstance_instance_creates_total", "Create calls by result: ok, or the class of the error.", "result"),
		createFailures: counters("nstance_instance_create_failures_total", "Creates that failed.", "tenant", "group", "class"),
		imageLookups:   counters("nstance_image_lookups_total", "Look-ups of machine images by result: ok, or the class of the error.", "result"),
	}
	if reg != nil {
		reg.MustRegister(m.createSeconds, m.creates, m.createFailures, m.imageLookups)
	}
	return m
}

// GroupGone drops the series of a group, so that no flood of names grows them.
func (m *Metrics) GroupGone(group fleet.GroupID) {
	m.createFailures.DeletePartialMatch(prometheus.Labels{"tenant": group.Tenant, "group": group.Name})
}

func (m *Metrics) created(took time.Duration) {
	m.creates.WithLabelValues("ok").Inc()
	m.createSeconds.Observe(took.Seconds())
}

func (m *Metrics) createFailed(group fleet.GroupID, kind driver.ErrorClass) {
	m.creates.WithLabelValues(string(kind)).Inc()
	m.createFailures.WithLabelValues(group.Tenant, group.Name, string(kind)).Inc()
}

func (m *Metrics) imageLookedUp(err error) {
	result := "ok"
	if err != nil {
		result = string(driver.ClassOf(err))
	}
	m.imageLookups.WithLabelValues(result).Inc()
}
