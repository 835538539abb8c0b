package v1beta1

// Kinds of this group, as references write them.
const (
	KindCluster         = "NstanceCluster"
	KindMachinePool     = "NstanceMachinePool"
	KindShardGroup      = "NstanceShardGroup"
	KindMachine         = "NstanceMachine"
	KindMachineTemplate = "NstanceMachineTemplate"
)

// FieldManager owns the fields of specs that the operator writes: provider ids. The
// status of an object is owned by the controller that writes it.
const FieldManager = "nstance-operator-infra"

// Labels.
const (
	// LabelGroup is the key of the group; on our objects and on Nodes.
	LabelGroup = "nstance.dev/group"
	// LabelShard is the shard; on our objects and on Nodes.
	LabelShard = "nstance.dev/shard"
	// LabelPool is the name of the NstanceMachinePool; on what the pool makes.
	LabelPool = "nstance.dev/pool"
	// LabelInstanceID is the id of the instance; on machines and on Nodes. A kubelet can
	// set it on its own Node, so it proves nothing there.
	LabelInstanceID = "nstance.dev/instance-id"
	// LabelManaged is "true" on what the operator made for a cluster.
	LabelManaged = "nstance.dev/managed"
	// LabelStatic is "true" on the MachinePool of a pool whose status says that it is
	// static. A policy that guards its end sees the MachinePool alone.
	LabelStatic = "nstance.dev/static"
)

// Annotations that people set to allow something once.
const (
	// AnnotationForceRemove, "true": remove the object without its server, which may keep
	// its instances.
	AnnotationForceRemove = "nstance.dev/force-remove"
	// AnnotationAllowStaticDelete, "true": a pool of a static group may be deleted.
	AnnotationAllowStaticDelete = "nstance.dev/allow-static-delete"
	// AnnotationAllowClusterDelete, "true": the Cluster, and with it every machine, may be
	// deleted.
	AnnotationAllowClusterDelete = "nstance.dev/allow-cluster-delete"
	// AnnotationAllowShardGroupDelete, "true": an NstanceShardGroup, and with it the part
	// of the pool in that shard, may be deleted.
	AnnotationAllowShardGroupDelete = "nstance.dev/allow-shardgroup-delete"
	// AnnotationNoMachinePool, "true": no MachinePool is made for this NstanceMachinePool.
	AnnotationNoMachinePool = "nstance.dev/no-machinepool"
	// AnnotationInitialReplicas is the size of the MachinePool that is made for an
	// NstanceMachinePool without one.
	AnnotationInitialReplicas = "nstance.dev/initial-replicas"
)

// Annotations that the operator keeps its memory in.
const (
	// AnnotationImportedFrom is where an imported pool came from: `shard=size,…`.
	AnnotationImportedFrom = "nstance.dev/imported-from"
	// AnnotationOrphanedGroups of an NstanceCluster are the groups that deleted pools left on their
	// shards, `group--shard,…`. They are not imported until they are taken off the list.
	AnnotationOrphanedGroups = "nstance.dev/left-groups"
	// AnnotationReleasedTemplate is the template of a group that was static, until the pool
	// says it itself.
	AnnotationReleasedTemplate = "nstance.dev/released-template"
	// AnnotationManagedAnnotations lists the annotations of a MachinePool that are the
	// operator's to change.
	AnnotationManagedAnnotations = "nstance.dev/managed-annotations"
	// AnnotationTokenExpiry is when the token in a kubeconfig ends, RFC 3339.
	AnnotationTokenExpiry = "nstance.dev/token-expiry"
	// AnnotationRetireAfter is when a shard that left its pool is emptied at the latest,
	// RFC 3339.
	AnnotationRetireAfter = "nstance.dev/retire-after"
	// AnnotationRetiredByPool, "true": the pool, not a person, deletes this object.
	AnnotationRetiredByPool = "nstance.dev/retired-by-pool"
	// AnnotationRebalanceFor is a hash of the shards that a pool is being rebalanced for.
	AnnotationRebalanceFor = "nstance.dev/rebalance-for"
	// AnnotationRebalanceNotBefore is when the next instance may move, RFC 3339.
	AnnotationRebalanceNotBefore = "nstance.dev/rebalance-not-before"
	// AnnotationRemovedShards are the shards that a pool does without because a person
	// deleted their part, and since when: `shard=RFC 3339,…`.
	AnnotationRemovedShards = "nstance.dev/removed-shards"
	// AnnotationSurge marks the NstanceShardGroup that has one instance more while another
	// shard is to lose one; since when, RFC 3339.
	AnnotationSurge = "nstance.dev/surge"
	// AnnotationTriedShards are the shards that the operator has chosen for a machine so
	// far, `shard,…`, the last one in force; absent where a person chose.
	AnnotationTriedShards = "nstance.dev/tried-shards"
)

// AnnotationCluster is an annotation of a Node: the Cluster that its instance belongs to, as
// namespace/name. Operators of other Clusters leave the Node alone, though their shards may
// have the same names and do not tell them of the instance.
const AnnotationCluster = "nstance.dev/cluster"

// AnnotationDemandMachine of a Node is the machine of demand mode that it was matched to: demand
// mode deletes the Node when that machine has left the cluster.
const AnnotationDemandMachine = "nstance.dev/demand-machine"

// Annotations of a Node that is being drained: all that the next leader needs.
const (
	AnnotationDrainInstance  = "nstance.dev/drain-instance"
	AnnotationDrainReason    = "nstance.dev/drain-reason"
	AnnotationDrainStartedAt = "nstance.dev/drain-started-at" // RFC 3339
	AnnotationDrainDeadline  = "nstance.dev/drain-deadline"   // RFC 3339
	AnnotationDrainPhase     = "nstance.dev/drain-phase"
	// AnnotationDrainRequest is the id of the shard's instruction that the drain carries out, or
	// says of which rollout of host machines it is, and AnnotationDrainForce what happens to Pods that are left shortly before the deadline.
	AnnotationDrainRequest = "nstance.dev/drain-request"
	AnnotationDrainForce   = "nstance.dev/drain-force"
	// AnnotationCordonedBy is CordonedByOperator if it was the operator that cordoned the
	// Node, and may uncordon it.
	AnnotationCordonedBy = "nstance.dev/cordoned-by"
)

// DrainRequestOfOperation begins the AnnotationDrainRequest of a drain that a MachineOperation asks for;
// its UID follows.
const DrainRequestOfOperation = "operation/"

// CordonedByOperator is the value of AnnotationCordonedBy.
const CordonedByOperator = "nstance-operator"

// DrainPhase is how far a drain is, the value of AnnotationDrainPhase.
type DrainPhase string

// Phases of a drain, in order.
const (
	DrainCordoned  DrainPhase = "Cordoned"
	DrainEvicting  DrainPhase = "Evicting"
	DrainForcing   DrainPhase = "Forcing"
	DrainDetaching DrainPhase = "Detaching"
	DrainDone      DrainPhase = "Done"
)

// Taints of Nodes.
const (
	// TaintDraining, with the reason as its value: nothing new lands here.
	TaintDraining = "nstance.dev/draining"
	// TaintOnDemandClaim keeps other Pods off the Node that was made for one.
	TaintOnDemandClaim = OnDemandClaim
)

// Finalizers.
const (
	FinalizerMachinePool = "nstancemachinepool.infrastructure.cluster.x-k8s.io"
	FinalizerShardGroup  = "nstanceshardgroup.infrastructure.cluster.x-k8s.io"
	FinalizerMachine     = "nstancemachine.infrastructure.cluster.x-k8s.io"
)

// Annotations of a Pod that wants an instance of its own, set by its author.
const (
	// OnDemandGroup is the group that the instance is made from; it asks for one.
	OnDemandGroup = "on-demand.nstance.dev/group"
	// OnDemandInstanceType is the machine type, in the provider's words.
	OnDemandInstanceType = "on-demand.nstance.dev/instance-type"
	// OnDemandShard pins the shard.
	OnDemandShard = "on-demand.nstance.dev/shard"
	// OnDemandVarPrefix and a name: a variable for the user data.
	OnDemandVarPrefix = "on-demand.nstance.dev/var."
	// OnDemandShared, "true": other Pods may land on the Node too.
	OnDemandShared = "on-demand.nstance.dev/shared"
	// OnDemandRetry starts again after a failure whenever its value changes.
	OnDemandRetry = "on-demand.nstance.dev/retry"
)

// Annotations of such a Pod that the operator sets.
const (
	// OnDemandClaim binds Pod and Node: an annotation of the Pod, a label and a taint of
	// the Node.
	OnDemandClaim = "on-demand.nstance.dev/claim"
	// OnDemandMachine is the Machine that was made, as namespace/name.
	OnDemandMachine = "on-demand.nstance.dev/machine"
	// OnDemandState is an OnDemandPhase.
	OnDemandState = "on-demand.nstance.dev/state"
	// OnDemandMessage is what happened last.
	OnDemandMessage = "on-demand.nstance.dev/message"
	// OnDemandTries are the Machines that were made so far, `uid@shard,…`.
	OnDemandTries = "on-demand.nstance.dev/tries"
	// OnDemandRetried is the value of OnDemandRetry at the last failure.
	OnDemandRetried = "on-demand.nstance.dev/retried"
)

// OnDemandEndedAt is an annotation of a Machine: when its Pod was found to have ended, RFC 3339.
const OnDemandEndedAt = "on-demand.nstance.dev/ended-at"

// OnDemandGate is the scheduling gate of a Pod whose Node is still being made.
const OnDemandGate = "on-demand.nstance.dev/provisioning"

// Labels of the Machine and NstanceMachine that were made for a Pod. Where a name is
// too long for a label, its hash stands there, and the annotation of the same key has it.
const (
	LabelOnDemandPodUID       = "on-demand.nstance.dev/pod-uid"
	LabelOnDemandPodNamespace = "on-demand.nstance.dev/pod-namespace"
	LabelOnDemandPodName      = "on-demand.nstance.dev/pod-name"
)

// OnDemandPhase is how far a Pod's own instance is, the value of OnDemandState.
type OnDemandPhase string

// Phases of a Pod's own instance, in order.
const (
	OnDemandProvisioning OnDemandPhase = "Provisioning"
	OnDemandJoined       OnDemandPhase = "Joined"
	OnDemandBound        OnDemandPhase = "Bound"
	OnDemandFailed       OnDemandPhase = "Failed"
	OnDemandReleased     OnDemandPhase = "Released"
)

// AnnotationDeleteForMove is what `clusterctl move` puts on an object that it deletes because
// it lives on in another management cluster (constant DeleteForMoveAnnotation of clusterctl).
const AnnotationDeleteForMove = "clusterctl.cluster.x-k8s.io/delete-for-move"

// AnnotationScaleDownDisabled set to "true" makes the cluster autoscaler leave a Node
// alone. The labels and annotations of Cluster API and of Kubernetes stand in their own
// packages.
const AnnotationScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
