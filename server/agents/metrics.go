package agents

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the measurements of agents. Labels are outcomes and signs, which are few.
type Metrics struct {
	streams       prometheus.Gauge
	reports       prometheus.Counter
	registrations *prometheus.CounterVec
	certificates  *prometheus.CounterVec
	thefts        *prometheus.CounterVec
}

// The signs of theft, as the metric has them.
const (
	labelUsedNonce  = "used-nonce"
	labelSuperseded = "superseded-certificate"
	labelForeignKey = "foreign-key"
	labelNewKey     = "renewal-with-another-key"
)

// NewMetrics makes the metrics and registers them; a nil registerer leaves them
// unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	role := prometheus.Labels{"role": "agent"}
	certificates := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nstance_certificates_issued_total", Help: "Certificates issued.",
	}, []string{"role"})
	registrations := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nstance_registrations_total", Help: "Registrations by outcome.",
	}, []string{"role", "outcome"})
	m := &Metrics{
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "nstance_agent_streams", Help: "Agents connected."}),
		reports: prometheus.NewCounter(prometheus.CounterOpts{Name: "nstance_agent_reports_total", Help: "Reports accepted."}),
		thefts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nstance_identity_alarms_total", Help: "Signs that an impostor poses as an instance.",
		}, []string{"sign"}),
		registrations: registrations.MustCurryWith(role), certificates: certificates.MustCurryWith(role),
	}
	// At zero, so that the first one shows as a growth, which is what alerts ask for.
	for _, sign := range []string{labelUsedNonce, labelSuperseded, labelForeignKey, labelNewKey} {
		m.thefts.WithLabelValues(sign)
	}
	for _, outcome := range []string{"accepted", "refused", "failed"} {
		m.registrations.WithLabelValues(outcome)
	}
	if reg != nil {
		reg.MustRegister(m.streams, m.reports, registrations, certificates, m.thefts)
	}
	return m
}

func (m *Metrics) connected(streams int)     { m.streams.Set(float64(streams)) }
func (m *Metrics) issued()                   { m.certificates.WithLabelValues().Inc() }
func (m *Metrics) registered(outcome string) { m.registrations.WithLabelValues(outcome).Inc() }
func (m *Metrics) alarm(sign string)         { m.thefts.WithLabelValues(sign).Inc() }
