// Package metrics counts what the operator does, under the names that the dashboard and
// the alert rules use.
//
// [Metrics] is what is counted as it happens; [Objects] is read from objects at each
// scrape. Labels have few values: shards, pools and fixed words, and never an instance's
// id. Metrics of controllers, work queues and clients of the API server come from
// controller-runtime.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/operator/shards"
)

const prefix = "nstance_operator_"

// states are all values of the label state.
var states = []shards.State{shards.Connecting, shards.Syncing, shards.Ready, shards.Degraded, shards.Unreachable}

// Metrics counts. It is safe for concurrent use; New makes one.
type Metrics struct {
	shardState     *prometheus.GaugeVec
	calls          *prometheus.HistogramVec
	restarts       *prometheus.CounterVec
	foreign        prometheus.Counter
	reloads        *prometheus.CounterVec
	providerErrors *prometheus.CounterVec
	certificate    prometheus.Gauge
	token          prometheus.Gauge
}

// New returns metrics that a registry shows.
func New(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	m := &Metrics{
		shardState: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "shard_state", Help: "1 for the state that the connection to a shard is in, 0 for the others.",
		}, []string{"shard", "state"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "shard_rpc_duration_seconds", Help: "Duration of calls to shards.",
			Buckets:                     []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
			NativeHistogramBucketFactor: 1.1,
		}, []string{"shard", "rpc", "code"}),
		restarts:       counter("stream_restarts_total", "Streams from shards that ended and were opened again.", "shard", "stream", "reason"),
		reloads:        counter("config_reload_total", "Changes of the configuration, by whether they were applied.", "result"),
		providerErrors: counter("provider_errors_total", "Errors of providers that shards have reported.", "shard", "class"),
		foreign: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "foreign_tenant_total", Help: "Messages from shards about another tenant, which were dropped.",
		}),
		certificate: gauge("certificate_expiry_seconds", "When the operator's certificate ends, in seconds since 1970."),
		token:       gauge("kubeconfig_token_expiry_seconds", "When the token of Cluster API's kubeconfig ends, in seconds since 1970."),
	}
	registry.MustRegister(m.shardState, m.calls, m.restarts, m.reloads, m.providerErrors, m.foreign, m.certificate, m.token)
	return m
}

// Observer returns what the connections report to.
func (m *Metrics) Observer() shards.Observer {
	return shards.Observer{
		Call: func(shard, method, code string, took time.Duration) {
			m.calls.WithLabelValues(shard, method, code).Observe(took.Seconds())
		},
		Restart:       func(shard, stream, reason string) { m.restarts.WithLabelValues(shard, stream, reason).Inc() },
		ForeignTenant: func(string) { m.foreign.Inc() },
	}
}

// ShardState notes the state that a shard's connection is in.
func (m *Metrics) ShardState(shard string, state shards.State) {
	for _, s := range states {
		value := 0.0
		if s == state {
			value = 1
		}
		m.shardState.WithLabelValues(shard, string(s)).Set(value)
	}
}

// ShardRemoved forgets a shard that is no longer in the configuration.
func (m *Metrics) ShardRemoved(shard string) {
	labels := prometheus.Labels{"shard": shard}
	m.shardState.DeletePartialMatch(labels)
	m.calls.DeletePartialMatch(labels)
	m.restarts.DeletePartialMatch(labels)
	m.providerErrors.DeletePartialMatch(labels)
}

// Reloaded notes what has become of a changed configuration.
func (m *Metrics) Reloaded(applied bool) {
	result := "rejected"
	if applied {
		result = "applied"
	}
	m.reloads.WithLabelValues(result).Inc()
}

// errorClasses are the classes that servers know. Others are one, so that a server cannot
// make labels.
var errorClasses = map[string]bool{
	"capacity": true, "quota": true, "throttled": true, "invalid": true, "auth": true, "not-found-ref": true,
	"registration-timeout": true, "image": true, "lb": true,
}

// ProviderError notes an error that a shard has reported.
func (m *Metrics) ProviderError(shard, class string) {
	if !errorClasses[class] {
		class = "other"
	}
	m.providerErrors.WithLabelValues(shard, class).Inc()
}

// CertificateUntil notes when the operator's certificate ends.
func (m *Metrics) CertificateUntil(end time.Time) { m.certificate.Set(float64(end.Unix())) }

// TokenUntil notes when the token of the kubeconfig ends.
func (m *Metrics) TokenUntil(end time.Time) { m.token.Set(float64(end.Unix())) }
