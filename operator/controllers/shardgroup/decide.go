package shardgroup

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"

	"nstance.dev/operator/inventory"
)

// A group that somebody else changed is repaired no more often than RepairPace apart. After
// MaxRepairs within RepairSpan it is left to whoever keeps changing it, for RepairSpan.
const (
	RepairPace = time.Minute
	RepairSpan = 10 * time.Minute
	MaxRepairs = 3
)

// How long to wait before a group on its way out is looked at again, and how often people
// are told that its shard is waited for.
const (
	removalPoll = 10 * time.Second
	waitNotice  = 10 * time.Minute
)

// action is what is to be done about a group.
type action string

const (
	rest    action = "rest"    // nothing
	send    action = "send"    // tell the shard what the spec says
	repair  action = "repair"  // tell it again, after somebody else changed it
	yield   action = "yield"   // somebody else keeps changing it
	hold    action = "hold"    // it has to end, and cannot yet
	remove  action = "remove"  // let the group drain to zero on its shard
	revert  action = "revert"  // give a static group back to its configuration, then release
	release action = "release" // take the finalizer off
)

// decision is an action, its reason to people, and when time alone may change it; zero:
// never.
type decision struct {
	action action
	why    string
	again  time.Duration
}

// decide says what is to be done about a group. It depends on its arguments alone.
func decide(p part, now time.Time) decision {
	switch {
	case p.paused:
		return decision{action: rest, why: "paused"}
	case !p.object.DeletionTimestamp.IsZero():
		return p.end(now)
	case !p.configured:
		return decision{action: rest, why: fmt.Sprintf("shard %s is not configured", p.object.Spec.Shard)}
	case !p.connected():
		return decision{action: rest, why: fmt.Sprintf("shard %s does not answer", p.object.Spec.Shard)}
	case !p.synced.GroupsSynced:
		return decision{action: rest, why: fmt.Sprintf("shard %s has not said yet what groups it has", p.object.Spec.Shard)}
	case p.waits(now) > 0:
		return decision{action: rest, why: "retry after a failure: " + p.failed.Why, again: p.waits(now)}
	case p.object.Status.ObservedGeneration != p.object.Generation:
		return decision{action: send, why: "the spec has changed"}
	case p.group.GetRebuilt():
		return decision{action: send, why: "the shard has rebuilt the group after it lost its group file, and waits to hear what it should be"}
	case p.drifted():
		return p.mend(now)
	}
	return decision{action: rest}
}

// takes is whether instances may end by a decision. Then it is made anew from what the API
// server itself has, before it is carried out: nobody knows how far behind a cache is.
func (p part) takes(d decision) bool {
	switch d.action {
	case remove, revert:
		return true
	case send, repair:
		return p.group != nil && p.size() < p.group.GetSize()
	}
	return false
}

// mend decides about a group that somebody else has changed.
func (p part) mend(now time.Time) decision {
	repairs := recent(p.object.Status.Repairs, now)
	if len(repairs) == 0 {
		return decision{action: repair, why: "somebody else has changed the group"}
	}
	last := repairs[len(repairs)-1].Time
	next := last.Add(RepairPace)
	if len(repairs) >= MaxRepairs {
		next = last.Add(RepairSpan)
	}
	switch {
	case !now.Before(next):
		return decision{action: repair, why: "somebody else has changed the group again"}
	case len(repairs) >= MaxRepairs:
		return decision{
			action: yield, again: next.Sub(now),
			why: fmt.Sprintf("somebody else keeps changing the group; it was repaired %d times and is left alone until %s",
				len(repairs), next.UTC().Format(time.RFC3339)),
		}
	default:
		return decision{action: rest, again: next.Sub(now), why: "somebody else has changed the group; it was repaired a moment ago"}
	}
}

// recent are the repairs that still count.
func recent(repairs []metav1.Time, now time.Time) []metav1.Time {
	return slices.DeleteFunc(slices.Clone(repairs), func(at metav1.Time) bool { return now.Sub(at.Time) >= RepairSpan })
}

// end decides about a group whose object is being deleted.
func (p part) end(now time.Time) decision {
	group, shard := p.object.Spec.Group, p.object.Spec.Shard
	switch {
	case !slices.Contains(p.object.Finalizers, infrav1.FinalizerShardGroup):
		return decision{action: rest}
	case p.object.Annotations[infrav1.AnnotationForceRemove] == "true":
		return decision{action: release, why: fmt.Sprintf("removed by force; shard %s may keep group %s with its instances", shard, group)}
	case p.left:
		return decision{action: release, why: fmt.Sprintf("group %s stays on shard %s: its pool leaves it there", group, shard)}
	case !p.configured:
		return decision{action: hold, again: waitNotice, why: fmt.Sprintf("shard %s is not configured; configure it, or annotate with %s=true", shard, infrav1.AnnotationForceRemove)}
	case !p.connected(), !p.synced.GroupsSynced:
		return decision{action: hold, again: waitNotice, why: fmt.Sprintf("shard %s does not answer", shard)}
	case p.presence == inventory.Gone:
		return decision{action: release, why: fmt.Sprintf("group %s is gone from shard %s", group, shard)}
	case p.static() && p.waits(now) == 0:
		return decision{action: revert, why: fmt.Sprintf("group %s on shard %s goes back to what the server's configuration says", group, shard)}
	case !p.group.GetDeleting() && p.waits(now) > 0:
		return decision{action: hold, again: p.waits(now), why: fmt.Sprintf("group %s on shard %s is to end; retry after a failure: %s", group, shard, p.failed.Why)}
	case !p.group.GetDeleting():
		return decision{action: remove, again: removalPoll, why: fmt.Sprintf("group %s on shard %s is to end", group, shard)}
	case p.inhabited():
		return decision{action: hold, again: removalPoll, why: fmt.Sprintf("group %s on shard %s still has instances", group, shard)}
	default:
		return decision{action: release, why: fmt.Sprintf("group %s on shard %s is empty", group, shard)}
	}
}

// condition returns a condition of the status as it stands.
func (p part) condition(conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(p.object.Status.Conditions, conditionType)
}
