package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var byAnswer = Label{"result", []string{"rendered", "failed"}}

// The metrics of what makes machines join, in demand mode.
var (
	bootstrapBlobs    = Metric{"demand_operator_bootstrap_blobs_total", Counter, []Label{byAnswer}, "Requests for what makes a machine join that were answered, by whether the template could be rendered.", nil}
	bootstrapReloads  = Metric{"demand_operator_bootstrap_template_reloads_total", Counter, []Label{byReload}, "Changes of the bootstrap template, by whether they were applied.", nil}
	bootstrapRejected = Metric{"demand_operator_bootstrap_template_rejected", Gauge, nil, "1 while the file of the bootstrap template cannot be used and the one before is in force.", nil}
	joinTokenFailures = Metric{"demand_operator_join_token_failures_total", Counter, nil, "Join tokens that could not be made; each is tried again.", nil}
	joinTokenEnd      = Metric{"demand_operator_join_token_expiry_seconds", Gauge, nil, "When the newest join token ends, in seconds since 1970.", nil}
)

// DemandBootstrap returns the metrics of what makes machines join.
func DemandBootstrap() []Metric {
	return []Metric{bootstrapBlobs, bootstrapReloads, bootstrapRejected, joinTokenFailures, joinTokenEnd}
}

// Bootstrap counts what makes machines join. It is safe for concurrent use; NewBootstrap makes
// one.
type Bootstrap struct {
	blobs, reloads, failures *prometheus.CounterVec
	rejected, tokenEnd       *prometheus.GaugeVec
}

// NewBootstrap returns metrics that a registry shows.
func NewBootstrap(registry prometheus.Registerer) *Bootstrap {
	b := &Bootstrap{
		blobs: bootstrapBlobs.counter(), reloads: bootstrapReloads.counter(), failures: joinTokenFailures.counter(),
		rejected: bootstrapRejected.gauge(), tokenEnd: joinTokenEnd.gauge(),
	}
	registry.MustRegister(b.blobs, b.reloads, b.failures, b.rejected, b.tokenEnd)
	return b
}

// Rendered notes an answer to a shard.
func (b *Bootstrap) Rendered(ok bool) { b.blobs.WithLabelValues(either(ok, byAnswer)).Inc() }

// Reloaded notes what has become of a changed template.
func (b *Bootstrap) Reloaded(ok bool) { b.reloads.WithLabelValues(either(ok, byReload)).Inc() }

// Rejected notes whether the file is another one than what is in force.
func (b *Bootstrap) Rejected(yes bool) {
	value := 0.0
	if yes {
		value = 1
	}
	b.rejected.WithLabelValues().Set(value)
}

// JoinToken notes until when a join token is valid that was made, that none could be made, or,
// where until is zero, that there is none.
func (b *Bootstrap) JoinToken(until time.Time, err error) {
	switch {
	case err != nil:
		b.failures.WithLabelValues().Inc()
	case until.IsZero():
		b.tokenEnd.Reset()
	default:
		b.tokenEnd.WithLabelValues().Set(float64(until.Unix()))
	}
}

// either is the first value of a label for what went well, and the second for what did not.
func either(ok bool, l Label) string {
	if ok {
		return l.Values[0]
	}
	return l.Values[1]
}
