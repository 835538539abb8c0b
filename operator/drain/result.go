package drain

import (
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Outcome is what became of an eviction.
type Outcome string

// The outcomes. The empty one is that of an attempt whose answer was not seen.
const (
	// Leaves: the Pod is on its way, or gone.
	Leaves Outcome = "leaves"
	// Blocked: a disruption budget says "not yet".
	Blocked Outcome = "blocked by its budget"
	// Conflict: somebody else changed the Pod at the same time.
	Conflict Outcome = "conflict"
	// Terminating: its namespace is being deleted, and the Pod goes with it.
	Terminating Outcome = "its namespace terminates"
	// Impossible: the API server cannot evict it, as with more than one budget.
	Impossible Outcome = "cannot be evicted"
	// Failed: the API server could not be asked, did not allow it, or answered something else.
	Failed Outcome = "failed"
)

// Result is the answer to one Evict or DeletePod.
type Result struct {
	Pod     types.UID
	Outcome Outcome
	// RetryAfter is when the API server wants to be asked again; zero: it does not say.
	RetryAfter time.Duration
	// Message is its answer, for users.
	Message string
}

// ResultOf reads the answer of the API server to the eviction or deletion of a Pod.
func ResultOf(pod types.UID, err error) Result {
	r := Result{Pod: pod, Outcome: Leaves}
	if err == nil || apierrors.IsNotFound(err) {
		return r
	}
	r.Message = err.Error()
	switch {
	case apierrors.IsTooManyRequests(err):
		r.Outcome = Blocked
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			r.RetryAfter = time.Duration(seconds) * time.Second
		}
		if budget := budgetCause(err); budget != "" {
			r.Message = budget
		}
	case apierrors.IsConflict(err):
		r.Outcome = Conflict
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		r.Outcome = Terminating
	case apierrors.IsInternalError(err):
		r.Outcome = Impossible
	default:
		r.Outcome = Failed
	}
	return r
}

// budgetCause returns what the API server says of the budget that is in the way.
func budgetCause(err error) string {
	var says []string
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				says = append(says, cause.Message)
			}
		}
	}
	return strings.Join(says, "; ")
}
