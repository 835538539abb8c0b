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
	// ReasonNotBegun: not all operations of the same selector are made.
	ReasonNotBegun = "NotBegun"
	// ReasonLimited: as many operations of the same selector are under way as may.
	ReasonLimited = "Limited"
	// ReasonOffered: the executor that the label names may take it.
	ReasonOffered = "Offered"
	// ReasonClaimed: an executor has taken it.
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
	// ReasonExpired: nobody has taken it in time.
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

// Reasons of events of MachineOperations.
const (
	EventOperationStarted  = "OperationStarted"
	EventOperationComplete = "OperationComplete"
	EventOperationFailed   = "OperationFailed"
)
