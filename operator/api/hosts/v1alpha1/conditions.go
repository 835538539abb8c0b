package v1alpha1

// Types of conditions of HostMachines.
const (
	// ConditionProvisioned: the host exists and was seen.
	ConditionProvisioned = "Provisioned"
	// ConditionBMCReachable: the management controller of a physical machine answers.
	ConditionBMCReachable = "BMCReachable"
	// ConditionCleaned: the disks of a physical machine were cleaned.
	ConditionCleaned = "Cleaned"
	// ConditionAgentConnected: the agent of the host has a stream.
	ConditionAgentConnected = "AgentConnected"
	// ConditionPreflightPassed: the host has what a node machine needs.
	ConditionPreflightPassed = "PreflightPassed"
	// ConditionConfigurationPending is True while no version can be assigned; the reason says why.
	ConditionConfigurationPending = "ConfigurationPending"
	// ConditionPaved: a slot of the host runs the assigned version.
	ConditionPaved = "Paved"
	// ConditionNodeJoined: the Node that runs in the assigned slot has joined.
	ConditionNodeJoined = "NodeJoined"
	// ConditionReady: the Node has joined, is ready and runs what is assigned.
	ConditionReady = "Ready"
	// ConditionRepavePending is True while the machine would be built from another version
	// than the one it runs.
	ConditionRepavePending = "RepavePending"
	// ConditionRepaveFailed is True after the last repave was given up.
	ConditionRepaveFailed = "RepaveFailed"
	// ConditionConfigurationDrifted is True while files on the host differ from what was written.
	ConditionConfigurationDrifted = "ConfigurationDrifted"
)

// Types of conditions of MachineConfigurations.
const (
	// ConditionVersionsSynced: the newest version holds the template.
	ConditionVersionsSynced = "VersionsSynced"
	// ConditionSelectorValid: the selector can be read; the message says what it selects.
	ConditionSelectorValid = "SelectorValid"
	// ConditionPrebuilt: the newest version is prepared on the machines that follow.
	ConditionPrebuilt = "Prebuilt"
	// ConditionRollingOut is True while machines are brought to the newest version.
	ConditionRollingOut = "RollingOut"
	// ConditionRolloutHalted is True after a rollout stopped because of failures.
	ConditionRolloutHalted = "RolloutHalted"
)

// Types of conditions of MachineConfigurationVersions.
const (
	// ConditionLocked: the version was assigned, and its content can never change again.
	ConditionLocked = "Locked"
	// ConditionHealthy: machines that were built from it became ready. False: they did not.
	ConditionHealthy = "Healthy"
)

// Types of conditions of MachineOperations.
const (
	// ConditionClaimed: an executor has taken the operation.
	ConditionClaimed = "Claimed"
	// ConditionFinished: the operation is Complete or Failed.
	ConditionFinished = "Finished"
	// ConditionOnHold: the instance of the machine is on hold for the operation. Operations that need none
	// do not have it.
	ConditionOnHold = "OnHold"
)

// Reasons.
const (
	// ReasonNoController goes with Unknown: no controller of this release acts on it.
	ReasonNoController = "NoController"

	// ReasonConnected and ReasonSilent go with AgentConnected: the agent has a stream and a paver
	// behind it; it has none.
	ReasonConnected = "Connected"
	ReasonSilent    = "Silent"
	// ReasonNoPaver goes with AgentConnected=False: the agent of the host offers no paver.
	ReasonNoPaver = "NoPaver"

	// ReasonNoReport goes with Unknown: the host has not reported.
	ReasonNoReport = "NoReport"
	// ReasonPassed goes with PreflightPassed=True. With False the reason is the check that failed.
	ReasonPassed = "Passed"

	// ReasonNotAssigned, ReasonWaiting, ReasonFetching, ReasonBuilding, ReasonRetiring,
	// ReasonBooting and ReasonRunning go with Paved: how far the host is.
	ReasonNotAssigned = "NotAssigned"
	ReasonWaiting     = "Waiting"
	ReasonFetching    = "Fetching"
	ReasonBuilding    = "Building"
	ReasonRetiring    = "Retiring"
	ReasonBooting     = "Booting"
	ReasonRunning     = "Running"

	// ReasonJoined and ReasonNodeGone go with NodeJoined.
	ReasonJoined   = "Joined"
	ReasonNodeGone = "Gone"
	// ReasonNodeReady, ReasonNodeNotReady and ReasonNotAssignedVersion go with Ready: the last of
	// them where the Node runs another version than was assigned.
	ReasonNodeReady          = "NodeReady"
	ReasonNodeNotReady       = "NodeNotReady"
	ReasonNotAssignedVersion = "NotAssignedVersion"

	// ReasonReverted, ReasonHeld and ReasonNotFailed go with RepaveFailed: the machine of before
	// runs again; what failed is left on the host; nothing was given up. Other reasons of True are
	// those of the host, such as FetchFailed and JoinTimeout: its machine was never replaced.
	ReasonReverted  = "Reverted"
	ReasonHeld      = "Held"
	ReasonNotFailed = "NotFailed"

	// ReasonFilesChanged and ReasonNoDrift go with ConfigurationDrifted.
	ReasonFilesChanged = "FilesChanged"
	ReasonNoDrift      = "NoDrift"

	ReasonInstanceRunning = "InstanceRunning"
	ReasonInstanceWaiting = "InstanceNotRunning"
	// ReasonInstanceOff goes with Provisioned: the instance is there, and switched off on purpose.
	ReasonInstanceOff = "PoweredOff"

	// ReasonNoMatch: no selector matches, and the machine names no configuration.
	ReasonNoMatch = "NoMatch"
	// ReasonConfigurationNotFound and ReasonVersionNotFound: what the machine names does not exist.
	ReasonConfigurationNotFound = "ConfigurationNotFound"
	ReasonVersionNotFound       = "VersionNotFound"
	// ReasonVersionSkew: the version's Kubernetes does not go with that of the API server.
	ReasonVersionSkew = "VersionSkew"
	// ReasonConfigurationPaused: the configuration is paused.
	ReasonConfigurationPaused = "ConfigurationPaused"
	// ReasonSecretNotFound: a Secret that the version names does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonResolved goes with ConfigurationPending=False.
	ReasonResolved = "Resolved"

	// ReasonOutdated: the machine runs another version than it would be built from.
	ReasonOutdated = "Outdated"
	// ReasonConfigurationReplaced: the configuration that the machine runs was deleted, and
	// another one has its name.
	ReasonConfigurationReplaced = "ConfigurationReplaced"
	// ReasonUpToDate goes with RepavePending=False.
	ReasonUpToDate = "UpToDate"
	// ReasonNotPaved goes with RepavePending=False: the machine runs no version yet.
	ReasonNotPaved = "NotPaved"
	// ReasonNodeNameConflict: an older HostMachine has the same node name.
	ReasonNodeNameConflict = "NodeNameConflict"
	// ReasonPaused: the HostMachine is paused.
	ReasonPaused = "Paused"
	// ReasonHeldPrefix begins the reason of RepavePending=True where a repave that is due waits, as
	// in Held:FleetBrake; what follows says what for.
	ReasonHeldPrefix = "Held:"

	// ReasonSynced goes with VersionsSynced=True.
	ReasonSynced = "Synced"
	// ReasonNameConflict: an object that the operator did not make has the name of the next version.
	ReasonNameConflict = "NameConflict"
	// ReasonWriting: the newest version is being written.
	ReasonWriting = "Writing"

	// ReasonNoSelector, ReasonMatches, ReasonMatchesNothing and ReasonAmbiguousPriority go
	// with SelectorValid=True: without a selector; machines match; no machine does; another
	// configuration with the same priority selects some of the machines too.
	ReasonNoSelector        = "NoSelector"
	ReasonMatches           = "Matches"
	ReasonMatchesNothing    = "MatchesNothing"
	ReasonAmbiguousPriority = "AmbiguousPriority"
	// ReasonInvalidSelector goes with SelectorValid=False.
	ReasonInvalidSelector = "InvalidSelector"

	// ReasonAssigned and ReasonEditable go with Locked: a machine was assigned; none was yet.
	ReasonAssigned = "Assigned"
	ReasonEditable = "Editable"

	// ReasonRollingOut goes with RollingOut=True. The others go with False: the strategy is OnDelete; the
	// rollout has halted; no window is open, or one cannot be read; none of the outdated machines may
	// be begun, for the reasons that the message has. ReasonPaused, ReasonConfigurationPaused,
	// ReasonUpToDate and ReasonWriting go with False too.
	ReasonRollingOut    = "RollingOut"
	ReasonOnDelete      = "OnDelete"
	ReasonHalted        = "Halted"
	ReasonOutsideWindow = "OutsideWindow"
	ReasonInvalidWindow = "InvalidWindow"
	ReasonBlocked       = "Blocked"
	// ReasonMaxFailures and ReasonVersionUnhealthy go with RolloutHalted=True: as many repaves were given up
	// as may be; condition Healthy of the version is False. ReasonNotHalted goes with False.
	ReasonMaxFailures      = "MaxFailures"
	ReasonVersionUnhealthy = "VersionUnhealthy"
	ReasonNotHalted        = "NotHalted"

	// ReasonPrepared goes with Prebuilt=True. ReasonPreparing, ReasonSettling and ReasonPrebuildFailed go with False: machines
	// are prepared; the template was edited less than a minute ago; machines that could not be prepared are repaved as without.
	// ReasonConfigurationPaused, ReasonWriting and ReasonBlocked go with False too.
	ReasonPrepared       = "Prepared"
	ReasonPreparing      = "Preparing"
	ReasonSettling       = "Settling"
	ReasonPrebuildFailed = "PrebuildFailed"

	// ReasonProven and ReasonMachinesFailed go with Healthy.
	ReasonProven         = "Proven"
	ReasonMachinesFailed = "MachinesFailed"
	// ReasonTooLate goes with Locked=False: it was created after its number had been used.
	ReasonTooLate = "TooLate"
)

// Reasons of events.
const (
	EventMachineCreated        = "MachineCreated"
	EventMachineDeleted        = "MachineDeleted"
	EventConfigurationSelected = "ConfigurationSelected"
	EventConfigurationPending  = "ConfigurationPending"
	EventVersionCreated        = "VersionCreated"
	EventVersionLocked         = "VersionLocked"
	EventVersionPruned         = "VersionPruned"
	EventVersionNameConflict   = "VersionNameConflict"
	EventImageUnresolved       = "ImageUnresolved"
	EventSelectorInvalid       = "SelectorInvalid"
	EventSelectorMatchesNone   = "SelectorMatchesNothing"
	EventPriorityAmbiguous     = "PriorityAmbiguous"
	EventNodeNameConflict      = "NodeNameConflict"
	EventAssigned              = "Assigned"
	EventRepaveTriggered       = "RepaveTriggered"
	EventNodeJoined            = "NodeJoined"
	EventRepavedUndrained      = "RepavedUndrained"
	EventRepaveFailed          = "RepaveFailed"
	EventReverted              = "Reverted"
	EventEpochConflict         = "EpochConflict"
	EventSplitSlots            = "SplitSlots"
	EventJournalCorrupt        = "JournalCorrupt"
	EventResetSkipped          = "ResetSkipped"
	EventCSRDenied             = "CSRDenied"
	EventNodeLabelOverridden   = "NodeLabelOverridden"
	EventDriftFound            = "DriftFound"
	EventFleetBrake            = "FleetBrake"
	EventRolloutStarted        = "RolloutStarted"
	EventRolloutComplete       = "RolloutComplete"
	EventRolloutHalted         = "RolloutHalted"
	EventRolloutResumed        = "RolloutResumed"
	EventRolloutDrainBlocked   = "RolloutDrainBlocked"
	EventRolloutAbandoned      = "RolloutAbandoned"
	EventPrebuildFailed        = "PrebuildFailed"
)
