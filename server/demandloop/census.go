package demandloop

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/demand"
)

// gauges are counted at each scrape, by the loop that runs then: a cycle pays nothing for them.
type gauges struct{ count atomic.Pointer[count] }

// count counts what there is; false: there was no answer in time.
type count func(context.Context) (demand.Census, bool)

var (
	machinesDesc = prometheus.NewDesc("nstance_demand_machines", "Machines of demand mode, by state and capacity type.", []string{"state", "capacity_type"}, nil)
	needsDesc    = prometheus.NewDesc("nstance_demand_needs", "Needs of a cluster.", []string{"tenant"}, nil)
	spendDesc    = prometheus.NewDesc("nstance_demand_hourly_spend_micro_usd", "What the machines of a cluster cost an hour, in millionths of a dollar.", []string{"tenant"}, nil)
	heldDesc     = prometheus.NewDesc("nstance_demand_rollup_quarantined", "1 while the last roll-up of a cluster is held, because it takes away most of what was asked for.", []string{"tenant"}, nil)
	shortDesc    = prometheus.NewDesc("nstance_demand_shortfalls", "Needs that have less than they ask for.", nil, nil)
	agedDesc     = prometheus.NewDesc("nstance_demand_shortfalls_aged", "Needs that are short for at least so many seconds.", []string{"seconds"}, nil)
)

// Describe implements [prometheus.Collector].
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{machinesDesc, needsDesc, spendDesc, heldDesc, shortDesc, agedDesc} {
		out <- d
	}
}

// Collect implements [prometheus.Collector]. Without a loop there is nothing.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	census := g.count.Load()
	if census == nil {
		return
	}
	c, ok := (*census)(context.Background())
	if !ok {
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for kind, n := range c.Machines {
		gauge(machinesDesc, float64(n), kind.State.String(), string(kind.CapacityType))
	}
	for _, cluster := range c.Clusters {
		held := 0.0
		if cluster.Quarantined {
			held = 1
		}
		gauge(needsDesc, float64(cluster.Needs), cluster.Name)
		gauge(spendDesc, float64(cluster.Spend), cluster.Name)
		gauge(heldDesc, held, cluster.Name)
	}
	gauge(shortDesc, float64(c.Short))
	for i, n := range c.Aged {
		gauge(agedDesc, float64(n), strconv.FormatInt(demand.Ages[i], 10))
	}
}
