package capacityrequest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/translate"
)

// Observation is what is known of one Pod.
type Observation struct {
	Pod *corev1.Pod
	// Request is the Pod's, as the cache has it; nil: it has none.
	Request *demandv1.CapacityRequest
	// Made: a request of the Pod was made, or all of them were deleted, a moment ago. The cache may not
	// show it yet.
	Made, Deleted bool
	Volumes       translate.Volumes
}

// Outcome is what becomes of the request of a Pod, in the words of the metric.
type Outcome string

// Outcomes.
const (
	Created  Outcome = "cr_created"
	Exists   Outcome = "cr_exists"
	Patched  Outcome = "cr_patched"
	Gone     Outcome = "pod_gone"
	Terminal Outcome = "pod_terminal"
	Excluded Outcome = "pod_excluded"
	Failed   Outcome = "error"
)

// Decision is what is to be done for a Pod. The zero value of each field: nothing.
type Decision struct {
	Outcome Outcome
	Reason  string // for people: why something is made, changed or deleted
	// Delete: all requests of the Pod's UID go.
	Delete bool
	// Create is the request to make; its status is what it gets right after.
	Create *demandv1.CapacityRequest
	// Spec replaces what the request asks for.
	Spec *demandv1.CapacityRequestSpec
	// Status replaces that of the request.
	Status *demandv1.CapacityRequestStatus
	// LookAgain: the cache is behind what was done. The Pod is looked at again when it must not be any more.
	LookAgain bool
	// Warnings are what could not be translated, where that is news.
	Warnings []translate.Warning
}

// Decide says what is to be done for a Pod that exists.
func Decide(o Observation, options translate.Options) Decision {
	if translate.Terminal(o.Pod) {
		return drop(o, Terminal, "the Pod has ended: "+string(o.Pod.Status.Phase))
	}
	if why, excluded := translate.Excluded(o.Pod); excluded {
		return drop(o, Excluded, "the Pod asks for no capacity: "+string(why))
	}
	want := translate.Build(o.Pod, o.Volumes, options)
	switch {
	case o.Request == nil && o.Made, o.Request != nil && o.Deleted:
		return Decision{Outcome: Exists, LookAgain: true}
	case o.Request == nil:
		made := translate.Object(o.Pod, want.Spec)
		made.Status = demandv1.CapacityRequestStatus{Phase: demandv1.CapacityRequestPending, Conditions: []metav1.Condition{translated(made, want.Warnings)}}
		return Decision{Outcome: Created, Reason: "the Pod takes capacity", Create: made, Warnings: want.Warnings}
	default:
		return update(o.Request, want)
	}
}

// drop deletes what a Pod has asked for. Where nothing is known of a request none is asked to go: most Pods
// that have ended did so long ago.
func drop(o Observation, outcome Outcome, reason string) Decision {
	return Decision{Outcome: outcome, Reason: reason, Delete: (o.Request != nil || o.Made) && !o.Deleted}
}

// update makes the request of a Pod say what the Pod asks for now: it may have been resized, or its volumes
// may have been bound.
func update(have *demandv1.CapacityRequest, want translate.Result) Decision {
	d := Decision{Outcome: Exists}
	if !equality.Semantic.DeepEqual(have.Spec, want.Spec) {
		d.Outcome, d.Reason, d.Spec, d.Warnings = Patched, "the Pod asks for something else than before", &want.Spec, want.Warnings
	}
	status := have.Status.DeepCopy()
	if status.Phase == "" {
		status.Phase = demandv1.CapacityRequestPending
	}
	if now := translated(have, want.Warnings); news(status.Conditions, now) {
		meta.SetStatusCondition(&status.Conditions, now)
		d.Warnings = want.Warnings
	}
	if !equality.Semantic.DeepEqual(have.Status, *status) {
		d.Status = status
	}
	return d
}

// translated is condition Translated of a request, without a time.
func translated(of *demandv1.CapacityRequest, warnings []translate.Warning) metav1.Condition {
	ok, reason, message := translate.Translated(warnings)
	c := metav1.Condition{
		Type: demandv1.ConditionTranslated, Status: metav1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: of.Generation,
	}
	if !ok {
		c.Status = metav1.ConditionFalse
	}
	return c
}

// news says whether a condition is not there yet. Its generation alone is no news.
func news(have []metav1.Condition, now metav1.Condition) bool {
	c := meta.FindStatusCondition(have, now.Type)
	return c == nil || c.Status != now.Status || c.Reason != now.Reason || c.Message != now.Message
}
