package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HostMachinePhase sums a HostMachine up. Nothing is decided by it.
//
// +kubebuilder:validation:Enum=Deleting;Discovered;Failed;"Off";Pending;Provisioning;AwaitingConfiguration;Paving;Joining;Repaving;Ready;NotReady
type HostMachinePhase string

// Phases, the first one that applies.
const (
	PhaseDeleting              HostMachinePhase = "Deleting"
	PhaseDiscovered            HostMachinePhase = "Discovered"
	PhaseFailed                HostMachinePhase = "Failed"
	PhaseOff                   HostMachinePhase = "Off"
	PhasePending               HostMachinePhase = "Pending"
	PhaseProvisioning          HostMachinePhase = "Provisioning"
	PhaseAwaitingConfiguration HostMachinePhase = "AwaitingConfiguration"
	PhasePaving                HostMachinePhase = "Paving"
	PhaseJoining               HostMachinePhase = "Joining"
	PhaseRepaving              HostMachinePhase = "Repaving"
	PhaseReady                 HostMachinePhase = "Ready"
	PhaseNotReady              HostMachinePhase = "NotReady"
)

// HostMachineStatus is what is known of host and node. Each field has one controller that
// writes it.
type HostMachineStatus struct {
	// observedGeneration of the spec that the configuration was selected for.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase sums the conditions up.
	// +optional
	Phase HostMachinePhase `json:"phase,omitempty"`

	// nodeRef is the Node that was seen to run on this host.
	// +optional
	NodeRef *NodeReference `json:"nodeRef,omitempty"`

	// configuration that the node is built from.
	// +optional
	Configuration *ConfigurationStatus `json:"configuration,omitempty"`

	// provisioning of the host.
	// +optional
	Provisioning *ProvisioningStatus `json:"provisioning,omitempty"`

	// inventory is the hardware that was found.
	// +optional
	Inventory *HardwareInventory `json:"inventory,omitempty"`

	// bmc is the state of the management controller.
	// +optional
	BMC *BMCStatus `json:"bmc,omitempty"`

	// host is what the host last reported.
	// +optional
	Host *HostReport `json:"host,omitempty"`

	// slots are the two places for a node machine on the host.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=2
	Slots []Slot `json:"slots,omitempty"`

	// repave that is under way, or the last one.
	// +optional
	Repave *RepaveStatus `json:"repave,omitempty"`

	// rollout says what a rollout of the machine's configuration has begun with it.
	// +optional
	Rollout *MachineRollout `json:"rollout,omitempty"`

	// prebuild says what is prepared on the machine before it is repaved.
	// +optional
	Prebuild *MachinePrebuild `json:"prebuild,omitempty"`

	// executors say who offers which operations on the machine.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Executors []Executor `json:"executors,omitempty"`

	// operations are the names of the machine's unfinished operations.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	Operations []string `json:"operations,omitempty"`

	// drift are files on the host that differ from what was written.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=32
	Drift []DriftedFile `json:"drift,omitempty"`

	// hold keeps the servers from taking the machine for sick while it is worked on.
	// +optional
	Hold *HoldStatus `json:"hold,omitempty"`

	// conditions of the machine.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeReference names one Node. Another one of the same name has another UID.
type NodeReference struct {
	// name of the Node.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid of the Node; empty: the Node is known to be gone, and none has joined since.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"` // written also where it is empty, whoever wrote the one before
}

// ConfigurationSource says how a configuration was chosen.
//
// +kubebuilder:validation:Enum=Explicit;Selector
type ConfigurationSource string

// Sources of a configuration.
const (
	// SourceExplicit: the machine names it.
	SourceExplicit ConfigurationSource = "Explicit"
	// SourceSelector: its selector matches the machine.
	SourceSelector ConfigurationSource = "Selector"
)

// ConfigurationStatus says what the node is built from.
type ConfigurationStatus struct {
	// source says how the configuration was chosen.
	// +optional
	Source ConfigurationSource `json:"source,omitempty"`

	// desired is what a repave now would build. It may change at any time.
	// +optional
	Desired *VersionReference `json:"desired,omitempty"`

	// assigned is what the host was told to build.
	// +optional
	Assigned *AssignedVersion `json:"assigned,omitempty"`

	// applied is what the Node that runs was built from.
	// +optional
	Applied *AppliedVersion `json:"applied,omitempty"`

	// previous is what the other slot holds, for a quick way back.
	// +optional
	Previous *VersionReference `json:"previous,omitempty"`
}

// AssignedVersion is what a host was told to build.
type AssignedVersion struct {
	VersionReference `json:",inline"`

	// epoch counts the assignments of the machine.
	// +required
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`

	// at is when it was assigned.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
}

// AppliedVersion is what a Node was built from.
type AppliedVersion struct {
	VersionReference `json:",inline"`

	// at is when the Node joined.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
}
