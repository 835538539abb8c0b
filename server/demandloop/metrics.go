package demandloop

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/demand"
)

// Metrics are the measurements of a loop. Label values are bounded: kinds, reasons, states, and the
// tenants of the configuration.
type Metrics struct {
	cycle      cycles
	actions    *prometheus.CounterVec
	suppressed *prometheus.CounterVec
	outcomes   *prometheus.CounterVec
	effects    *prometheus.HistogramVec
	took       stretches
	blobs      *prometheus.HistogramVec
	failures   *prometheus.CounterVec
	capped     prometheus.Counter
	rejected   prometheus.Counter
	rollups    *prometheus.CounterVec
	refusals   prometheus.Counter
	now        *gauges
}

// cycles are how long the engine's cycles and their parts have taken, and how often a keep order was changed.
type cycles struct {
	took      prometheus.Histogram
	phases    *prometheus.HistogramVec
	reordered prometheus.Counter
}

// stretches are how long the parts of a machine's life have taken.
type stretches struct{ boots, joins, drains, firsts prometheus.Histogram }

// NewMetrics makes the metrics of loops and registers them; a nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		now: &gauges{},
		cycle: cycles{
			took:   histogram("nstance_demand_cycle_seconds", "Time that the engine took for one cycle."),
			phases: histograms("nstance_demand_cycle_phase_seconds", "Time that parts of the engine's cycles took.", "phase"),
			reordered: prometheus.NewCounter(prometheus.CounterOpts{
				Name: "nstance_demand_rerank_adopted_total", Help: "Times that the keep order of a cluster was changed, so that cheaper machines are kept.",
			}),
		},
		actions:    counters("nstance_demand_actions_total", "Actions that the engine has decided to carry out.", "kind"),
		suppressed: counters("nstance_demand_actions_suppressed_total", "Actions that were decided and not carried out.", "kind", "disposition"),
		outcomes:   counters("nstance_demand_action_outcomes_total", "Effects by what became of them.", "kind", "outcome"),
		effects:    histograms("nstance_demand_effect_seconds", "Time from the decision of an effect to its end.", "kind"),
		took: stretches{
			boots:  histogram("nstance_demand_boot_seconds", "Time from the record of a machine to its registration."),
			joins:  histogram("nstance_demand_configure_seconds", "Time from the binding of a machine to its Node being ready."),
			drains: histogram("nstance_demand_drain_seconds", "Time that drains by operators took."),
			firsts: histogram("nstance_demand_first_machine_seconds", "Time from the first roll-up with a need until the first machine that was bound for it was configured."),
		},
		blobs:    histograms("nstance_demand_bootstrap_request_seconds", "Time until an operator answered what it takes to join.", "outcome"),
		failures: counters("nstance_demand_machines_failed_total", "Machines that were given up, by cause.", "cause"),
		capped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nstance_demand_reclaims_capped_total", Help: "Machines that are given back later, because as many go already as may at once.",
		}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nstance_demand_events_rejected_total", Help: "Events that the engine refused.",
		}),
		rollups: counters("nstance_demand_rollups_total", "Roll-ups by what became of them.", "tenant", "outcome"),
		refusals: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nstance_demand_refused_reclaims_total", Help: "Drains that operators refused, or that did not end in time.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.cycle.took, m.cycle.phases, m.cycle.reordered, m.actions, m.suppressed, m.outcomes, m.effects, m.took.boots, m.took.joins, m.took.drains, m.took.firsts, m.blobs, m.failures,
			m.capped, m.rejected, m.rollups, m.refusals, m.now)
	}
	return m
}

func options(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
	}
}

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(options(name, help))
}

func histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(options(name, help), labels)
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m *Metrics) cycled(took time.Duration, r demand.Result) {
	m.cycle.took.Observe(took.Seconds())
	m.capped.Add(float64(r.Capped))
	m.rejected.Add(float64(len(r.Rejected)))
	m.cycle.reordered.Add(float64(r.Reordered))
	for _, s := range r.Served {
		m.took.firsts.Observe(s.Took.Seconds())
	}
}

func (m *Metrics) phase(name string, took time.Duration) {
	m.cycle.phases.WithLabelValues(name).Observe(took.Seconds())
}

func (m *Metrics) decided(a demand.Action) {
	if a.Disposition == demand.Execute {
		m.actions.WithLabelValues(a.Kind.String()).Inc()
		return
	}
	m.suppressed.WithLabelValues(a.Kind.String(), a.Disposition.String()).Inc()
}

func (m *Metrics) done(what, outcome string, took time.Duration) {
	m.outcomes.WithLabelValues(what, outcome).Inc()
	m.effects.WithLabelValues(what).Observe(took.Seconds())
}

func (m *Metrics) blob(outcome string, took time.Duration) {
	m.blobs.WithLabelValues(outcome).Observe(took.Seconds())
}

func (m *Metrics) rollup(cluster string, quarantined bool) {
	m.rollups.WithLabelValues(cluster, "held") // is there before one is held: an alert looks for an increase
	outcome := "accepted"
	if quarantined {
		outcome = "held"
	}
	m.rollups.WithLabelValues(cluster, outcome).Inc()
}

func (m *Metrics) failed(reason string)       { m.failures.WithLabelValues(reason).Inc() }
func (m *Metrics) booted(took time.Duration)  { m.took.boots.Observe(took.Seconds()) }
func (m *Metrics) joined(took time.Duration)  { m.took.joins.Observe(took.Seconds()) }
func (m *Metrics) drained(took time.Duration) { m.took.drains.Observe(took.Seconds()) }
func (m *Metrics) refused()                   { m.refusals.Inc() }
