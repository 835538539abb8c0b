package tenant

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/sim/demandsim/cluster"
	"nstance.dev/protos/needs"
)

const (
	stuckAfter = time.Minute      // unschedulable, with nothing in flight, until a Pod counts as stuck
	stuckKeep  = 10 * time.Minute // its row is kept after it was placed
	mostStuck  = 16               // rows of a need
)

// stuck is a Pod in a row of its own: spare capacity has been shown not to help it.
type stuck struct {
	need   needs.Key
	number uint32
	since  time.Time
	placed time.Time // zero while it is pending
}

// findStuck brings the stuck Pods up to date. toCome says that
// machines for a need are still to come, or that the shard is short of them.
func (d *demand) findStuck(c *cluster.Cluster, toCome func(needs.Key) bool, now time.Time) {
	for _, p := range c.Pods() {
		uid := p.Object.UID
		u, s := d.units[uid], d.stuck[uid]
		var own needs.Row
		if u != nil {
			own = u.row
			own.Stuck = d.stuckRow(uid)
		}
		switch {
		case u == nil:
		case s == nil:
			if p.Pending() && now.Sub(p.Since) >= stuckAfter && unschedulable(p, now) && !toCome(own.Key(c.Name)) {
				key := u.row.Key(c.Name)
				d.stuck[uid] = &stuck{need: key, number: d.number(key, 1, apart(p), now), since: now}
			}
		case !p.Pending():
			if s.placed.IsZero() {
				s.placed = now
			}
			if now.Sub(s.placed) >= stuckKeep {
				delete(d.stuck, uid)
			}
		default:
			s.placed = time.Time{}
			if toCome(own.Key(c.Name)) {
				s.since = now
			} else if now.Sub(s.since) >= stuckAfter && s.number < mostStuck {
				s.number, s.since = d.number(s.need, s.number+1, apart(p), now), now
			}
		}
	}
}

// number is the row of a stuck Pod: one of its own for a Pod that keeps others of its kind away, else
// the first from least on that began just now or has no Pod.
func (d *demand) number(need needs.Key, least uint32, own bool, now time.Time) uint32 {
	for n := least; n < mostStuck; n++ {
		taken := false
		for _, s := range d.stuck {
			taken = taken || s.need == need && s.number == n && (own || !s.since.Equal(now))
		}
		if !taken {
			return n
		}
	}
	return mostStuck
}

// unschedulable says whether the scheduler has found no Node for a Pod for long enough.
func unschedulable(p *cluster.Pod, now time.Time) bool {
	return slices.ContainsFunc(p.Object.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && now.Sub(c.LastTransitionTime.Time) >= stuckAfter
	})
}

// apart says whether a Pod has required anti-affinity by host.
func apart(p *cluster.Pod) bool {
	a := p.Object.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(t corev1.PodAffinityTerm) bool {
		return t.TopologyKey == corev1.LabelHostname
	})
}

// stuckRow is the number of the row of a Pod; 0 is the ordinary one.
func (d *demand) stuckRow(uid types.UID) uint32 {
	if s := d.stuck[uid]; s != nil {
		return s.number
	}
	return 0
}
