package shard

import (
	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/fleet"
)

// census tells Prometheus how many of what there are, and what a leader has alarms about.
// It counts when it is asked, so that nothing has to be kept in step, and nothing goes on
// that the next leader has settled: a standby has nothing to count.
type census struct{ s *Shard }

// observe has the groups and instances of a shard counted along with its metrics.
func (s *Shard) observe() {
	if registry := s.opts.Metrics.registry; registry != nil {
		registry.MustRegister(census{s})
	}
}

var (
	instancesDesc = prometheus.NewDesc("nstance_instances", "Instances by group and status, deleted ones left out.",
		[]string{"tenant", "group", "status"}, nil)
	groupSizeDesc = prometheus.NewDesc("nstance_group_size", "Wanted instances of a group.", []string{"tenant", "group"}, nil)
	unmanagedDesc = prometheus.NewDesc("nstance_unmanaged_vms", "Machines with our tags and without a readable record: reported, never deleted.", nil, nil)
	heldVMsDesc   = prometheus.NewDesc("nstance_held_vms", "The same as nstance_unmanaged_vms, under its name of before.", nil, nil)
	deletesDesc   = prometheus.NewDesc("nstance_deletes_held", "1 while deletes are stopped because the provider's list misses too many known machines.", nil, nil)
	waitingDesc   = prometheus.NewDesc("nstance_dynamic_groups_held", "1 while the group file cannot be read, or groups rebuilt after its loss wait to be confirmed.", nil, nil)
	silenceDesc   = prometheus.NewDesc("nstance_verdicts_suspended", "1 while no instance is found unhealthy for missing reports, because most agents fell silent at once.", nil, nil)
	groupsDesc    = prometheus.NewDesc("nstance_groups", "Groups by condition; one may have several.", []string{"condition"}, nil)
)

// Describe implements [prometheus.Collector].
func (c census) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{instancesDesc, groupSizeDesc, groupsDesc, unmanagedDesc, heldVMsDesc, deletesDesc, waitingDesc, silenceDesc} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c census) Collect(out chan<- prometheus.Metric) {
	r, err := c.s.Term()
	if err != nil {
		return
	}
	type place struct {
		group  fleet.GroupID
		status string
	}
	instances := map[place]int{}
	for _, in := range r.planner.cache.All() {
		if in.State != fleet.Deleted {
			instances[place{in.Group, fleet.Status(in.Instance)}]++
		}
	}
	for at, n := range instances {
		out <- gaugeOf(instancesDesc, n, at.group.Tenant, at.group.Name, at.status)
	}
	for id, eff := range r.planner.groups.All() {
		out <- gaugeOf(groupSizeDesc, eff.Size, id.Tenant, id.Name)
	}
	for condition, n := range r.planner.status.Summaries.Count() {
		out <- gaugeOf(groupsDesc, n, condition)
	}
	unmanaged := len(r.Unmanaged())
	out <- gaugeOf(unmanagedDesc, unmanaged)
	out <- gaugeOf(heldVMsDesc, unmanaged)
	out <- alarmOf(deletesDesc, r.planner.collector.Alarm() != "")
	out <- alarmOf(waitingDesc, r.planner.groups.Waiting())
	out <- alarmOf(silenceDesc, r.planner.liveness.Silence() != "")
}

func alarmOf(desc *prometheus.Desc, on bool) prometheus.Metric {
	if on {
		return gaugeOf(desc, 1)
	}
	return gaugeOf(desc, 0)
}

func gaugeOf(desc *prometheus.Desc, n int, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels...)
}
