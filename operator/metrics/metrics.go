// Package metrics counts what the operator does, under the names that the dashboard and
// the alert rules use.
//
// catalogue.go has every metric, with what its labels may be; the page of the documentation
// comes from it. [Metrics] is what is counted as it happens, [Objects] is read from objects
// at each scrape, and [Growth] times how long pools take to grow. Labels have few values:
// shards, groups, pools and fixed words, and never an instance's id. Metrics of
// controllers, work queues and clients of the API server come from controller-runtime.
//
// All replicas count, and only the leader has something to count: for the others a gauge
// that was never set is absent, and is not taken for zero.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"nstance.dev/operator/shards"
)

// Metrics counts. It is safe for concurrent use; New makes one.
type Metrics struct {
	shardState, drainBlocked, certificateStart, certificateEnd, tokenEnd                         *prometheus.GaugeVec
	calls, timeToReady, drainDuration, drainSlack, onDemandReady                                 *prometheus.HistogramVec
	restarts, foreign, providerErrors, redirected, drainPods, acknowledged, leaked, configReload *prometheus.CounterVec
}

// New returns metrics that a registry shows.
func New(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		shardState: shardState.gauge(), calls: calls.histogram(), restarts: restarts.counter(),
		foreign: foreign.counter(), providerErrors: providerErrors.counter(),
		timeToReady: timeToReady.histogram(), redirected: redirected.counter(),
		drainDuration: drainDuration.histogram(), drainSlack: drainSlack.histogram(), drainPods: drainPods.counter(),
		drainBlocked: drainBlocked.gauge(), acknowledged: acks.counter(),
		onDemandReady: onDemandReady.histogram(), leaked: leaked.counter(),
		configReload: configReloads.counter(), certificateStart: certificateStart.gauge(), certificateEnd: certificateEnd.gauge(),
		tokenEnd: tokenEnd.gauge(),
	}
	registry.MustRegister(
		m.shardState, m.drainBlocked, m.certificateStart, m.certificateEnd, m.tokenEnd,
		m.calls, m.timeToReady, m.drainDuration, m.drainSlack, m.onDemandReady,
		m.restarts, m.foreign, m.providerErrors, m.redirected, m.drainPods, m.acknowledged, m.leaked, m.configReload,
	)
	return m
}

// Observer returns what the connections report to.
func (m *Metrics) Observer() shards.Observer {
	return shards.Observer{
		Call: func(shard, method, code string, took time.Duration) {
			m.calls.WithLabelValues(shard, method, code).Observe(took.Seconds())
		},
		Restart:       func(shard, stream, reason string) { m.restarts.WithLabelValues(shard, stream, reason).Inc() },
		ForeignTenant: func(string) { m.foreign.WithLabelValues().Inc() },
	}
}

// ShardState notes the state that a shard's connection is in.
func (m *Metrics) ShardState(shard string, state shards.State) {
	for _, s := range byState.Values {
		value := 0.0
		if s == string(state) {
			value = 1
		}
		m.shardState.WithLabelValues(shard, s).Set(value)
	}
}

// ShardRemoved forgets a shard that is no longer in the configuration.
func (m *Metrics) ShardRemoved(shard string) {
	labels := prometheus.Labels{byShard.Name: shard}
	m.shardState.DeletePartialMatch(labels)
	m.calls.DeletePartialMatch(labels)
	m.restarts.DeletePartialMatch(labels)
	m.providerErrors.DeletePartialMatch(labels)
	m.redirected.DeletePartialMatch(labels)
}

// ProviderError notes an error that a shard has reported.
func (m *Metrics) ProviderError(shard, class string) {
	m.providerErrors.WithLabelValues(shard, known(byErrorClass, class)).Inc()
}

// PoolReady notes how long a pool has taken to grow.
func (m *Metrics) PoolReady(took time.Duration) {
	m.timeToReady.WithLabelValues().Observe(took.Seconds())
}

// GrowthRedirected notes that a group grew elsewhere in a shard's stead; class is one of the
// label's values.
func (m *Metrics) GrowthRedirected(group, shard, class string) {
	m.redirected.WithLabelValues(group, shard, class).Inc()
}

// Drained notes a drain that has ended: how long it took, how long before its deadline that
// was, nil for none, and how many Pods have stayed.
func (m *Metrics) Drained(reason string, forced bool, took time.Duration, slack *time.Duration, left int) {
	result := "emptied"
	if forced {
		result = "forced"
	}
	m.drainDuration.WithLabelValues(known(byDrainReason, reason), result).Observe(took.Seconds())
	if slack != nil {
		m.drainSlack.WithLabelValues().Observe(slack.Seconds())
	}
	m.drainPods.WithLabelValues("lost").Add(float64(left))
}

// PodMoved notes a Pod that has left a Node, by eviction or by force.
func (m *Metrics) PodMoved(forced bool) {
	result := "evicted"
	if forced {
		result = "forced"
	}
	m.drainPods.WithLabelValues(result).Inc()
}

// DrainBlocked notes for how long a drain has waited for disruption budgets; zero: none does.
func (m *Metrics) DrainBlocked(longest time.Duration) {
	m.drainBlocked.WithLabelValues().Set(longest.Seconds())
}

// Acknowledged notes the answer of a shard that was told that a Node is empty.
func (m *Metrics) Acknowledged(code codes.Code) { m.acknowledged.WithLabelValues(code.String()).Inc() }

// OnDemandReady notes how long a Pod has waited for the Node that it asked for.
func (m *Metrics) OnDemandReady(took time.Duration) {
	m.onDemandReady.WithLabelValues().Observe(took.Seconds())
}

// Leaked notes an instance that a person gave up.
func (m *Metrics) Leaked() { m.leaked.WithLabelValues().Inc() }

// Reloaded notes what has become of a changed configuration.
func (m *Metrics) Reloaded(applied bool) {
	result := "rejected"
	if applied {
		result = "applied"
	}
	m.configReload.WithLabelValues(result).Inc()
}

// Certificate notes the life of the operator's certificate.
func (m *Metrics) Certificate(from, until time.Time) {
	m.certificateStart.WithLabelValues().Set(float64(from.Unix()))
	m.certificateEnd.WithLabelValues().Set(float64(until.Unix()))
}

// TokenUntil notes when the token of the kubeconfig ends.
func (m *Metrics) TokenUntil(end time.Time) { m.tokenEnd.WithLabelValues().Set(float64(end.Unix())) }
