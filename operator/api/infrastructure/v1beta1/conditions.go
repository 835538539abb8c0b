package v1beta1

// Types of conditions. Each kind says in its status which of them it has.
const (
	// ConditionReady sums up an object.
	ConditionReady = "Ready"
	// ConditionPaused is True while the object or its Cluster is paused.
	ConditionPaused = "Paused"

	// ConditionOperatorRegistered of NstanceCluster: the operator has its certificate, and
	// the nonce that it came with may be deleted.
	ConditionOperatorRegistered = "OperatorRegistered"
	// ConditionShardsReachable of NstanceCluster and NstanceMachinePool: all shards answer.
	ConditionShardsReachable = "ShardsReachable"
	// ConditionWorkloadReachable of NstanceCluster: the API server of the Nodes answers.
	ConditionWorkloadReachable = "WorkloadReachable"
	// ConditionImportComplete of NstanceCluster: all shards said what groups they have, and
	// each has its pool.
	ConditionImportComplete = "ImportComplete"
	// ConditionFeatureDegraded is True where a server lacks something that the operator
	// then does without.
	ConditionFeatureDegraded = "FeatureDegraded"
	// ConditionSpecIgnored of NstanceMachinePool is True where the group is static and fields
	// of the spec say something else than the server's configuration; it names them.
	ConditionSpecIgnored = "SpecIgnored"
	// ConditionTenantAwake of NstanceCluster is False while the tenant sleeps.
	ConditionTenantAwake = "TenantAwake"

	// ConditionShardGroupsReady of NstanceMachinePool: each of its NstanceShardGroups is ready.
	ConditionShardGroupsReady = "ShardGroupsReady"
	// ConditionScaling of NstanceMachinePool is True until size and instances agree.
	// ConditionScalingUp and ConditionScalingDown, which Cluster API has too, say in which
	// direction; they replace it.
	ConditionScaling     = "Scaling"
	ConditionScalingUp   = "ScalingUp"
	ConditionScalingDown = "ScalingDown"
	// ConditionRebalancing of NstanceMachinePool is True while an instance moves between shards.
	ConditionRebalancing = "Rebalancing"
	// ConditionCapacityAvailable of NstanceMachinePool and NstanceShardGroup: the provider
	// has room, as far as is known.
	ConditionCapacityAvailable = "CapacityAvailable"
	// ConditionProviderIDsUnique of NstanceMachinePool: no two instances have provider ids
	// that end alike.
	ConditionProviderIDsUnique = "ProviderIDsUnique"
	// ConditionNodesJoined of NstanceMachinePool: each running instance has a Node.
	ConditionNodesJoined = "NodesJoined"
	// ConditionPoolConflict of NstanceMachinePool is True while another pool has the same
	// group on one of the shards, several MachinePools refer to it, or none can be made for
	// it because other pools' have the names.
	ConditionPoolConflict = "PoolConflict"
	// ConditionZonalAutoscaling of NstanceMachinePool is False where an autoscaler cannot
	// tell the zones of the pool apart.
	ConditionZonalAutoscaling = "ZonalAutoscaling"
	// ConditionCapacityKnown of NstanceMachinePool is False where an autoscaler is to scale the
	// pool and cannot learn what cpu and memory its machines have.
	ConditionCapacityKnown = "CapacityKnown"
	// ConditionDemandAllowed of NstanceMachinePool with spec.demand is False while the pool
	// keeps its fixed size nevertheless; it says what has to be done first.
	ConditionDemandAllowed = "DemandAllowed"
	// ConditionLimitReached of NstanceMachinePool with spec.demand is True where max or a limit
	// keeps machines from being bought.
	ConditionLimitReached = "LimitReached"
	// ConditionDeleting of NstanceMachinePool and NstanceMachine is True while the object is
	// being deleted; it says what its end waits for.
	ConditionDeleting = "Deleting"

	// ConditionShardReachable of NstanceShardGroup: its shard answers.
	ConditionShardReachable = "ShardReachable"
	// ConditionConfigValid of NstanceShardGroup: the server accepted the spec.
	ConditionConfigValid = "ConfigValid"
	// ConditionInstancesSynced of NstanceShardGroup: the shard's instances are known in full.
	ConditionInstancesSynced = "InstancesSynced"

	// ConditionInstanceProvisioned of NstanceMachine: the provider runs the machine.
	ConditionInstanceProvisioned = "InstanceProvisioned"
	// ConditionNodeCorrelated of NstanceMachine: its Node is known.
	ConditionNodeCorrelated = "NodeCorrelated"
	// ConditionDraining of NstanceMachine is True while its Node is emptied.
	ConditionDraining = "Draining"
	// ConditionServerDeleted of NstanceMachine is True once the instance was deleted. It says
	// nothing of the server itself.
	ConditionServerDeleted = "ServerDeleted"

	// ConditionGroupKnown of NstanceMachineTemplate: some shard has the group.
	ConditionGroupKnown = "GroupKnown"
	// ConditionAvailable of NstanceControlPlane: the API server answers.
	ConditionAvailable = "Available"
)

// Reasons of conditions that are as they should be, or that need no other word.
const (
	ReasonReady       = "Ready"
	ReasonNotReady    = "NotReady"
	ReasonProvisioned = "Provisioned"
	ReasonPaused      = "Paused"
	ReasonNotPaused   = "NotPaused"
	ReasonReachable   = "Reachable"
	ReasonSynced      = "Synced"
	ReasonAccepted    = "Accepted"
	ReasonAvailable   = "Available"
	ReasonRegistered  = "Registered"
	ReasonComplete    = "Complete"
	ReasonNotDeleting = "NotDeleting"
	ReasonUnknown     = "Unknown"
)

// Reasons about shards and connections.
const (
	ReasonShardUnreachable      = "ShardUnreachable"
	ReasonShardNotConfigured    = "ShardNotConfigured"
	ReasonShardIdentityMismatch = "ShardIdentityMismatch"
	ReasonShardAuthFailed       = "ShardAuthFailed"
	ReasonTenantUnknown         = "TenantUnknown"
	ReasonTenantAsleep          = "TenantAsleep"
	ReasonTenantAwake           = "TenantAwake"
	ReasonConnecting            = "Connecting"
	ReasonWaitingForShards      = "WaitingForShards"
	ReasonInventoryIncomplete   = "InventoryIncomplete"
	ReasonInventoryShrunk       = "InventoryShrunk"
	ReasonFeatureMissing        = "FeatureMissing"
)

// Reasons about the operator itself and about its clusters.
const (
	ReasonCertificateMissing         = "CertificateMissing"
	ReasonCertificateExpired         = "CertificateExpired"
	ReasonCertificateExpiring        = "CertificateExpiring"
	ReasonKubeconfigMissing          = "KubeconfigMissing"
	ReasonMachinePoolFeatureDisabled = "MachinePoolFeatureDisabled"
	ReasonForbidden                  = "Forbidden"
)

// Reasons about pools and their parts.
const (
	ReasonScaling             = "Scaling"
	ReasonNotScaling          = "NotScaling"
	ReasonScalingUp           = "ScalingUp"
	ReasonNotScalingUp        = "NotScalingUp"
	ReasonScalingDown         = "ScalingDown"
	ReasonNotScalingDown      = "NotScalingDown"
	ReasonNoConflict          = "NoConflict"
	ReasonNotDegraded         = "NotDegraded"
	ReasonNotIgnored          = "NotIgnored"
	ReasonNotAutoscaled       = "NotAutoscaled"
	ReasonImportDisabled      = "ImportDisabled"
	ReasonShrinkBlocked       = "ShrinkBlocked"
	ReasonUnreachable         = "Unreachable"
	ReasonRejected            = "Rejected"
	ReasonCapacityUnavailable = "CapacityUnavailable"
	ReasonInsufficient        = "InsufficientCapacity"
	ReasonQuotaExceeded       = "QuotaExceeded"
	ReasonFoughtOver          = "FoughtOver"
	ReasonManagedByOther      = "ManagedByOther"
	ReasonMoving              = "Moving"
	ReasonStalled             = "Stalled"
	ReasonBalanced            = "Balanced"
	ReasonBlocked             = "Blocked"
	ReasonWaiting             = "Waiting"
	ReasonMachinesDisabled    = "MachinesDisabled"
	ReasonDuplicateTail       = "DuplicateProviderIDTail"
	ReasonUnique              = "Unique"
	ReasonWaitingForNodes     = "WaitingForNodes"
	ReasonSharedShard         = "SharedShard"

	// ReasonSeveralMachinePools and ReasonMachinePoolNameTaken go with PoolConflict: more
	// than one MachinePool refers to the pool, or none can be made for it.
	ReasonSeveralMachinePools  = "SeveralMachinePools"
	ReasonMachinePoolNameTaken = "MachinePoolNameTaken"

	ReasonMultiShardPool    = "MultiShardPool"
	ReasonSingleShardPool   = "SingleShardPool"
	ReasonCapacityUnknown   = "CapacityUnknown"
	ReasonDeletingInstances = "DeletingInstances"
)

// Reasons about demand pools.
const (
	ReasonAllowed               = "Allowed"
	ReasonAutoscalerAnnotations = "AutoscalerAnnotations"
	ReasonMachinePoolExists     = "MachinePoolExists"
	ReasonWithinLimits          = "WithinLimits"
	ReasonMaxReached            = "MaxReached"
	ReasonLimitReached          = "LimitReached"
	ReasonSwitching             = "Switching"
)

// Reasons about machines.
const (
	ReasonProvisioning     = "Provisioning"
	ReasonWaitingForOwner  = "WaitingForOwner"
	ReasonWaitingForAgent  = "WaitingForAgent"
	ReasonWaitingForNode   = "WaitingForNode"
	ReasonRunning          = "Running"
	ReasonPoweredOff       = "PoweredOff"
	ReasonUnhealthy        = "Unhealthy"
	ReasonDraining         = "Draining"
	ReasonDrained          = "Drained"
	ReasonStaticGroup      = "StaticGroup"
	ReasonFieldsKept       = "FieldsKept"
	ReasonTooManyReplicas  = "TooManyReplicas"
	ReasonNodeUncertain    = "NodeUncertain"
	ReasonDeleting         = "Deleting"
	ReasonServerDeleted    = "ServerDeleted"
	ReasonInvalidRequest   = "InvalidRequest"
	ReasonGroupNotFound    = "GroupNotFound"
	ReasonGroupFound       = "GroupFound"
	ReasonProvisionTimeout = "ProvisionTimeout"
	ReasonCorrelated       = "Correlated"
	ReasonMismatch         = "ProviderIDMismatch"
)
