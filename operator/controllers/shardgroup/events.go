package shardgroup

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// note is an event to users.
type note struct{ kind, reason, action, text string }

// notes are what a change of the status is worth telling. Each is about a change, so that
// nothing is told again and again.
func notes(old []metav1.Condition, o outcome, next []metav1.Condition) []note {
	var all []note
	warn := func(reason, action, text string) {
		all = append(all, note{corev1.EventTypeWarning, reason, action, text})
	}
	publish := func(reason, action, text string) {
		all = append(all, note{corev1.EventTypeNormal, reason, action, text})
	}

	was, is := pair(old, next, infrav1.ConditionShardReachable)
	switch {
	case is.Status == metav1.ConditionFalse && (was.Status != is.Status || was.Reason != is.Reason):
		warn("ShardUnreachable", "Connect", is.Reason+": "+is.Message)
	case is.Status == metav1.ConditionTrue && was.Status == metav1.ConditionFalse:
		publish("ShardRecovered", "Connect", "the shard answers again")
	}
	was, is = pair(old, next, infrav1.ConditionInstancesSynced)
	if is.Reason == infrav1.ReasonInventoryShrunk && was.Reason != is.Reason {
		warn("InventoryShrunk", "List", is.Message)
	}
	was, is = pair(old, next, infrav1.ConditionConfigValid)
	if is.Status == metav1.ConditionFalse && (was.Status != is.Status || was.Message != is.Message) {
		warn("GroupRejected", "Upsert", is.Message)
	}
	switch {
	case o.request == nil:
	case o.action == repair:
		warn("GroupDriftRepaired", "Upsert", o.why)
	default:
		publish("GroupUpserted", "Upsert", o.why)
	}
	if o.action == waitForDeletion && o.again >= waitNotice {
		warn("DeletionWaits", "Delete", o.why)
	}
	return all
}

// pair returns a condition as it was and as it is; zero: there was none.
func pair(old, next []metav1.Condition, conditionType string) (was, is metav1.Condition) {
	if c := meta.FindStatusCondition(old, conditionType); c != nil {
		was = *c
	}
	if c := meta.FindStatusCondition(next, conditionType); c != nil {
		is = *c
	}
	return was, is
}

// publishEvents makes the events.
func (r *Reconciler) publishEvents(p shardGroup, o outcome, next infrav1.NstanceShardGroupStatus) {
	for _, n := range notes(p.object.Status.Conditions, o, next.Conditions) {
		r.Events.Eventf(p.object, owner(p.object), n.kind, n.reason, n.action, "%s", n.text)
	}
}

// announce says how many instances are about to end, before the server is asked.
func (r *Reconciler) announce(p shardGroup, o outcome) {
	r.Events.Eventf(p.object, owner(p.object), corev1.EventTypeNormal, "DeletingInstances", "Delete",
		"%s: %d instances end with it", o.why, len(p.instances))
}

// released says what became of the group.
func (r *Reconciler) released(p shardGroup, d decision) {
	kind := corev1.EventTypeNormal
	if p.object.Annotations[infrav1.AnnotationForceRemove] == "true" {
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(p.object, owner(p.object), kind, "GroupDeleted", "Delete", "%s", d.why)
}
