package shard

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/agents"
	"nstance.dev/server/demandloop"
	"nstance.dev/server/driver"
	"nstance.dev/server/explain"
	"nstance.dev/server/filesync"
	"nstance.dev/server/garbage"
	"nstance.dev/server/hosts"
	"nstance.dev/server/provisioning"
)

// Metrics are the measurements of a shard. Label values are bounded: states,
// operations, error classes and the groups of the configuration.
type Metrics struct {
	registry prometheus.Registerer // nil: none

	reconcileSeconds prometheus.Histogram
	providerSeconds  *prometheus.HistogramVec
	providerErrors   *prometheus.CounterVec
	providerWait     *prometheus.HistogramVec
	deleteSeconds    prometheus.Histogram
	balancerErrors   *prometheus.CounterVec
	quarantines      prometheus.Counter
	addressFailures  prometheus.Counter
	decisions        *prometheus.CounterVec
	strayAcks        prometheus.Counter
	repeats          prometheus.Counter
	ofParts
}

// ofParts are the measurements of what a term is made of.
type ofParts struct {
	files    *filesync.Metrics
	garbage  *garbage.Metrics
	launches *provisioning.Metrics
	agents   *agents.Metrics
	demand   *demandloop.Metrics
	hosts    *hosts.Metrics
}

// NewMetrics makes the metrics of a shard and registers them; a nil registerer
// leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		reconcileSeconds: histogram("nstance_reconcile_seconds", "Time that one pass over a group took."),
		providerSeconds:  histogramVec("nstance_provider_call_seconds", "Time that provider calls took.", "operation"),
		providerErrors:   counterVec("nstance_provider_errors_total", "Provider calls that failed.", "operation", "class"),
		providerWait:     histogramVec("nstance_provider_wait_seconds", "Time that provider calls waited for their turn under the server's own rate limits.", "operation"),
		deleteSeconds:    histogram("nstance_instance_delete_seconds", "Time from a delete call to its answer."),
		balancerErrors:   counterVec("nstance_load_balancer_errors_total", "Calls about load balancers that failed.", "operation", "class"),
		quarantines:      counter("nstance_records_quarantined_total", "Records that could not be read."),
		addressFailures:  counter("nstance_leader_address_failures_total", "Failed tries to move the leader's address here."),
		decisions:        counterVec("nstance_decisions_total", "Decisions by action, cause and what blocks them.", "action", "cause", "held_by"),
		repeats:          counter("nstance_reconcile_repeats_total", "Passes that waited because they would have done the same as the pass before, though nothing had changed."),
		strayAcks:        counter("nstance_stray_drain_acks_total", "Drains acknowledged of instances that were not condemned."),
	}
	m.files = filesync.NewMetrics(reg)
	m.garbage = garbage.NewMetrics(reg)
	m.launches = provisioning.NewMetrics(reg)
	m.agents = agents.NewMetrics(reg)
	m.demand = demandloop.NewMetrics(reg)
	m.hosts = hosts.NewMetrics(reg)
	if reg != nil {
		reg.MustRegister(m.collectors()...)
	}
	m.registry = reg
	return m
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.reconcileSeconds, m.providerSeconds, m.providerErrors, m.providerWait, m.deleteSeconds, m.balancerErrors,
		m.quarantines, m.addressFailures,
		m.decisions, m.strayAcks, m.repeats,
	}
}

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(histogramOpts(name, help))
}

func histogramVec(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(histogramOpts(name, help), labels)
}

func histogramOpts(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
	}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m *Metrics) reconciled(took time.Duration) { m.reconcileSeconds.Observe(took.Seconds()) }

func (m *Metrics) providerCall(op string, took time.Duration, err error) {
	m.providerSeconds.WithLabelValues(op).Observe(took.Seconds())
	if err != nil && !driver.IsNotFound(err) {
		m.providerErrors.WithLabelValues(op, string(driver.ClassOf(err))).Inc()
	}
}

func (m *Metrics) providerWaited(op string, took time.Duration) {
	m.providerWait.WithLabelValues(op).Observe(took.Seconds())
}

func (m *Metrics) deleted(took time.Duration) { m.deleteSeconds.Observe(took.Seconds()) }

func (m *Metrics) balancerFailed(op string, kind driver.ErrorClass) {
	m.balancerErrors.WithLabelValues(op, string(kind)).Inc()
}

// decided counts a decision that is news.
func (m *Metrics) decided(d explain.Decision) {
	m.decisions.WithLabelValues(d.Action, d.Cause, string(d.BlockedBy)).Add(float64(d.Count))
}

func (m *Metrics) quarantined()   { m.quarantines.Inc() }
func (m *Metrics) addressFailed() { m.addressFailures.Inc() }
