package keyring

import "github.com/prometheus/client_golang/prometheus"

// metric tells Prometheus when the certificate ends that everything is signed with.
type metric struct {
	of   *Keyring
	ends *prometheus.Desc
}

// Metric returns when the authority's certificate ends that this server signs with, in
// seconds since 1970, with the cluster's name as a label: servers that have not started
// since it was made again still have the one before. It has no value until the keys are
// there.
func (k *Keyring) Metric() prometheus.Collector {
	return metric{k, prometheus.NewDesc("nstance_authority_end_timestamp_seconds",
		"When the authority's certificate ends that this server signs with, in seconds since 1970.",
		nil, prometheus.Labels{"cluster": k.cluster})}
}

// Describe implements [prometheus.Collector].
func (m metric) Describe(out chan<- *prometheus.Desc) { out <- m.ends }

// Collect implements [prometheus.Collector].
func (m metric) Collect(out chan<- prometheus.Metric) {
	keys := m.of.Current()
	if keys == nil {
		return
	}
	end := keys.Authority.CA().Certificate().NotAfter
	out <- prometheus.MustNewConstMetric(m.ends, prometheus.GaugeValue, float64(end.Unix()))
}
