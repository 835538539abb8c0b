package lease

import "github.com/prometheus/client_golang/prometheus"

// metrics tell Prometheus how one server sees a lease. Each server of a shard has a view of its own, so that what the
// others see is known when the leader is gone.
type metrics struct {
	of *Elector

	leading, age, length, term *prometheus.Desc
}

// Metrics returns the measurements of a shard's lease as this server sees it, with the names of cluster and shard
// as labels: whether nobody leads is a question to all servers of a shard. Ages are by the clock of leases, so they do
// not depend on what time it is.
func (e *Elector) Metrics(cluster, shard string) prometheus.Collector {
	names := prometheus.Labels{"cluster": cluster, "shard": shard}
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, names) }
	return metrics{
		of:      e,
		leading: desc("nstance_leading", "1 while this server leads the shard, proved by its lease."),
		age:     desc("nstance_lease_age_seconds", "Time since the shard's lease was renewed, as far as this server knows."),
		length:  desc("nstance_lease_duration_seconds", "Age at which the shard's lease has run out."),
		term:    desc("nstance_lease_term", "Highest term of the shard that this server knows; it grows with each change of leader."),
	}
}

// Describe implements [prometheus.Collector].
func (m metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.leading, m.age, m.length, m.term} {
		out <- d
	}
}

// Collect implements [prometheus.Collector]. A server that has seen no lock yet knows no term.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	now := m.of.renewal()
	leading := 0.0
	if now.leading {
		leading = 1
	}
	gauge(m.leading, leading)
	gauge(m.age, now.age.Seconds())
	gauge(m.length, now.lease.Seconds())
	if now.term > 0 {
		gauge(m.term, float64(now.term))
	}
}
