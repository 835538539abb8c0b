package rpc

import (
	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/demandapi"
)

// Metrics count the calls by service, method and code. Their labels are bounded
// by the API: calls of unknown methods are not counted.
type Metrics struct {
	server *grpcprom.ServerMetrics
	demand *demandapi.Metrics
}

// NewMetrics makes the metrics of all listeners and registers them; a nil
// registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{server: grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(
		grpcprom.WithHistogramBuckets(prometheus.ExponentialBuckets(0.001, 4, 9)),
	)), demand: demandapi.NewMetrics(reg)}
	if reg != nil {
		reg.MustRegister(m.server)
	}
	return m
}
