package v1alpha1

// Names of executors of predefined operations.
const (
	// ExecutorPaver runs on the host.
	ExecutorPaver = "paver"
	// ExecutorProvider is the servers, which switch the power of instances.
	ExecutorProvider = "provider"
	// ExecutorController is the operator.
	ExecutorController = "operator"
)

// Reasons of MachineOperations, in status.reason and in condition Claimed or Finished.
const (
	// ReasonNoExecutor: nobody offers the operation on the machine.
	ReasonNoExecutor = "NoExecutor"
	// ReasonQueued: another operation of the machine comes first.
	ReasonQueued = "Queued"
	// ReasonRepaving: the machine is being repaved.
	ReasonRepaving = "Repaving"
	// ReasonOnHold: the instance cannot be put on hold, or is on hold for something else.
	ReasonOnHold = "OnHold"
	// ReasonPoweredOff: the machine is switched off on purpose.
	ReasonPoweredOff = "PoweredOff"
	// ReasonNotBegun: not all operations of the same selector are made.
	ReasonNotBegun = "NotBegun"
	// ReasonLimited: as many operations of the same selector are under way as may.
	ReasonLimited = "Limited"
	// ReasonOffered: the executor that the label names may take it.
	ReasonOffered = "Offered"
	// ReasonNotClaimed: its executor did not claim it in its turn, and others have theirs.
	ReasonNotClaimed = "NotClaimed"
	// ReasonClaimed: an executor has claimed it.
	ReasonClaimed = "Claimed"
	// ReasonBegun: the operations of the selected machines are made.
	ReasonBegun = "Begun"

	// ReasonSucceeded goes with Complete.
	ReasonSucceeded = "Succeeded"
	// ReasonExecutorFailed: the executor says that it failed, and nothing else.
	ReasonExecutorFailed = "ExecutorFailed"
	// ReasonInvalidParameters: the parameters are not those of the operation.
	ReasonInvalidParameters = "InvalidParameters"
	// ReasonMachineReplaced: the machine is another one of the same name.
	ReasonMachineReplaced = "MachineReplaced"
	// ReasonExpired: no executor has claimed it in time.
	ReasonExpired = "Expired"
	// ReasonTimeout: it was not done by its deadline.
	ReasonTimeout = "Timeout"
	// ReasonExecutorLost: the executor has said nothing until after the deadline.
	ReasonExecutorLost = "ExecutorLost"
	// ReasonInterrupted: the executor does not know whether it was done, and may not do it again.
	ReasonInterrupted = "Interrupted"
	// ReasonRefusedByHost: the policy of the host does not allow it.
	ReasonRefusedByHost = "RefusedByHost"
	// ReasonNoMachines: the selector selects none.
	ReasonNoMachines = "NoMachines"
	// ReasonChildrenFailed: the operation failed on some of the machines.
	ReasonChildrenFailed = "ChildrenFailed"
	// ReasonCancelled: it was ended before it had begun.
	ReasonCancelled = "Cancelled"
)

// Reasons of condition OnHold.
const (
	// ReasonHoldOwn: it was put on hold for this operation, and that ends with it.
	ReasonHoldOwn = "Set"
	// ReasonHoldTakenOver: it was off on hold before; that ends when the operation is complete.
	ReasonHoldTakenOver = "TakenOver"
	// ReasonHoldFound: it was on hold before, and stays so.
	ReasonHoldFound = "Found"
	// ReasonHoldKept: it stays on hold because it is off on purpose.
	ReasonHoldKept = "KeptOff"
	// ReasonHoldCleared goes with False: the hold was ended.
	ReasonHoldCleared = "Cleared"
	// ReasonHoldGone goes with False: the machine is gone, or the hold has ended by itself.
	ReasonHoldGone = "Gone"
)

// Reasons of holds, in the words of the servers.
const (
	// HoldRollout: a rollout has begun its machine, whose Node is drained.
	HoldRollout = "rollout"
	// HoldReboot: its host reboots.
	HoldReboot = "reboot"
	// HoldRepave: its node machine is built.
	HoldRepave = "repave"
	// HoldPower: it is switched off, or off and on.
	HoldPower = "power"
)

// Reasons of events of MachineOperations.
const (
	EventOperationStarted  = "OperationStarted"
	EventOperationComplete = "OperationComplete"
	EventOperationFailed   = "OperationFailed"
)
