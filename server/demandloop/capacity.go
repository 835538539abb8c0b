package demandloop

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
)

// capacityPause is how long an operator is told nothing new about one profile.
const capacityPause = 5 * time.Second

// advertise tells the operator of a cluster what could be had for each profile that it asks for, as far
// as that is news, and returns when there may be more to tell; zero: no time is known.
func (c framing) advertise(cluster *cluster) (again time.Time) {
	if !cluster.live() {
		return time.Time{}
	}
	if next := cluster.probed.Add(capacityPause); c.now.Before(next) {
		return next
	}
	cluster.probed = c.now
	terms, seen := cluster.profiles(), map[string]bool{}
	for _, have := range c.engine.Capacities(cluster.name) {
		seen[have.Fingerprint] = true
		m := Capacity{
			Fingerprint: have.Fingerprint, Terms: terms[have.Fingerprint], Confidence: Confidence(have.Confidence),
			Available: have.Count, CostMicroUSD: have.PricePerHour, Shortfall: vector.Sum(append(c.engine.Amounts(&have.Deficit), have.Unoffered...)),
		}
		if len(m.Shortfall) > 0 {
			m.Since, m.Reason = time.UnixMilli(have.Since).UTC(), have.Reason
		}
		if last, ok := cluster.capacities[have.Fingerprint]; !ok || !reflect.DeepEqual(last, m) {
			cluster.capacities[have.Fingerprint] = m
			cluster.tell(m)
		}
	}
	for _, fingerprint := range slices.Sorted(maps.Keys(cluster.capacities)) {
		if !seen[fingerprint] {
			delete(cluster.capacities, fingerprint)
			cluster.tell(Capacity{Fingerprint: fingerprint, Withdrawn: true})
		}
	}
	return time.Time{}
}

// answer tells operators what became of their roll-ups.
func (c framing) answer(answers []demand.Answer) {
	for _, a := range answers {
		cluster := c.clusters[a.Cluster]
		m := RollupAnswer{Sequence: a.Sequence, Quarantined: a.Quarantined}
		if a.Quarantined {
			m.Detail = "it takes away most of what the cluster asked for before; it counts once it was sent three times in a row, the first time 20 seconds ago or earlier"
			c.opts.Log.Warn("roll-up held", "cluster", a.Cluster, "sequence", a.Sequence, "reason", m.Detail)
		} else if cluster != nil && cluster.pending != nil {
			cluster.rows, cluster.pending = cluster.pending, nil
		}
		c.opts.Metrics.rollup(a.Cluster, a.Quarantined)
		cluster.tell(m)
	}
}
