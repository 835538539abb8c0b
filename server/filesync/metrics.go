package filesync

import "github.com/prometheus/client_golang/prometheus"

// Metrics count what was brought to machines. Labels are the kinds of files.
type Metrics struct {
	files        *prometheus.CounterVec
	failures     *prometheus.CounterVec
	commits      prometheus.Counter
	certificates prometheus.Counter
}

// NewMetrics makes the metrics and registers them; a nil registerer leaves them
// unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		files: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nstance_files_sent_total", Help: "Files sent to machines, by kind.",
		}, []string{"kind"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nstance_file_failures_total", Help: "Files that could not be made, or that a machine could not put in place, by kind.",
		}, []string{"kind"}),
		commits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nstance_file_commits_total", Help: "Batches of files that machines were told to apply.",
		}),
		certificates: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nstance_file_certificates_issued_total", Help: "Certificates issued for services on machines.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.files, m.failures, m.commits, m.certificates)
	}
	return m
}

func (m *Metrics) pushed(kind string) { m.files.WithLabelValues(kind).Inc() }
func (m *Metrics) failed(kind string) { m.failures.WithLabelValues(kind).Inc() }
func (m *Metrics) committed()         { m.commits.Inc() }
func (m *Metrics) issued(n int)       { m.certificates.Add(float64(n)) }
