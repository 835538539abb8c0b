package v1alpha1

// Labels.
const (
	// LabelOwnedByPod is the UID of the Pod that a CapacityRequest was made for. Only the
	// controller that makes them may set it.
	LabelOwnedByPod = "nstance.dev/owned-by-pod"
	// LabelPodGroup says that a Pod is of use only together with the others of its group.
	LabelPodGroup = "scheduling.x-k8s.io/pod-group"
)

// Annotations of Pods, set by their authors. The penalties are quantities of US dollars.
const (
	// AnnotationIgnore, "true": the Pod asks for no capacity.
	AnnotationIgnore = "nstance.dev/ignore"
	// AnnotationAllOrNothing, "true": the Pod's group is of use only as a whole.
	AnnotationAllOrNothing = "nstance.dev/all-or-nothing"
	// AnnotationDoNotEvict, "true": no machine is given back as surplus while the Pod runs there.
	AnnotationDoNotEvict = "nstance.dev/do-not-evict"
	// AnnotationPrefix is what the names of the two penalties begin with, unless the operator
	// is told otherwise.
	AnnotationPrefix = "nstance.dev"
	// InterruptionPenalty, after a prefix: the cost of disturbing the Pod.
	InterruptionPenalty = "interruption-penalty"
	// ReclamationPenalty, after a prefix: the value of keeping its very machine.
	ReclamationPenalty = "reclamation-penalty"
)

// AnnotationDoNotReclaim of a Node, "true": its machine is not given back as surplus.
const AnnotationDoNotReclaim = "nstance.dev/do-not-reclaim"

// Annotations of other autoscalers that mean the same as ours.
const (
	// AnnotationKarpenterDoNotDisrupt, "true", on a Pod: AnnotationDoNotEvict; on a Node:
	// AnnotationDoNotReclaim.
	AnnotationKarpenterDoNotDisrupt = "karpenter.sh/do-not-disrupt"
	// AnnotationSafeToEvict, "false", on a Pod: AnnotationDoNotEvict. "true" means nothing.
	AnnotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// AnnotationScaleDownDisabled, "true", on a Node: AnnotationDoNotReclaim.
	AnnotationScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

// ConditionTranslated of a CapacityRequest is False when a part of its Pod could not be
// expressed. The reason names the first such part, the message all of them.
const ConditionTranslated = "Translated"
