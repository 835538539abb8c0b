package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// NstanceMachineTemplateSpec is what machines are cloned from. It stays: a change is
// another template.
type NstanceMachineTemplateSpec struct {
	// template of the machines.
	// +required
	Template NstanceMachineTemplateResource `json:"template"`
}

// NstanceMachineTemplateResource is an NstanceMachine to be.
type NstanceMachineTemplateResource struct {
	// metadata that the machines get: labels and annotations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec of the machines. They are on-demand instances.
	// +required
	Spec MachineSettings `json:"spec"`
}

// NstanceMachineTemplateStatus is what is known of the machines to be.
type NstanceMachineTemplateStatus struct {
	// capacity that is left for Pods on one Node, by resource, for an autoscaler that
	// must decide while there is none. Quantities are strings.
	// +optional
	Capacity ResourceList `json:"capacity,omitempty"`

	// nodeInfo is the system of the Nodes.
	// +optional
	NodeInfo *NodeInfo `json:"nodeInfo,omitempty"`

	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: GroupKnown (some shard has the group), Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NstanceMachineTemplate is what a MachineDeployment or MachineSet clones its machines
// from. They are on-demand instances of the group.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=nstancemachinetemplates,scope=Namespaced,shortName=nsmt,categories=cluster-api
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta1=v1beta1","cluster.x-k8s.io/v1beta2=v1beta1","cluster.x-k8s.io/provider=infrastructure-nstance","clusterctl.cluster.x-k8s.io="}
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.template.spec.groupRef.name`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.template.spec.instanceType`
// +kubebuilder:printcolumn:name="Known",type=string,JSONPath=`.status.conditions[?(@.type=="GroupKnown")].status`,description="Whether a shard has the group"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NstanceMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what machines are cloned from.
	// +required
	Spec NstanceMachineTemplateSpec `json:"spec"`

	// status is what is known.
	// +optional
	Status NstanceMachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (o *NstanceMachineTemplate) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (o *NstanceMachineTemplate) SetConditions(conditions []metav1.Condition) {
	o.Status.Conditions = conditions
}

// NstanceMachineTemplateList is a list of NstanceMachineTemplates.
//
// +kubebuilder:object:root=true
type NstanceMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NstanceMachineTemplate `json:"items"`
}
