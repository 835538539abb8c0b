package drain

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Phase is how far a drain is.
type Phase = infrav1.DrainPhase

// None is the phase of a Node on which nothing was done yet.
const None Phase = ""

// moves are all transitions of a drain. Done is final, save that a cancelled drain ends
// in None from everywhere.
var moves = map[Phase][]Phase{
	None:                   {infrav1.DrainCordoned, infrav1.DrainDone}, // Done: there is no Node, or somebody else drains it
	infrav1.DrainCordoned:  {infrav1.DrainEvicting, infrav1.DrainForcing, infrav1.DrainDetaching, infrav1.DrainDone},
	infrav1.DrainEvicting:  {infrav1.DrainForcing, infrav1.DrainDetaching, infrav1.DrainDone},  // Done: the Node is gone
	infrav1.DrainForcing:   {infrav1.DrainEvicting, infrav1.DrainDetaching, infrav1.DrainDone}, // back: the deadline moved away; Done: Pods do not even go by force
	infrav1.DrainDetaching: {infrav1.DrainEvicting, infrav1.DrainForcing, infrav1.DrainDone},   // back: a Pod came that tolerates everything
	infrav1.DrainDone:      {},
}

// State is a drain. The zero value is one that has not begun.
type State struct {
	Instance, Reason string
	// StartedAt is when the time to drain began: when the instance was condemned.
	StartedAt time.Time
	// Deadline is when the machine is deleted at the latest; zero: there is none.
	Deadline time.Time
	Phase    Phase
	// Cordoned: it was us who cordoned the Node, so we may uncordon it.
	Cordoned bool
	// Instruction is the id of the shard's instruction that it carries out; empty: none.
	Instruction string
	// Force of the request.
	Force Force

	Progress
}

// Progress is the part of a State that stands nowhere but in memory.
type Progress struct {
	// Node is the UID of the Node.
	Node types.UID
	// Since is when the phase began, as far as this process knows.
	Since time.Time
	// Tried are the Pods that were evicted or deleted, by UID.
	Tried map[types.UID]Attempt
	// Acks is how often the server was told that the Node is drained, AckedAt when last,
	// Acked that it has heard it.
	Acks    int
	AckedAt time.Time
	Acked   bool
}

// Attempt is what was tried with one Pod.
type Attempt struct {
	At time.Time
	// Next is when to try again.
	Next    time.Time
	Outcome Outcome
	// Message is what the API server answered, for users.
	Message string
	// Killed is when it was to be deleted directly; zero: it was not. Ends is when its
	// grace then ends. That counts once the Outcome is Leaves.
	Killed, Ends time.Time
}

// Begin returns the state with which the drain of a Node begins, for its request: WithState
// cordons the Node by it.
func Begin(node *corev1.Node, r Request, now time.Time) State {
	s := State{
		Instance: r.Instance, Reason: r.Reason, Instruction: r.Instruction, Force: r.Force, StartedAt: r.Decided, Deadline: r.Deadline,
		Cordoned: !node.Spec.Unschedulable || cordonedByUs(node),
		Phase:    infrav1.DrainCordoned,
	}
	if s.StartedAt.IsZero() {
		s.StartedAt = now
	}
	s.Node, s.Since = node.UID, now
	return s
}

// Started says that the drain has begun, to users.
func (s State) Started() string {
	by := "without a deadline"
	if !s.Deadline.IsZero() {
		by = "until " + s.Deadline.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("instance %s is drained %s: %s", s.Instance, by, s.Reason)
}

// ofAnotherNode reports whether an instruction of the shard was carried out on another Node than
// the one that its machine has now: the machine is used again, and the instruction is not about that.
func (s State) ofAnotherNode(now *corev1.Node) bool {
	return s.Instruction != "" && s.Node != "" && now != nil && now.UID != s.Node
}

// to moves to a phase; false: no such transition exists, and nothing has changed.
func (s *State) to(p Phase, now time.Time) bool {
	if s.Phase == p {
		if s.Since.IsZero() {
			s.Since = now
		}
		return true
	}
	if !slices.Contains(moves[s.Phase], p) {
		return false
	}
	s.Phase, s.Since = p, now
	return true
}

// ForcePoint is when Pods that are left are deleted directly: a fifth of the time before
// the deadline, but at least 30 seconds; 15 seconds before it where there are two minutes
// or less; and never in the first half of the time.
func ForcePoint(started, deadline time.Time) time.Time {
	window := deadline.Sub(started)
	before := max(30*time.Second, window/5)
	if window <= 2*time.Minute {
		before = 15 * time.Second
	}
	point, half := deadline.Add(-before), started.Add(window/2)
	if half.After(point) {
		return half
	}
	return point
}

// labelDraining is the value of the label that takes a Node out of load balancers, by
// which ours is told from one that somebody else has set.
const labelDraining = "nstance-draining"

// WithState returns the Node with the state written on it: cordoned, tainted, taken out of
// load balancers, annotated.
func WithState(node *corev1.Node, s State) *corev1.Node {
	n := clearState(node)
	n.Spec.Unschedulable = true
	taint := corev1.Taint{Key: infrav1.TaintDraining, Effect: corev1.TaintEffectNoSchedule}
	if len(validation.IsValidLabelValue(s.Reason)) == 0 { // or the API server takes nothing of it
		taint.Value = s.Reason
	}
	n.Spec.Taints = append(n.Spec.Taints, taint)
	if _, ok := n.Labels[corev1.LabelNodeExcludeBalancers]; !ok {
		metav1.SetMetaDataLabel(&n.ObjectMeta, corev1.LabelNodeExcludeBalancers, labelDraining)
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.AnnotationDrainInstance, s.Instance)
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.AnnotationDrainReason, s.Reason)
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.AnnotationDrainStartedAt, s.StartedAt.UTC().Format(time.RFC3339))
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.AnnotationDrainPhase, string(s.Phase))
	if !s.Deadline.IsZero() {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.AnnotationDrainDeadline, s.Deadline.UTC().Format(time.RFC3339))
	}
	if s.Cordoned {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.AnnotationCordonedBy, infrav1.CordonedByOperator)
	}
	if s.Instruction != "" {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.AnnotationDrainRequest, s.Instruction)
	}
	if s.Force != "" {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.AnnotationDrainForce, string(s.Force))
	}
	return n
}

// WithoutState returns the Node as it was before its drain: uncordoned only if it was us who
// cordoned it.
func WithoutState(node *corev1.Node) *corev1.Node {
	n := clearState(node)
	if cordonedByUs(node) {
		n.Spec.Unschedulable = false
	}
	return n
}

// cordonedByUs reports whether a Node says that it was us who cordoned it.
func cordonedByUs(node *corev1.Node) bool {
	return node.Annotations[infrav1.AnnotationCordonedBy] == infrav1.CordonedByOperator
}

// clearState takes everything off that WithState puts on, save the cordon.
func clearState(node *corev1.Node) *corev1.Node {
	n := node.DeepCopy()
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == infrav1.TaintDraining })
	if n.Labels[corev1.LabelNodeExcludeBalancers] == labelDraining {
		delete(n.Labels, corev1.LabelNodeExcludeBalancers)
	}
	for _, key := range []string{
		infrav1.AnnotationDrainInstance, infrav1.AnnotationDrainReason, infrav1.AnnotationDrainStartedAt, infrav1.AnnotationDrainDeadline,
		infrav1.AnnotationDrainPhase, infrav1.AnnotationDrainRequest, infrav1.AnnotationDrainForce, infrav1.AnnotationCordonedBy,
	} {
		delete(n.Annotations, key)
	}
	return n
}

// ParseState reads the state from the annotations of a Node; false without an error: the
// Node is not being drained. After an error the drain is to begin again.
func ParseState(annotations map[string]string) (State, bool, error) {
	s := State{
		Instance: annotations[infrav1.AnnotationDrainInstance],
		Reason:   annotations[infrav1.AnnotationDrainReason],
		Phase:    Phase(annotations[infrav1.AnnotationDrainPhase]),
		Cordoned: annotations[infrav1.AnnotationCordonedBy] == infrav1.CordonedByOperator,

		Instruction: annotations[infrav1.AnnotationDrainRequest],
	}
	if force := Force(annotations[infrav1.AnnotationDrainForce]); force == Never || force == AtDeadline {
		s.Force = force
	}
	if s.Instance == "" {
		return State{}, false, nil
	}
	if _, known := moves[s.Phase]; !known || s.Phase == None {
		return State{}, false, fmt.Errorf("annotation %s: %q is no phase of a drain", infrav1.AnnotationDrainPhase, s.Phase)
	}
	var err error
	if s.StartedAt, err = parseTime(annotations, infrav1.AnnotationDrainStartedAt); err != nil {
		return State{}, false, err
	}
	if _, ok := annotations[infrav1.AnnotationDrainDeadline]; ok {
		if s.Deadline, err = parseTime(annotations, infrav1.AnnotationDrainDeadline); err != nil {
			return State{}, false, err
		}
	}
	return s, true, nil
}

func parseTime(annotations map[string]string, key string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, annotations[key])
	if err != nil {
		return time.Time{}, fmt.Errorf("annotation %s: %w", key, err)
	}
	return at.UTC(), nil
}

// clone returns a state whose map may be written to.
func (s State) clone() State {
	s.Tried = maps.Clone(s.Tried)
	if s.Tried == nil {
		s.Tried = map[types.UID]Attempt{}
	}
	return s
}
