package drain

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReasonSpot is the reason of an instance that its provider takes away: its deadline only
// ever moves nearer.
const ReasonSpot = "spot-termination"

// Request asks for a drain.
type Request struct {
	Instance, Reason string
	// Instruction is the id of the shard's instruction that the drain carries out, or says of which
	// rollout it is ([OfRollout]); empty: it is
	// another's.
	Instruction string
	// Withdrawn: the drain for the Instruction is to be undone. Nothing else of the request counts.
	Withdrawn bool
	// Decided is when the end of the instance was decided; zero: now.
	Decided time.Time
	// Deadline is when its machine is deleted at the latest; zero: there is none.
	Deadline time.Time
	// Force says what happens to Pods that are left shortly before the deadline.
	Force Force
	// Acknowledge: the server is to be told when the Node is drained.
	Acknowledge bool
}

// Merge returns one request for two for the same instance: the earlier deadline and the harsher
// force count, and both are answered. Where else they differ, the first counts.
func Merge(a, b Request) Request {
	a.Instruction = cmp.Or(a.Instruction, b.Instruction)
	if a.Decided.IsZero() {
		a.Decided = b.Decided
	}
	if a.Deadline.IsZero() || !b.Deadline.IsZero() && b.Deadline.Before(a.Deadline) {
		a.Deadline = b.Deadline
	}
	if a.Force == Never {
		a.Force = b.Force
	}
	a.Acknowledge = a.Acknowledge || b.Acknowledge
	return a
}

// Compare orders requests by urgency: those of machines that a provider takes away first,
// then by deadline, those without one last.
func Compare(a, b Request) int {
	spot := func(r Request) int {
		if r.Reason == ReasonSpot {
			return 0
		}
		return 1
	}
	never := func(r Request) int {
		if r.Deadline.IsZero() {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(spot(a), spot(b)), cmp.Compare(never(a), never(b)), a.Deadline.Compare(b.Deadline), cmp.Compare(a.Instance, b.Instance),
	)
}

// InstanceState is what a shard says of the instance, as far as a drain depends on it.
type InstanceState string

// The states of an instance.
const (
	InstanceCondemned InstanceState = ""         // it is to go
	InstanceRetained  InstanceState = "retained" // it lives, and a shard that can be believed does not condemn it
	InstanceDeleting  InstanceState = "deleting" // its machine is being deleted
	InstanceDeleted   InstanceState = "deleted"  // its machine is gone
)

// Force says what happens to Pods that are left at the force point ([ForcePoint]).
type Force string

// The settings. The empty one is AtDeadline.
const (
	AtDeadline Force = "AtDeadline" // Pods that are left are deleted directly
	Never      Force = "Never"      // they are asked on until the deadline
)

// Observation is what a step looks at.
type Observation struct {
	Request       Request
	InstanceState InstanceState
	// Repeated: the server asked again since the last step.
	Repeated bool
	// NoticedAt is when this process first knew of the request; RegisteredAt when the
	// instance registered, zero if it never did.
	NoticedAt, RegisteredAt time.Time
	// NodeUnknown: whether there is a Node could not be found out, as while nobody knows
	// whether the instance registered.
	NodeUnknown bool
	// Doubt says why no Node is recognised for sure as the instance's although one may be;
	// empty: it is known which Node it is, or that there is none. Under doubt Node is one
	// that may be the instance's, and nothing is acknowledged before the deadline.
	Doubt string
	// Node is the instance's; nil: it has none.
	Node *corev1.Node
	// Pods are all those bound to the Node, read after the last step.
	Pods []corev1.Pod
	// DaemonSets are the UIDs of those that exist.
	DaemonSets map[types.UID]bool
	// Self is the UID of this program's own Pod; empty: it runs in none.
	Self types.UID
	// Attachments is the number of volumes still attached to the Node.
	Attachments int
	// DrainedByClusterAPI: Cluster API drains this Node, because its Machine is being deleted.
	DrainedByClusterAPI bool
	// Results are the answers to the evictions and deletions of the last step.
	Results []Result
	// Acknowledged: the server has heard the last Acknowledge, or does not know the
	// instance.
	Acknowledged bool
}
