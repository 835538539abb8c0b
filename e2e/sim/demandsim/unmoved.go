package demandsim

import (
	"math"
	"slices"
	"time"

	"nstance.dev/e2e/sim/demandsim/leader"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
)

// stock is what a cycle left a cluster: the machines that count for it, and what it lacks nevertheless. As long as
// the cluster asks for the same and loses none of them, no later cycle may find that it lacks more.
type stock struct {
	known    bool
	version  int      // of what the cluster asks for
	machines []string // bound, or to be bound by what was decided
	lacks    map[demand.Key]vector.Vector
	paused   bool  // a need waits until it is tried again; it may draw nothing until then, and all that it can then
	pausedAt int32 // and this is the highest priority of these
}

// longestCooldown is for how long an offer may not be bought after a failure, and a little.
const longestCooldown = 40 * time.Minute

// remember notes what a cycle leaves each cluster.
func (o *oracle) remember(r demand.Result) {
	for _, p := range o.w.tenants {
		c := o.of(p.name)
		c.kept = stock{version: c.version, lacks: map[demand.Key]vector.Vector{}, pausedAt: math.MinInt32}
		c.kept.known = len(r.Shortfalls) == r.Short && !(c.spreads() && o.supplyMoves())
		for _, s := range r.Shortfalls {
			if s.Cluster != p.name {
				continue
			}
			c.kept.lacks[s.Need] = s.Deficit
			if s.Reason == demand.BootstrapError || s.Reason == demand.GangIncomplete || s.Reason == demand.Parked {
				c.kept.pausedAt = max(s.Priority, c.kept.pausedAt)
				c.kept.paused = true
			}
		}
		lost := map[string]bool{}
		for _, a := range r.Actions {
			switch {
			case a.Cluster != p.name:
			case a.Kind != demand.Provision && a.Kind != demand.Bootstrap:
				lost[a.Machine] = true
			case a.Disposition == demand.Execute:
				c.kept.machines = append(c.kept.machines, a.Machine)
			default:
				c.kept.known = false // it counts for the engine, and will never come
			}
		}
		for _, m := range o.w.store.Records {
			if counts(m, p.name) && !lost[m.ID] && !slices.Contains(c.kept.machines, m.ID) {
				c.kept.machines = append(c.kept.machines, m.ID)
			}
		}
	}
}

// counts says whether the machine of a record counts for a cluster.
func counts(r *leader.Record, cluster string) bool {
	return r.Bound() && r.Cluster == cluster
}

// supplyMoves says whether what can be bought changes without anything being bought for a cluster: an offer is not
// for sale for a while, or others use what all share.
func (o *oracle) supplyMoves() bool {
	return o.w.now.Sub(o.failed) < longestCooldown || o.w.setting("cpus") != defaults["cpus"]
}

// holds says whether a cluster still has all that it was left, and asks for the same.
func (o *oracle) holds(name string, r demand.Result) bool {
	c := o.of(name)
	if !c.kept.known || c.kept.version != c.version || c.spreads() && o.supplyMoves() {
		return false
	}
	for _, a := range r.Actions { // found to be lost in this cycle, whose records are not written yet
		if (a.Kind == demand.Fail || a.Kind == demand.Delete) && slices.Contains(c.kept.machines, a.Machine) {
			return false
		}
	}
	return !slices.ContainsFunc(c.kept.machines, func(id string) bool {
		m := o.w.store.Get(id)
		return m == nil || !counts(m, name)
	})
}

// unmoved checks the clusters of which nothing has changed since the last cycle. What was lacking may be had now; what
// was not lacking is there, or on its way. Machines that boot are none too few (E3), and those that were taken for
// needs of others were not those that the cluster's own needs of as high a priority draw from (E9).
func (o *oracle) unmoved(r demand.Result) {
	for _, p := range o.w.tenants {
		c := o.of(p.name)
		robbed := c.robbed
		c.robbed = false
		if !o.holds(p.name, r) {
			continue
		}
		judged := func(key demand.Key) bool {
			row := c.row(key)
			return row != nil && !(robbed && row.Priority < c.above) && !(c.kept.paused && row.Priority <= c.kept.pausedAt)
		}
		promise, since := "E3", "and nothing has changed"
		if robbed {
			promise, since = "E9", "and nothing has changed but that a need of no higher priority took machines"
		}
		for _, a := range r.Actions {
			more := a.Kind == demand.Provision && a.Replaces == "" || a.Kind == demand.Bootstrap && !slices.Contains(c.kept.machines, a.Machine)
			if _, lacked := c.kept.lacks[a.Need]; more && a.Cluster == p.name && !lacked && judged(a.Need) {
				o.w.violate(promise, "%s, which the need did not lack a cycle ago, %s", a, since)
			}
		}
		for _, s := range r.Shortfalls {
			if before := c.kept.lacks[s.Need]; s.Cluster == p.name && judged(s.Need) && !before.Covers(&s.Deficit) {
				o.w.violate(promise, "%s lacks %v of %s, and a cycle ago %v, %s", p.name, s.Deficit, s.Need, before, since)
			}
		}
	}
}

// robs checks a machine that is taken for a need of another cluster, and notes whose it was: which of its own needs
// draw from it the engine alone knows, but none of as high a priority may lack anything from now on.
func (o *oracle) robs(a demand.Action, r *leader.Record) {
	w := o.w
	for _, p := range w.tenants {
		row := o.of(p.name).row(a.Need)
		if row == nil || p.name == a.Cluster {
			continue
		}
		c := o.of(a.Cluster)
		if !c.reported && r.Stamp.Priority >= row.Priority {
			w.violate("E9", "%s, which was bound for a need of priority %d, for one of %d", a, r.Stamp.Priority, row.Priority)
		}
		if !c.robbed || row.Priority > c.above {
			c.robbed, c.above = true, row.Priority
		}
		return
	}
	w.violate("E9", "%s, for a need that no other cluster has", a)
}
