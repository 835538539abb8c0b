package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// AssignmentMode is what a host is asked for.
//
// +kubebuilder:validation:Enum=Pave;Repave;Adopt;Reset
type AssignmentMode string

// Modes of an assignment.
const (
	// ModePave: build the first node machine of the host.
	ModePave AssignmentMode = "Pave"
	// ModeRepave: build it again, in place of the one that runs.
	ModeRepave AssignmentMode = "Repave"
	// ModeAdopt: take over the one that runs; nothing is built.
	ModeAdopt AssignmentMode = "Adopt"
	// ModeReset: remove all that was built.
	ModeReset AssignmentMode = "Reset"
)

// RepaveHeld says why a repave that is due has not started.
type RepaveHeld struct {
	// reason in one word.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// message for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// since is when it became due.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// RepaveStatus is a pave or a repave: the last one that was begun, and the next one if it is held up.
type RepaveStatus struct {
	// epoch of the assignment that is built.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// mode is what the host was asked for.
	// +optional
	Mode AssignmentMode `json:"mode,omitempty"`

	// expectedNodeUID is the UID of the Node that may exist when the old machine is stopped;
	// empty: none may.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ExpectedNodeUID string `json:"expectedNodeUID,omitempty"`

	// replacedBootID is the boot of the machine that ran when it began.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ReplacedBootID string `json:"replacedBootID,omitempty"`

	// retry is the value that annotation hosts.nstance.dev/retry had when it began. Another
	// value has it tried again once it was given up.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Retry string `json:"retry,omitempty"`

	// held says why the next one, which is due, has not started.
	// +optional
	Held *RepaveHeld `json:"held,omitempty"`

	// join is about the credential with which the machine joins.
	// +optional
	Join *JoinStatus `json:"join,omitempty"`

	// certificates that were approved for the machine's kubelet.
	// +optional
	Certificates *CertificateStatus `json:"certificates,omitempty"`

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

// JoinStatus is about the credential with which the machine joins. The credential itself stands in
// no object.
type JoinStatus struct {
	// epoch of the assignment that it is for.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// sequence of the credential among those of the epoch, from 1.
	// +optional
	Sequence int32 `json:"sequence,omitempty"`

	// credentialID is how the API server calls it where it is used. Certificates are approved
	// for this one alone; empty: for none.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	CredentialID string `json:"credentialID,omitempty"`

	// issuedAt is when it was made, expiresAt when it ends.
	// +optional
	IssuedAt *metav1.Time `json:"issuedAt,omitempty"`
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
}

// CertificateStatus counts the client certificates that were approved for the machine's kubelet.
type CertificateStatus struct {
	// epoch of the assignment that they were approved for.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// approved certificates of the epoch.
	// +optional
	Approved int32 `json:"approved,omitempty"`

	// lastRequest is the UID of the certificate signing request that was counted last.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastRequest string `json:"lastRequest,omitempty"`
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
	// reason of the hold: rollout, reboot, repave or power.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// until is when it ends by itself.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}
