package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"nstance.dev/operator/metrics"
)

// A session that is opened again shows as a growth from zero, also the first of a shard.
func TestSessionsAreCountedFromZero(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	d := metrics.NewDemand(registry)
	for _, shard := range []string{"a", "b", "gone"} {
		d.ShardAdded(shard)
	}
	d.Reconnect("b")
	d.ShardRemoved("gone")
	want := `
# HELP nstance_demand_operator_reconnects_total Sessions with a shard that ended or did not begin, and were opened again.
# TYPE nstance_demand_operator_reconnects_total counter
nstance_demand_operator_reconnects_total{shard="a"} 0
nstance_demand_operator_reconnects_total{shard="b"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "nstance_demand_operator_reconnects_total"); err != nil {
		t.Error(err)
	}
}
