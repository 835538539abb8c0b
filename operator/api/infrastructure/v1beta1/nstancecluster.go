package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// NstanceClusterSpec is what is wanted of a cluster.
type NstanceClusterSpec struct {
	// controlPlaneEndpoint is where the API server of the cluster is reached. The
	// operator fills it in: with NSTANCE_CAPI_ENDPOINT, else with the address of the API
	// server that it uses itself. It stays once host is set.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
}

// NstanceClusterStatus is what is known of a cluster and its shards.
type NstanceClusterStatus struct {
	// initialization is read by Cluster API; provisioned becomes true at once and stays.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`

	// ready is the same as initialization.provisioned, for older readers.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// failureDomains are the shards, by name, with their zone, region and provider as
	// attributes. What was known of a shard stays while it cannot be reached.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// shards says how the operator stands with each shard of its configuration.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=200
	Shards []ClusterShard `json:"shards,omitempty"`

	// shardsReachable is how many of the shards answer, such as `2/3`.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	ShardsReachable string `json:"shardsReachable,omitempty"`

	// operatorVersion is the version of the operator that wrote this status.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	OperatorVersion string `json:"operatorVersion,omitempty"`

	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, Paused, OperatorRegistered, ShardsReachable, WorkloadReachable,
	// ImportComplete, FeatureDegraded, TenantAwake. Ready is about the cluster object
	// alone; whether shards answer, ShardsReachable says.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterShard is how the operator stands with one shard.
type ClusterShard struct {
	// name of the shard.
	// +required
	Name Name `json:"name"`

	// state of the connection: Connecting, Syncing, Ready, Degraded (calls fail),
	// Unreachable (no answer for 30 seconds), or TenantUnknown (the shard does not know
	// this tenant).
	// +required
	// +kubebuilder:validation:MaxLength=63
	State ShardState `json:"state"`

	// address that is dialled, as host:port.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Address string `json:"address,omitempty"`

	// lastContact is when the shard answered last; absent: not since the operator started.
	// +optional
	LastContact *metav1.Time `json:"lastContact,omitempty"`

	// groups that this tenant has on the shard.
	// +optional
	Groups int32 `json:"groups"`

	// instances that this tenant has on the shard.
	// +optional
	Instances int32 `json:"instances"`

	// term of the shard's leader; it grows with each change of leader.
	// +optional
	Term int64 `json:"term,omitempty"`
}

// ShardState is how far the connection with a shard is.
type ShardState string

// States of a shard, as the operator sees it.
const (
	ShardConnecting    ShardState = "Connecting"
	ShardSyncing       ShardState = "Syncing"
	ShardReady         ShardState = "Ready"
	ShardDegraded      ShardState = "Degraded"
	ShardUnreachable   ShardState = "Unreachable"
	ShardTenantUnknown ShardState = "TenantUnknown"
)

// NstanceCluster is the infrastructure of one Cluster of Cluster API: the shards of one
// tenant. The operator makes it; there is one in a namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=nstanceclusters,scope=Namespaced,shortName=nsc,categories=cluster-api
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta1=v1beta1","cluster.x-k8s.io/v1beta2=v1beta1","cluster.x-k8s.io/provider=infrastructure-nstance","clusterctl.cluster.x-k8s.io="}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster that this belongs to"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint.host`,description="Host of the API server"
// +kubebuilder:printcolumn:name="Shards",type=string,JSONPath=`.status.shardsReachable`,description="Shards that answer, of all"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.controlPlaneEndpoint) || !has(oldSelf.spec.controlPlaneEndpoint.host) || (has(self.spec) && has(self.spec.controlPlaneEndpoint) && self.spec.controlPlaneEndpoint == oldSelf.spec.controlPlaneEndpoint)",message="spec.controlPlaneEndpoint is immutable once host is set, as Cluster API demands; use a DNS name if the address may change"
type NstanceCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +optional
	Spec NstanceClusterSpec `json:"spec,omitempty,omitzero"`

	// status is what is.
	// +optional
	Status NstanceClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (o *NstanceCluster) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (o *NstanceCluster) SetConditions(conditions []metav1.Condition) {
	o.Status.Conditions = conditions
}

// NstanceClusterList is a list of NstanceClusters.
//
// +kubebuilder:object:root=true
type NstanceClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NstanceCluster `json:"items"`
}
