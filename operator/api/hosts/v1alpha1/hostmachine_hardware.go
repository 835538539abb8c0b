package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
