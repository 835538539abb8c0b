package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InstanceReference names an instance of the servers.
type InstanceReference struct {
	// shard that the instance is on.
	// +required
	Shard Name `json:"shard"`

	// tenant that it belongs to.
	// +required
	Tenant Name `json:"tenant"`

	// group that it belongs to.
	// +required
	Group Name `json:"group"`

	// id of the instance.
	// +required
	ID InstanceID `json:"id"`

	// onDemand: it was made by itself, not to keep the size of its group.
	// +optional
	OnDemand bool `json:"onDemand,omitempty"`
}

// CapacityType is how a machine is paid for.
//
// +kubebuilder:validation:Enum=OnDemand;Spot
type CapacityType string

// Capacity types.
const (
	CapacityOnDemand CapacityType = "OnDemand"
	CapacitySpot     CapacityType = "Spot"
)

// ReclaimPolicy says what becomes of the instance when its HostMachine is deleted.
//
// +kubebuilder:validation:Enum=Delete;Release
type ReclaimPolicy string

// Reclaim policies.
const (
	// ReclaimDelete: the instance is deleted.
	ReclaimDelete ReclaimPolicy = "Delete"
	// ReclaimRelease: it is reset and stays in its group as an on-demand instance.
	ReclaimRelease ReclaimPolicy = "Release"
)

// CloudHost says what instance is made for a HostMachine of provisioner cloud.
type CloudHost struct {
	// shard that the instance is made on.
	// +required
	Shard Name `json:"shard"`

	// group whose template it is made from.
	// +required
	Group Name `json:"group"`

	// instanceType in the provider's words, if it shall not be the group's.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	InstanceType string `json:"instanceType,omitempty"`

	// capacityType, if it shall not be the group's.
	// +optional
	CapacityType CapacityType `json:"capacityType,omitempty"`

	// reclaimPolicy says what becomes of the instance when the HostMachine is deleted.
	// +optional
	// +kubebuilder:default=Delete
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// namespace of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// BMC is the management controller of a physical machine.
type BMC struct {
	// url of its Redfish service.
	// +required
	URL URL `json:"url"`

	// username that it is asked with, unless the Secret has one.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Username string `json:"username,omitempty"`

	// secretRef names the Secret with the password.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`

	// systemID of the machine in the service.
	// +optional
	// +kubebuilder:default="1"
	// +kubebuilder:validation:MaxLength=128
	SystemID string `json:"systemID,omitempty"`
}

// Hardware says how a physical or foreign host is recognised.
type Hardware struct {
	// serial number of the machine.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Serial string `json:"serial,omitempty"`

	// macAddresses of its network interfaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	MACAddresses []MAC `json:"macAddresses,omitempty"`

	// addresses of the host.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Addresses []Address `json:"addresses,omitempty"`

	// bmc is its management controller.
	// +optional
	BMC *BMC `json:"bmc,omitempty"`
}

// ConfigurationReference names the configuration that a machine is built from.
type ConfigurationReference struct {
	// name of the MachineConfiguration.
	// +required
	Name ConfigurationName `json:"name"`

	// version that the machine is kept at. Default: the newest.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Version *int32 `json:"version,omitempty"`
}

// FailurePolicy says what happens when a repave does not join.
//
// +kubebuilder:validation:Enum=Revert;Hold
type FailurePolicy string

// Failure policies.
const (
	// FailureRevert: the machine that ran before is booted again.
	FailureRevert FailurePolicy = "Revert"
	// FailureHold: what failed is left for inspection.
	FailureHold FailurePolicy = "Hold"
)

// HostMachineSpec says which host it is, who owns it, and how its node is built.
//
// +kubebuilder:validation:XValidation:rule="self.provisioner == oldSelf.provisioner",message="provisioner is immutable"
// +kubebuilder:validation:XValidation:rule="(self.provisioner != 'nstance' || has(self.instance)) && (self.provisioner == 'cloud') == has(self.cloud) && (!has(self.instance) || self.provisioner in ['nstance', 'cloud']) && (!has(self.pxe) || self.provisioner == 'pxe')",message="instance goes with provisioner nstance, which requires it, and cloud; cloud goes with provisioner cloud, which requires it; pxe goes with provisioner pxe"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.instance) || (has(self.instance) && self.instance == oldSelf.instance)",message="instance is immutable once it is set"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || size(oldSelf.providerID) == 0 || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is immutable once it is set"
// +kubebuilder:validation:XValidation:rule="has(self.nodeName) == has(oldSelf.nodeName) && (!has(self.nodeName) || self.nodeName == oldSelf.nodeName)",message="nodeName is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.cloud) == has(oldSelf.cloud) && (!has(self.cloud) || self.cloud == oldSelf.cloud)",message="cloud is immutable"
type HostMachineSpec struct {
	// provisioner is who owns the host and its power: nstance, cloud, manual, pxe, or
	// <domain>/<name> of a controller of others.
	// +optional
	// +kubebuilder:default=nstance
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^(nstance|cloud|manual|pxe|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$`
	Provisioner string `json:"provisioner,omitempty"`

	// instance of the servers. With provisioner cloud the operator sets it.
	// +optional
	Instance *InstanceReference `json:"instance,omitempty"`

	// cloud says what instance is made, with provisioner cloud.
	// +optional
	Cloud *CloudHost `json:"cloud,omitempty"`

	// pxe says how the host is booted and installed, with provisioner pxe.
	// +optional
	PXE *PXEHost `json:"pxe,omitempty"`

	// providerID of the host. That of the Node must be the same.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// hardware says how a physical or foreign host is recognised.
	// +optional
	Hardware *Hardware `json:"hardware,omitempty"`

	// nodeName is the name of the Node. Default: that of the HostMachine.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	NodeName string `json:"nodeName,omitempty"`

	// configurationRef names the configuration. Default: the one whose selector matches.
	// Only users write it.
	// +optional
	ConfigurationRef *ConfigurationReference `json:"configurationRef,omitempty"`

	// failurePolicy says what happens when a repave does not join.
	// +optional
	// +kubebuilder:default=Revert
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// paused: no pave, repave or operation is started; running ones finish.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// HostMachine is a VM or a physical machine whose Kubernetes node runs in a systemd-nspawn
// machine on it. It stands for one Node: when that is deleted the node machine is built
// again, from the newest version of its configuration or from the one that is named.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=hostmachines,shortName=hm,scope=Cluster
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeRef.name`
// +kubebuilder:printcolumn:name="Provisioner",type=string,JSONPath=`.spec.provisioner`
// +kubebuilder:printcolumn:name="Config",type=string,JSONPath=`.status.configuration.applied.name`
// +kubebuilder:printcolumn:name="Version",type=integer,JSONPath=`.status.configuration.applied.version`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.configuration.desired.version`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.instance.group`,priority=1
// +kubebuilder:printcolumn:name="Shard",type=string,JSONPath=`.spec.instance.shard`,priority=1
// +kubebuilder:printcolumn:name="Provider-ID",type=string,JSONPath=`.spec.providerID`,priority=1
// +kubebuilder:printcolumn:name="Slot",type=string,JSONPath=`.status.slots[?(@.state=="Running")].name`,priority=1
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.repave.stage`,priority=1
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.paused`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name must be at most 63 characters a to z, 0 to 9 and hyphens: it is the value of a label, a host name and a directory"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.configuration) || !has(oldSelf.status.configuration.assigned) || (has(self.status) && has(self.status.configuration) && has(self.status.configuration.assigned) && self.status.configuration.assigned.epoch >= oldSelf.status.configuration.assigned.epoch)",message="status.configuration.assigned.epoch must not fall"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.instance) || !has(oldSelf.status) || !has(oldSelf.status.provisioning) || !has(oldSelf.status.provisioning.instanceID) || (has(self.status) && has(self.status.provisioning) && has(self.status.provisioning.instanceID) && self.status.provisioning.instanceID == oldSelf.status.provisioning.instanceID)",message="status.provisioning.instanceID is immutable once the instance is known"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.pxe) || !has(oldSelf.status) || !has(oldSelf.status.provisioning) || !has(oldSelf.status.provisioning.installedAt) || (has(self.spec.pxe) && self.spec.pxe.boot == oldSelf.spec.pxe.boot && self.spec.pxe.installTo == oldSelf.spec.pxe.installTo && self.spec.pxe.firmware == oldSelf.spec.pxe.firmware && has(self.spec.pxe.bootMAC) == has(oldSelf.spec.pxe.bootMAC) && (!has(self.spec.pxe.bootMAC) || self.spec.pxe.bootMAC == oldSelf.spec.pxe.bootMAC) && has(self.spec.pxe.adopt) == has(oldSelf.spec.pxe.adopt) && (!has(self.spec.pxe.adopt) || self.spec.pxe.adopt == oldSelf.spec.pxe.adopt) && has(self.spec.pxe.rootDeviceHints) == has(oldSelf.spec.pxe.rootDeviceHints) && (!has(self.spec.pxe.rootDeviceHints) || self.spec.pxe.rootDeviceHints == oldSelf.spec.pxe.rootDeviceHints))",message="of pxe only cleaning and networkData may change once the host is installed"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.provisioning) || !has(oldSelf.status.provisioning.installedAt) || (has(self.status) && has(self.status.provisioning) && has(self.status.provisioning.installedAt) && self.status.provisioning.installedAt == oldSelf.status.provisioning.installedAt)",message="status.provisioning.installedAt is immutable once it is set"
type HostMachine struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says which host it is, who owns it, and how its node is built.
	// +required
	Spec HostMachineSpec `json:"spec"`

	// status is what is known of host and node.
	// +optional
	Status HostMachineStatus `json:"status,omitzero"`
}

// NodeName is the name of the machine's Node.
func (m *HostMachine) NodeName() string {
	if m.Spec.NodeName != "" {
		return m.Spec.NodeName
	}
	return m.Name
}

// HostMachineList is a list of HostMachines.
//
// +kubebuilder:object:root=true
type HostMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []HostMachine `json:"items"`
}
