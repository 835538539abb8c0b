package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MachineReference names a HostMachine.
type MachineReference struct {
	// name of the HostMachine.
	// +required
	Name Label `json:"name"`
}

// Names of operations that are predefined. Every other name is a custom one.
const (
	OperationReboot             = "reboot"
	OperationShutdown           = "shutdown"
	OperationRestartService     = "restartService"
	OperationRestartMachine     = "restartMachine"
	OperationRepave             = "repave"
	OperationApplyConfiguration = "applyConfiguration"
	OperationPowerOff           = "powerOff"
	OperationPowerOn            = "powerOn"
	OperationPowerCycle         = "powerCycle"
	OperationCollectLogs        = "collectLogs"
	OperationResetHost          = "resetHost"
)

// ParameterValue is the value of a parameter.
//
// +kubebuilder:validation:MaxLength=4096
type ParameterValue string

// MachineOperationSpec asks for an action. Only the time to live may change.
//
// +kubebuilder:validation:XValidation:rule="has(self.machineRef) != has(self.machineSelector)",message="exactly one of machineRef and machineSelector must be set"
// +kubebuilder:validation:XValidation:rule="self.operationName == oldSelf.operationName && has(self.parameters) == has(oldSelf.parameters) && (!has(self.parameters) || self.parameters == oldSelf.parameters)",message="operationName and parameters are immutable"
// +kubebuilder:validation:XValidation:rule="has(self.machineRef) == has(oldSelf.machineRef) && (!has(self.machineRef) || self.machineRef == oldSelf.machineRef) && has(self.machineSelector) == has(oldSelf.machineSelector) && (!has(self.machineSelector) || self.machineSelector == oldSelf.machineSelector)",message="machineRef and machineSelector are immutable"
// +kubebuilder:validation:XValidation:rule="has(self.timeoutSeconds) == has(oldSelf.timeoutSeconds) && (!has(self.timeoutSeconds) || self.timeoutSeconds == oldSelf.timeoutSeconds) && has(self.maxConcurrent) == has(oldSelf.maxConcurrent) && (!has(self.maxConcurrent) || self.maxConcurrent == oldSelf.maxConcurrent)",message="timeoutSeconds and maxConcurrent are immutable"
type MachineOperationSpec struct {
	// machineRef names the machine.
	// +optional
	MachineRef *MachineReference `json:"machineRef,omitempty"`

	// machineSelector selects machines, each of which gets an operation of its own. Those
	// that match later are not added.
	// +optional
	MachineSelector *MachineSelector `json:"machineSelector,omitempty"`

	// operationName, such as reboot, powerCycle or example.com/packetCapture.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z][A-Za-z0-9]{0,62}|[a-z0-9.-]{1,190}/[A-Za-z0-9._-]{1,62})$`
	OperationName string `json:"operationName"`

	// parameters of the operation.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.size() <= 63)",message="the name of a parameter must be at most 63 characters"
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`

	// ttlSecondsAfterFinished: the object is deleted that long after the operation has
	// finished. Absent: it is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// timeoutSeconds from the start of the operation. Default: by its name.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// maxConcurrent machines at once, with machineSelector; 0: all.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxConcurrent *int32 `json:"maxConcurrent,omitempty"`
}

// OperationState is how far an operation is.
//
// +kubebuilder:validation:Enum=Pending;InProgress;Complete;Failed
type OperationState string

// States of an operation.
const (
	OperationPending    OperationState = "Pending"
	OperationInProgress OperationState = "InProgress"
	OperationComplete   OperationState = "Complete"
	OperationFailed     OperationState = "Failed"
)

// OperationChildren counts the operations that were made for the machines of a selector.
type OperationChildren struct {
	// total of the machines that matched.
	// +optional
	Total int32 `json:"total"`
	// +optional
	Pending int32 `json:"pending"`
	// +optional
	InProgress int32 `json:"inProgress"`
	// +optional
	Complete int32 `json:"complete"`
	// +optional
	Failed int32 `json:"failed"`
}

// MachineOperationStatus is what became of an operation.
type MachineOperationStatus struct {
	// state of the operation. Complete and Failed are final.
	// +optional
	State OperationState `json:"state,omitempty"`

	// reason of the state.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message about it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// executor that has claimed it.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Executor string `json:"executor,omitempty"`

	// attempts so far.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// startTime is when it was taken.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when it had finished.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// deadline after which it fails.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`

	// machineUID is the UID of the machine that it was made for.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MachineUID string `json:"machineUID,omitempty"`

	// observedMachineGeneration is the generation of that machine.
	// +optional
	ObservedMachineGeneration int64 `json:"observedMachineGeneration,omitempty"`

	// results of the operation.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Results map[string]ParameterValue `json:"results,omitempty"`

	// children counts the operations that were made for the machines of a selector.
	// +optional
	Children *OperationChildren `json:"children,omitempty"`

	// conditions of the operation.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MachineOperation asks for one action on a HostMachine, such as a reboot, or for the same
// action on each machine of a set.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=machineoperations,shortName=mop,scope=Cluster
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.metadata.labels.hosts\.nstance\.dev/machine`
// +kubebuilder:printcolumn:name="Operation",type=string,JSONPath=`.spec.operationName`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Executor",type=string,JSONPath=`.status.executor`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Started",type=date,JSONPath=`.status.startTime`,priority=1
// +kubebuilder:printcolumn:name="Finished",type=date,JSONPath=`.status.completionTime`,priority=1
// +kubebuilder:printcolumn:name="Children",type=integer,JSONPath=`.status.children.total`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 180",message="the name must be at most 180 characters: those of the operations on each machine begin with it"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.state) || !(oldSelf.status.state in ['Complete', 'Failed']) || (has(self.status) && has(self.status.state) && self.status.state == oldSelf.status.state)",message="Complete and Failed are final"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.state) || oldSelf.status.state != 'InProgress' || (has(self.status) && has(self.status.state) && self.status.state != 'Pending')",message="an operation that is in progress must not go back to Pending"
type MachineOperation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec asks for the action.
	// +required
	Spec MachineOperationSpec `json:"spec"`

	// status is what became of it.
	// +optional
	Status MachineOperationStatus `json:"status,omitzero"`
}

// MachineOperationList is a list of MachineOperations.
//
// +kubebuilder:object:root=true
type MachineOperationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []MachineOperation `json:"items"`
}
