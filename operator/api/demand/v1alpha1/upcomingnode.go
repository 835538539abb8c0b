package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UpcomingNodeSpec is which machine it is, and what its Node will be like.
type UpcomingNodeSpec struct {
	// machineID is the id of the instance.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="machineID is immutable"
	MachineID string `json:"machineID"`

	// shard that announced the machine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="shard is immutable"
	Shard string `json:"shard"`

	// instanceType in the provider's words.
	// +optional
	InstanceType string `json:"instanceType,omitempty"`

	// zone of the machine.
	// +optional
	Zone string `json:"zone,omitempty"`

	// capacityType is on-demand, spot, reserved or bare-metal.
	// +optional
	CapacityType string `json:"capacityType,omitempty"`

	// labels that the kubelet will register.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// resources that the machine offers to Pods.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// taints that the kubelet will register.
	// +optional
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`

	// startupTaints are those of taints that something in the cluster removes once the Node
	// works. A Node that has one is reported not ready.
	// +optional
	// +listType=atomic
	StartupTaints []corev1.Taint `json:"startupTaints,omitempty"`
}

// UpcomingNodePhase is how far a machine is.
//
// +kubebuilder:validation:Enum=Provisioning;Launched;Registered;Ready;Draining;Drained;Failed
type UpcomingNodePhase string

// Phases of a machine.
const (
	UpcomingNodeProvisioning UpcomingNodePhase = "Provisioning"
	UpcomingNodeLaunched     UpcomingNodePhase = "Launched"
	UpcomingNodeRegistered   UpcomingNodePhase = "Registered"
	UpcomingNodeReady        UpcomingNodePhase = "Ready"
	UpcomingNodeDraining     UpcomingNodePhase = "Draining"
	UpcomingNodeDrained      UpcomingNodePhase = "Drained"
	UpcomingNodeFailed       UpcomingNodePhase = "Failed"
)

// NodeReference names a Node.
type NodeReference struct {
	// name of the Node.
	// +required
	Name string `json:"name"`

	// uid of the Node.
	// +required
	UID types.UID `json:"uid"`
}

// UpcomingNodeStatus is how far the machine is.
type UpcomingNodeStatus struct {
	// phase of the machine.
	// +optional
	Phase UpcomingNodePhase `json:"phase,omitempty"`

	// nodeRef is the Node that the machine was matched to.
	// +optional
	NodeRef *NodeReference `json:"nodeRef,omitempty"`

	// providerID of the machine, as in the spec of its Node.
	// +optional
	ProviderID string `json:"providerID,omitempty"`

	// provisioningStartTime is when the machine was first heard of. It is set once.
	// +optional
	ProvisioningStartTime *metav1.Time `json:"provisioningStartTime,omitempty"`

	// lastTransitionTime is when the phase changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`

	// lastError is what went wrong, with phase Failed.
	// +optional
	LastError string `json:"lastError,omitempty"`
}

// UpcomingNode is a machine that a shard has committed to this cluster. The operator writes
// it for people and tools; changing it changes nothing.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=upcomingnodes,shortName=un,scope=Cluster
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.lastTransitionTime`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.instanceType`
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.zone`
// +kubebuilder:printcolumn:name="Capacity",type=string,JSONPath=`.spec.capacityType`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeRef.name`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.lastError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Shard",type=string,priority=1,JSONPath=`.spec.shard`
// +kubebuilder:printcolumn:name="Provider-ID",type=string,priority=1,JSONPath=`.status.providerID`
type UpcomingNode struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is which machine it is.
	// +required
	Spec UpcomingNodeSpec `json:"spec"`

	// status is how far it is.
	// +optional
	Status UpcomingNodeStatus `json:"status,omitzero"`
}

// UpcomingNodeList is a list of UpcomingNodes.
//
// +kubebuilder:object:root=true
type UpcomingNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []UpcomingNode `json:"items"`
}
