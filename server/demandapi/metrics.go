package demandapi

import "github.com/prometheus/client_golang/prometheus"

// Metrics count the sessions of a process. They are safe for concurrent use; [NewMetrics] makes them.
type Metrics struct {
	sessions   prometheus.Gauge
	identities prometheus.Counter
	rejected   *prometheus.CounterVec // roll-ups
	ignored    *prometheus.CounterVec // other messages
	dropped    *prometheus.CounterVec // messages to operators
}

// NewMetrics makes the metrics and registers them; a nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		sessions:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "nstance_demand_sessions", Help: "Operators of clusters that are connected."}),
		identities: prometheus.NewCounter(prometheus.CounterOpts{Name: "nstance_demand_identity_rejected_total", Help: "Sessions whose hello did not agree with the certificate."}),
		rejected:   counters("nstance_demand_rollups_rejected_total", "Roll-ups that were invalid or incomplete; the one before stayed in force.", "tenant"),
		ignored:    counters("nstance_demand_messages_ignored_total", "Invalid messages of operators that were dropped.", "kind"),
		dropped:    counters("nstance_demand_messages_dropped_total", "Messages to operators that were dropped because too many waited; they are sent again.", "kind"),
	}
	if reg != nil {
		reg.MustRegister(m.sessions, m.identities, m.rejected, m.ignored, m.dropped)
	}
	return m
}

func counters(name, help, label string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
}
