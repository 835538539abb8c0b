package hosts

import "github.com/prometheus/client_golang/prometheus"

// Metrics count what hosts were told and what they report.
type Metrics struct {
	calls       *prometheus.CounterVec
	sent        *prometheus.CounterVec
	statuses    *prometheus.CounterVec
	unreadable  prometheus.Counter
	assignments *prometheus.GaugeVec
}

// NewMetrics makes the metrics and registers them; a nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nstance_machine_assignment_calls_total",
			Help: "Calls of operators about assignments, by operation (put, delete, confirm) and result (stored, repeated, refused, failed).",
		}, []string{"operation", "result"}),
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nstance_machine_work_sent_total", Help: "Messages about node machines sent to agents, by kind (assignment, credential, confirmation).",
		}, []string{"kind"}),
		statuses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nstance_machine_statuses_total", Help: "Reports of hosts about their node machines, by result (taken, too_large).",
		}, []string{"result"}),
		unreadable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nstance_machine_assignments_unreadable_total", Help: "Stored assignments that could not be understood and were left alone.",
		}),
		assignments: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nstance_machine_assignments", Help: "Stored assignments, by state: waiting or confirmed.",
		}, []string{"state"}),
	}
	if reg != nil {
		reg.MustRegister(m.calls, m.sent, m.statuses, m.unreadable, m.assignments)
	}
	return m
}

func (m *Metrics) called(call, result string) { m.calls.WithLabelValues(call, result).Inc() }

// moved counts an assignment whose state has changed; empty: there is none.
func (m *Metrics) moved(before, after string) {
	if before == after {
		return
	}
	if before != "" {
		m.assignments.WithLabelValues(before).Dec()
	}
	if after != "" {
		m.assignments.WithLabelValues(after).Inc()
	}
}

// over forgets what was counted of a term that is over.
func (m *Metrics) over() { m.assignments.Reset() }
