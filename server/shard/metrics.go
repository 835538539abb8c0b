package shard

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/decisions"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/supply"
)

// Metrics are the measurements of a shard. Label values are bounded: states,
// operations, error classes and the groups of the configuration.
type Metrics struct {
	registry prometheus.Registerer // nil: none

	reconcileSeconds prometheus.Histogram
	providerSeconds  *prometheus.HistogramVec
	providerErrors   *prometheus.CounterVec
	createSeconds    prometheus.Histogram
	deleteSeconds    prometheus.Histogram
	creates          *prometheus.CounterVec
	imageLookups     *prometheus.CounterVec
	balancerErrors   *prometheus.CounterVec
	createFailures   *prometheus.CounterVec
	orphans          prometheus.Counter
	heldVMs          prometheus.Gauge
	deletesHeld      prometheus.Gauge
	dynamicHeld      prometheus.Gauge
	quarantines      prometheus.Counter
	addressFailures  prometheus.Counter
	streams          prometheus.Gauge
	reports          prometheus.Counter
	registrations    *prometheus.CounterVec
	certificates     *prometheus.CounterVec
	thefts           *prometheus.CounterVec
	decisions        *prometheus.CounterVec
	strayAcks        prometheus.Counter
	silence          prometheus.Gauge
	supply           *supply.Metrics
}

// NewMetrics makes the metrics of a shard and registers them; a nil registerer
// leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		reconcileSeconds: histogram("nstance_reconcile_seconds", "Time that one pass over a group took."),
		providerSeconds:  histogramVec("nstance_provider_call_seconds", "Time that provider calls took.", "operation"),
		providerErrors:   counterVec("nstance_provider_errors_total", "Provider calls that failed.", "operation", "class"),
		createSeconds:    histogram("nstance_instance_create_seconds", "Time from a create call to its answer."),
		deleteSeconds:    histogram("nstance_instance_delete_seconds", "Time from a delete call to its answer."),
		creates:          counterVec("nstance_instance_creates_total", "Create calls by result: ok, or the class of the error.", "result"),
		imageLookups:     counterVec("nstance_image_lookups_total", "Look-ups of machine images by result: ok, or the class of the error.", "result"),
		balancerErrors:   counterVec("nstance_load_balancer_errors_total", "Calls about load balancers that failed.", "operation", "class"),
		createFailures:   counterVec("nstance_instance_create_failures_total", "Creates that failed.", "tenant", "group", "class"),
		orphans:          counter("nstance_orphans_deleted_total", "Machines deleted because their instance had ended."),
		heldVMs:          gauge("nstance_held_vms", "Machines with our tags and without a readable record: reported, never deleted."),
		deletesHeld:      gauge("nstance_deletes_held", "1 while deletes are held because the provider's listing lacks too much."),
		dynamicHeld:      gauge("nstance_dynamic_groups_held", "1 while the group file cannot be read, or groups rebuilt after its loss wait to be confirmed."),
		quarantines:      counter("nstance_records_quarantined_total", "Records that could not be read."),
		addressFailures:  counter("nstance_leader_address_failures_total", "Failed tries to move the leader's address here."),
		streams:          gauge("nstance_agent_streams", "Agents connected."),
		reports:          counter("nstance_agent_reports_total", "Reports accepted."),
		registrations:    counterVec("nstance_registrations_total", "Registrations by outcome.", "role", "outcome"),
		certificates:     counterVec("nstance_certificates_issued_total", "Certificates issued.", "role"),
		thefts:           counterVec("nstance_identity_alarms_total", "Signs that somebody poses as an instance.", "sign"),
		decisions:        counterVec("nstance_decisions_total", "Decisions by action, cause and what held them back.", "action", "cause", "held_by"),
		silence:          gauge("nstance_verdicts_suspended", "1 while nobody is found sick for missing reports, because most agents fell silent at once."),
		strayAcks:        counter("nstance_stray_drain_acks_total", "Drains acknowledged of instances that nobody had condemned."),
	}
	m.supply = supply.NewMetrics(reg)
	if reg != nil {
		reg.MustRegister(m.collectors()...)
	}
	m.registry = reg
	return m
}

// observe has the groups and instances of a shard counted along.
func (m *Metrics) observe(s *Shard) {
	if m.registry != nil {
		m.registry.MustRegister(census{s})
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.reconcileSeconds, m.providerSeconds, m.providerErrors, m.createSeconds, m.deleteSeconds, m.creates, m.createFailures, m.imageLookups, m.balancerErrors,
		m.orphans, m.heldVMs, m.deletesHeld, m.dynamicHeld, m.quarantines, m.addressFailures,
		m.streams, m.reports, m.registrations, m.certificates, m.thefts, m.decisions, m.strayAcks, m.silence,
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

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func (m *Metrics) reconciled(took time.Duration) { m.reconcileSeconds.Observe(took.Seconds()) }

func (m *Metrics) providerCall(op string, took time.Duration, err error) {
	m.providerSeconds.WithLabelValues(op).Observe(took.Seconds())
	if err != nil && !driver.IsNotFound(err) {
		m.providerErrors.WithLabelValues(op, string(driver.KindOf(err))).Inc()
	}
}

func (m *Metrics) created(took time.Duration) {
	m.creates.WithLabelValues("ok").Inc()
	m.createSeconds.Observe(took.Seconds())
}

func (m *Metrics) deleted(took time.Duration) { m.deleteSeconds.Observe(took.Seconds()) }

func (m *Metrics) createFailed(group fleet.GroupID, kind driver.Kind) {
	m.creates.WithLabelValues(string(kind)).Inc()
	m.createFailures.WithLabelValues(group.Tenant, group.Name, string(kind)).Inc()
}

func (m *Metrics) imageLookedUp(err error) { m.imageLookups.WithLabelValues(resultOf(err)).Inc() }

func (m *Metrics) balancerFailed(op string, kind driver.Kind) {
	m.balancerErrors.WithLabelValues(op, string(kind)).Inc()
}

// resultOf is the label of a call's outcome.
func resultOf(err error) string {
	if err == nil {
		return "ok"
	}
	return string(driver.KindOf(err))
}

// groupGone drops the series of a group, so that no flood of names grows them.
func (m *Metrics) groupGone(group fleet.GroupID) {
	m.createFailures.DeletePartialMatch(prometheus.Labels{"tenant": group.Tenant, "group": group.Name})
}

// decided counts a decision that is news.
func (m *Metrics) decided(d decisions.Decision) {
	m.decisions.WithLabelValues(d.Action, d.Cause, string(d.By)).Add(float64(d.Count))
}

func (m *Metrics) quarantined()   { m.quarantines.Inc() }
func (m *Metrics) addressFailed() { m.addressFailures.Inc() }

func (m *Metrics) registration(role, outcome string) {
	m.registrations.WithLabelValues(role, outcome).Inc()
}

func (m *Metrics) issued(role string) { m.certificates.WithLabelValues(role).Inc() }

func (m *Metrics) groupsHeld(held bool) { set(m.dynamicHeld, held) }

func set(g prometheus.Gauge, on bool) {
	if on {
		g.Set(1)
	} else {
		g.Set(0)
	}
}

func (m *Metrics) alarm(sign theft) { m.thefts.WithLabelValues(sign.label()).Inc() }
