package shardgroup

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/demand/settings"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
)

// A group that somebody else changed is repaired no more often than RepairPace apart. After
// MaxRepairs within RepairSpan it is left to whoever keeps changing it, for RepairSpan.
const (
	RepairPace = time.Minute
	RepairSpan = 10 * time.Minute
	MaxRepairs = 3
)

// How long to wait before a group on its way out is looked at again, and how often users
// are told that its shard is waited for.
const (
	removalPoll = 10 * time.Second
	waitNotice  = 10 * time.Minute
)

// action is what is to be done about a group.
type action string

const (
	noAction        action = "none"            // nothing
	upsert          action = "upsert"          // write the spec to the shard
	repair          action = "repair"          // write it again, after another client changed the group
	backOff         action = "backOff"         // another client keeps changing the group
	waitForDeletion action = "waitForDeletion" // the group has to be deleted, and cannot be yet
	deleteGroup     action = "deleteGroup"     // delete the group, which drains to zero on its shard
	revert          action = "revert"          // reset a static group to its configuration, then remove the finalizer
	removeFinalizer action = "removeFinalizer" // remove the finalizer
)

// decision is an action, its reason to users, and when time alone may change it; zero:
// never.
type decision struct {
	action action
	why    string
	again  time.Duration
}

// decide says what is to be done about a group. It depends on its arguments alone.
func decide(p shardGroup, now time.Time) decision {
	switch {
	case p.paused:
		return decision{action: noAction, why: "paused"}
	case !p.object.DeletionTimestamp.IsZero():
		return p.end(now)
	case !p.configured:
		return decision{action: noAction, why: fmt.Sprintf("shard %s is not configured", p.object.Spec.Shard)}
	case !p.connected():
		return decision{action: noAction, why: fmt.Sprintf("shard %s does not answer", p.object.Spec.Shard)}
	case !p.synced.GroupsSynced:
		return decision{action: noAction, why: fmt.Sprintf("shard %s has not reported its groups yet", p.object.Spec.Shard)}
	case p.unable():
		return decision{action: noAction, why: fmt.Sprintf("the server of shard %s is too old for demand pools; upgrade it", p.object.Spec.Shard)}
	case p.waits(now) > 0:
		return decision{action: noAction, why: "retry after a failure: " + p.failed.Why, again: p.waits(now)}
	case p.object.Status.ObservedGeneration != p.object.Generation:
		return decision{action: upsert, why: "the spec has changed"}
	case p.group.GetRebuilt():
		return decision{action: upsert, why: "the shard has rebuilt the group after it lost its group file, and waits to hear what it should be"}
	case p.drifted():
		return p.decideDrift(now)
	}
	return decision{action: noAction}
}

// unable is whether the server would take a demand pool for one without a change.
func (p shardGroup) unable() bool {
	return p.object.Spec.Demand != nil && slices.Contains(p.shard.Missing, shards.DemandGroups)
}

// callsShard reports whether a decision changes something on the shard. Then it is made again for the
// object as the API server itself has it, before it is carried out: nobody knows how far behind a
// cache is, and while the API server is away a shard is told nothing.
func (d decision) callsShard() bool {
	switch d.action {
	case upsert, repair, deleteGroup, revert:
		return true
	case noAction, backOff, waitForDeletion, removeFinalizer:
	}
	return false
}

// endsInstances reports whether instances may end by a decision. Then it is made once more, with all
// that it depends on read from the API server.
func (p shardGroup) endsInstances(d decision) bool {
	switch d.action {
	case deleteGroup, revert:
		return true
	case upsert, repair:
		became := p.group.GetMode() == settings.ModeDemand && p.object.Spec.Size != nil
		return p.group != nil && (p.size() < p.group.GetSize() && p.object.Spec.Size != nil || became)
	}
	return false
}

// decideDrift decides about a group that another client has changed.
func (p shardGroup) decideDrift(now time.Time) decision {
	repairs := recent(p.object.Status.Repairs, now)
	if len(repairs) == 0 {
		return decision{action: repair, why: "the group was changed by another client"}
	}
	last := repairs[len(repairs)-1].Time
	next := last.Add(RepairPace)
	if len(repairs) >= MaxRepairs {
		next = last.Add(RepairSpan)
	}
	switch {
	case !now.Before(next):
		return decision{action: repair, why: "the group was changed again by another client"}
	case len(repairs) >= MaxRepairs:
		return decision{
			action: backOff, again: next.Sub(now),
			why: fmt.Sprintf("another client keeps changing the group; it was repaired %d times and is left alone until %s",
				len(repairs), next.UTC().Format(time.RFC3339)),
		}
	default:
		return decision{action: noAction, again: next.Sub(now), why: "the group was changed by another client; it was repaired a moment ago"}
	}
}

// recent are the repairs that still count.
func recent(repairs []metav1.Time, now time.Time) []metav1.Time {
	return slices.DeleteFunc(slices.Clone(repairs), func(at metav1.Time) bool { return now.Sub(at.Time) >= RepairSpan })
}

// end decides about a group whose object is being deleted.
func (p shardGroup) end(now time.Time) decision {
	group, shard := p.object.Spec.Group, p.object.Spec.Shard
	switch {
	case !slices.Contains(p.object.Finalizers, infrav1.FinalizerShardGroup):
		return decision{action: noAction}
	case p.object.Annotations[infrav1.AnnotationForceRemove] == "true":
		return decision{action: removeFinalizer, why: fmt.Sprintf("removed by force; shard %s may keep group %s with its instances", shard, group)}
	case p.left:
		return decision{action: removeFinalizer, why: fmt.Sprintf("group %s stays on shard %s: its pool leaves it there", group, shard)}
	case !p.configured:
		return decision{action: waitForDeletion, again: waitNotice, why: fmt.Sprintf("shard %s is not configured; configure it, or annotate with %s=true", shard, infrav1.AnnotationForceRemove)}
	case !p.connected(), !p.synced.GroupsSynced:
		return decision{action: waitForDeletion, again: waitNotice, why: fmt.Sprintf("shard %s does not answer", shard)}
	case p.presence == inventory.Gone:
		return decision{action: removeFinalizer, why: fmt.Sprintf("group %s is gone from shard %s", group, shard)}
	case p.static() && p.waits(now) == 0:
		return decision{action: revert, why: fmt.Sprintf("group %s on shard %s goes back to what the server's configuration says", group, shard)}
	case !p.group.GetDeleting() && p.waits(now) > 0:
		return decision{action: waitForDeletion, again: p.waits(now), why: fmt.Sprintf("group %s on shard %s is to end; retry after a failure: %s", group, shard, p.failed.Why)}
	case !p.group.GetDeleting():
		return decision{action: deleteGroup, again: removalPoll, why: fmt.Sprintf("group %s on shard %s is to end", group, shard)}
	case p.hasInstances():
		return decision{action: waitForDeletion, again: removalPoll, why: fmt.Sprintf("group %s on shard %s still has instances", group, shard)}
	default:
		return decision{action: removeFinalizer, why: fmt.Sprintf("group %s on shard %s is empty", group, shard)}
	}
}

// condition returns a condition of the status as it stands.
func (p shardGroup) condition(conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(p.object.Status.Conditions, conditionType)
}
