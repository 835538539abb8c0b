package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// NstanceControlPlaneSpec is what is wanted of a control plane.
type NstanceControlPlaneSpec struct {
	// controlPlaneEndpoint is where the API server of the cluster is reached, as in the
	// NstanceCluster. It stays once host is set.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
}

// NstanceControlPlaneStatus is what is known of a control plane.
type NstanceControlPlaneStatus struct {
	// initialization is read by Cluster API; controlPlaneInitialized is true, for an API
	// server that can store this object is there.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`

	// externalManagedControlPlane is true: no Machine of this cluster is its control plane.
	// +optional
	ExternalManagedControlPlane bool `json:"externalManagedControlPlane,omitempty"`

	// version of the API server, such as v1.36.3; looked up every 10 minutes.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready and Available.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Initialization says how far the control plane is, for Cluster API.
//
// +kubebuilder:validation:MinProperties=1
type Initialization struct {
	// controlPlaneInitialized is true once the API server has answered. It never goes back.
	// +optional
	ControlPlaneInitialized bool `json:"controlPlaneInitialized,omitempty"`
}

// NstanceControlPlane says that the control plane of a Cluster is there. The operator
// makes one with the name of the Cluster; it provisions nothing.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=nstancecontrolplanes,scope=Namespaced,shortName=nscp,categories=cluster-api
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta1=v1beta1","cluster.x-k8s.io/v1beta2=v1beta1","cluster.x-k8s.io/provider=infrastructure-nstance","clusterctl.cluster.x-k8s.io="}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster that this belongs to"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint.host`,description="Host of the API server"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,description="Version of the API server"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.controlPlaneEndpoint) || !has(oldSelf.spec.controlPlaneEndpoint.host) || (has(self.spec) && has(self.spec.controlPlaneEndpoint) && self.spec.controlPlaneEndpoint == oldSelf.spec.controlPlaneEndpoint)",message="spec.controlPlaneEndpoint is immutable once host is set, as Cluster API demands; use a DNS name if the address may change"
type NstanceControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +optional
	Spec NstanceControlPlaneSpec `json:"spec,omitempty,omitzero"`

	// status is what is.
	// +optional
	Status NstanceControlPlaneStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (o *NstanceControlPlane) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (o *NstanceControlPlane) SetConditions(conditions []metav1.Condition) {
	o.Status.Conditions = conditions
}

// NstanceControlPlaneList is a list of NstanceControlPlanes.
//
// +kubebuilder:object:root=true
type NstanceControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NstanceControlPlane `json:"items"`
}
