package hosts

import "github.com/prometheus/client_golang/prometheus"

// Metrics count what hosts were told and what they report.
type Metrics struct {
	calls       *prometheus.CounterVec
	holds       *prometheus.CounterVec
	operations  *prometheus.CounterVec
	ended       *prometheus.CounterVec
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
			Help: "Calls of operators about assignments, by operation (put, delete, confirm, prebuild) and result (stored, repeated, refused, failed).",
		}, []string{"operation", "result"}),
		holds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nstance_hold_calls_total", Help: "Calls of operators about holds of instances, by operation (set, clear) and result (done, refused, failed).",
		}, []string{"operation", "result"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nstance_operation_calls_total", Help: "Calls of operators about operations, by operation (start, get, cancel) and result (done, refused, failed).",
		}, []string{"operation", "result"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nstance_operations_total", Help: "Power operations that are over, by operation (powerOn, powerOff, powerCycle) and state (Complete, Failed).",
		}, []string{"operation", "state"}),
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nstance_machine_work_sent_total", Help: "Messages about node machines sent to agents, by kind (assignment, credential, confirmation, prebuild, operation, cancellation, logs).",
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
		reg.MustRegister(m.calls, m.holds, m.operations, m.ended, m.sent, m.statuses, m.unreadable, m.assignments)
	}
	return m
}

func (m *Metrics) called(call, result string) { m.calls.WithLabelValues(call, result).Inc() }

func (m *Metrics) held(call, result string) { m.holds.WithLabelValues(call, result).Inc() }

func (m *Metrics) operated(call, result string) { m.operations.WithLabelValues(call, result).Inc() }

func (m *Metrics) operationEnded(name, state string) { m.ended.WithLabelValues(name, state).Inc() }

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
