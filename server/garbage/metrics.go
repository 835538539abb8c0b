package garbage

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the measurements of listings. They have no labels.
type Metrics struct {
	orphans prometheus.Counter
}

// NewMetrics makes the metrics and registers them; a nil registerer leaves them
// unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		orphans: prometheus.NewCounter(prometheus.CounterOpts{Name: "nstance_orphans_deleted_total", Help: "Machines deleted because their instance had ended."}),
	}
	if reg != nil {
		reg.MustRegister(m.orphans)
	}
	return m
}
