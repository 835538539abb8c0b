package garbage

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the measurements of listings. They have no labels.
type Metrics struct {
	orphans      prometheus.Counter
	unmanagedVMs prometheus.Gauge
	heldVMs      prometheus.Gauge // the same, under its name of before
	deletesHeld  prometheus.Gauge
}

// NewMetrics makes the metrics and registers them; a nil registerer leaves them
// unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		orphans:      prometheus.NewCounter(prometheus.CounterOpts{Name: "nstance_orphans_deleted_total", Help: "Machines deleted because their instance had ended."}),
		unmanagedVMs: prometheus.NewGauge(prometheus.GaugeOpts{Name: "nstance_unmanaged_vms", Help: "Machines with our tags and without a readable record: reported, never deleted."}),
		heldVMs:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "nstance_held_vms", Help: "The same as nstance_unmanaged_vms, under its name of before."}),
		deletesHeld:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "nstance_deletes_held", Help: "1 while deletes are stopped because the provider's list misses too many known machines."}),
	}
	if reg != nil {
		reg.MustRegister(m.orphans, m.unmanagedVMs, m.heldVMs, m.deletesHeld)
	}
	return m
}

// listed notes what the last listing left open.
func (m *Metrics) listed(alarm bool, unmanaged int) {
	m.deletesHeld.Set(0)
	if alarm {
		m.deletesHeld.Set(1)
	}
	m.unmanaged(unmanaged)
}

// Over forgets what the listings of a term left open that is over: the next leader's count.
func (m *Metrics) Over() { m.listed(false, 0) }

func (m *Metrics) unmanaged(machines int) {
	m.unmanagedVMs.Set(float64(machines))
	m.heldVMs.Set(float64(machines))
}
