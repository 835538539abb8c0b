package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
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

	// uid of the Node.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
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

// ProvisioningStatus is how a host came to be.
type ProvisioningStatus struct {
	// instanceID that the instance is made with, stored before it is asked for.
	// +optional
	InstanceID InstanceID `json:"instanceID,omitempty"`

	// discoveredAt is when an unknown host asked for a network boot.
	// +optional
	DiscoveredAt *metav1.Time `json:"discoveredAt,omitempty"`

	// acceptedAt is when a discovered host was accepted.
	// +optional
	AcceptedAt *metav1.Time `json:"acceptedAt,omitempty"`

	// installedAt is when the system was installed on a physical host.
	// +optional
	InstalledAt *metav1.Time `json:"installedAt,omitempty"`

	// lastError of provisioning.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LastError string `json:"lastError,omitempty"`
}

// HardwareInventory is the hardware of a physical host.
type HardwareInventory struct {
	// cpu is the number of hardware threads.
	// +optional
	CPU int32 `json:"cpu,omitempty"`

	// memory that is installed.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// disks of the host.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Disks []Disk `json:"disks,omitempty"`

	// nics are its network interfaces.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	NICs []NIC `json:"nics,omitempty"`

	// firmware and its version.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Firmware string `json:"firmware,omitempty"`

	// at is when it was looked at.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
}

// Disk of a physical host.
type Disk struct {
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Serial string `json:"serial,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=256
	WWN string `json:"wwn,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// +optional
	Rotational bool `json:"rotational,omitempty"`
}

// NIC is a network interface of a physical host.
type NIC struct {
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// +optional
	MAC MAC `json:"mac,omitempty"`
	// +optional
	SpeedMbps int64 `json:"speedMbps,omitempty"`
	// +optional
	Link bool `json:"link,omitempty"`
	// neighbour that LLDP names.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Neighbour string `json:"neighbour,omitempty"`
}

// PowerState of a physical host.
//
// +kubebuilder:validation:Enum="On";"Off";Unknown
type PowerState string

// Power states.
const (
	PowerOn      PowerState = "On"
	PowerOff     PowerState = "Off"
	PowerUnknown PowerState = "Unknown"
)

// BMCStatus is the state of a management controller.
type BMCStatus struct {
	// certificatePin is the digest of the certificate that was seen first.
	// +optional
	CertificatePin SHA256 `json:"certificatePin,omitempty"`

	// powerState of the host.
	// +optional
	PowerState PowerState `json:"powerState,omitempty"`

	// lastError of a call.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LastError string `json:"lastError,omitempty"`
}

// HostReport is what the host reported.
type HostReport struct {
	// bootID of the host's kernel.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`

	// kernel that the host runs.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Kernel string `json:"kernel,omitempty"`

	// kernelArguments that it was booted with.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	KernelArguments string `json:"kernelArguments,omitempty"`

	// arch of the host.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Arch string `json:"arch,omitempty"`

	// agentVersion and paverVersion are the releases of the programs on the host.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	AgentVersion string `json:"agentVersion,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=128
	PaverVersion string `json:"paverVersion,omitempty"`

	// virtualization is the hypervisor; empty on a physical host.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Virtualization string `json:"virtualization,omitempty"`

	// cgroup is the version of control groups, v1 or v2.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Cgroup string `json:"cgroup,omitempty"`

	// lastReport is when it was heard of.
	// +optional
	LastReport *metav1.Time `json:"lastReport,omitempty"`

	// addresses of the host.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Addresses []Address `json:"addresses,omitempty"`

	// report is the last report of a host that watches the API server itself, as JSON.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Report string `json:"report,omitempty"`
}

// SlotState is the state of a slot.
//
// +kubebuilder:validation:Enum=Empty;Building;Sealed;Running;Stopped;Broken
type SlotState string

// States of a slot.
const (
	SlotEmpty    SlotState = "Empty"
	SlotBuilding SlotState = "Building"
	SlotSealed   SlotState = "Sealed"
	SlotRunning  SlotState = "Running"
	SlotStopped  SlotState = "Stopped"
	SlotBroken   SlotState = "Broken"
)

// Slot is one of the two places for a node machine on a host.
type Slot struct {
	// name of the slot.
	// +required
	// +kubebuilder:validation:Enum=a;b
	Name string `json:"name"`

	// state of what is in it.
	// +optional
	State SlotState `json:"state,omitempty"`

	// version that it was built from, such as gpu-v2.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`

	// bootID of the machine that runs in it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`

	// sizeBytes that it takes on the disk.
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
}

// RepaveStatus is a repave.
type RepaveStatus struct {
	// epoch of the assignment that is built.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// reason of the repave.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// stage that it is in.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Stage string `json:"stage,omitempty"`

	// startedAt is when it began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// attempts so far.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// lastError of an attempt.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LastError string `json:"lastError,omitempty"`
}

// Executor offers operations on a machine.
type Executor struct {
	// name of the executor.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// operations that it offers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Operations []string `json:"operations,omitempty"`
}

// DriftKind says how a file differs.
//
// +kubebuilder:validation:Enum=Changed;Missing
type DriftKind string

// Kinds of drift.
const (
	DriftChanged DriftKind = "Changed"
	DriftMissing DriftKind = "Missing"
)

// DriftedFile is a file that differs from what was written.
type DriftedFile struct {
	// path of the file.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`

	// kind says how it differs.
	// +required
	Kind DriftKind `json:"kind"`
}

// HoldStatus is a hold on the machine's instance.
type HoldStatus struct {
	// reason of the hold.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// operation that it is for.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Operation string `json:"operation,omitempty"`

	// until is when it ends by itself.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}
