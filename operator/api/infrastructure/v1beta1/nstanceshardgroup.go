package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NstanceShardGroupSpec is what the operator wants of one group on one shard. Only the
// operator writes it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.size) || !has(self.demand)",message="spec.size has no meaning beside spec.demand; leave writing these objects to the operator"
type NstanceShardGroupSpec struct {
	// group is the key of the group. It stays.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.group is immutable; the pool creates a new NstanceShardGroup for another group"
	Group Name `json:"group"`

	// shard that keeps this part of the group. It stays.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.shard is immutable; the pool creates a new NstanceShardGroup for another shard"
	Shard Name `json:"shard"`

	// size is how many instances the shard shall keep once all those in retiring are gone.
	// Absent with demand. Absent without it as well: as many as there are when the shard is
	// told that the group has a fixed size; the operator writes that number then.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Size *int32 `json:"size,omitempty"`

	// demand is the shard's share of what the pool says; min, max, minIdle and limits are the
	// shard's part.
	// +optional
	Demand *DemandSettings `json:"demand,omitempty"`

	// instanceRequirements of a demand pool, copied from the pool.
	// +optional
	InstanceRequirements *InstanceRequirements `json:"instanceRequirements,omitempty"`

	// retiring are the instances that leave on purpose: with each that is gone the
	// server's size goes down by one. Until then they count on top of size.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	Retiring []InstanceID `json:"retiring,omitempty"`

	// template of the instances, copied from the pool; empty while the group is static.
	// +optional
	Template Name `json:"template,omitempty"`

	// subnets is the subnet pool of the instances, copied from the pool; empty while the
	// group is static.
	// +optional
	Subnets Name `json:"subnets,omitempty"`

	// instanceType of the instances, copied from the pool.
	// +optional
	InstanceType InstanceType `json:"instanceType,omitempty"`

	// vars for the user data, copied from the pool.
	// +optional
	Vars Vars `json:"vars,omitempty"`

	// loadBalancers that the instances are registered with, copied from the pool.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	LoadBalancers []Name `json:"loadBalancers,omitempty"`
}

// NstanceShardGroupStatus is what the shard said about its part of the group.
type NstanceShardGroupStatus struct {
	// observedGeneration is the last generation of the spec that the server accepted.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// isStatic is whether the server's own configuration has the group. Its template and
	// subnets are then the server's to say.
	// +optional
	IsStatic bool `json:"isStatic,omitempty"`

	// config is what the server made of its configuration and of the spec together.
	// +optional
	Config *GroupConfig `json:"config,omitempty"`

	// serverSize is the size that the server works with; absent: not known yet.
	// +optional
	ServerSize *int32 `json:"serverSize,omitempty"`

	// mode of the group on the server, fixed or demand; empty: not known yet.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Mode string `json:"mode,omitempty"`

	// demand is what the shard has of a demand pool; absent: the group has a fixed size.
	// +optional
	Demand *DemandStatus `json:"demand,omitempty"`

	// replicas are the instances that run.
	// +optional
	Replicas int32 `json:"replicas"`

	// pending are the instances that do not run yet.
	// +optional
	Pending int32 `json:"pending"`

	// draining are the instances whose end is decided and that are still there.
	// +optional
	Draining int32 `json:"draining"`

	// unhealthy are the instances that are sick and whose end is not decided yet.
	// +optional
	Unhealthy int32 `json:"unhealthy"`

	// providerIDs of the instances that have a machine, sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	ProviderIDs []ProviderID `json:"providerIDs,omitempty"`

	// zone of the shard, in the provider's words.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Zone string `json:"zone,omitempty"`

	// region of the shard, in the provider's words.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Region string `json:"region,omitempty"`

	// provider of the shard: local, aws, google or proxmox.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Provider string `json:"provider,omitempty"`

	// kind of the template: the first three letters of its instances' ids.
	// +optional
	// +kubebuilder:validation:MaxLength=3
	Kind string `json:"kind,omitempty"`

	// arch is the processor architecture of the instances, such as amd64.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Arch string `json:"arch,omitempty"`

	// capacity of one instance as the server reports it, by resource. Quantities are strings.
	// +optional
	Capacity ResourceList `json:"capacity,omitempty"`

	// lastSyncTime is when the status was last taken from the server. It is written at
	// most once a minute unless something else changes.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`

	// sent are the optional fields of the spec that the server was told: one that is taken
	// out of the spec is then cleared on the server, while one that was never there is the
	// server's to say.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Sent []string `json:"sent,omitempty"`

	// repairs are when the server's group was last brought back to what the spec says,
	// after somebody else had changed it; those of the last ten minutes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Repairs []metav1.Time `json:"repairs,omitempty"`

	// conditions: Ready, Paused, ShardReachable, ConfigValid, InstancesSynced,
	// CapacityAvailable.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GroupConfig is the configuration of a group as a server works with it.
type GroupConfig struct {
	// template of the instances.
	// +optional
	Template Name `json:"template,omitempty"`

	// subnets is the subnet pool of the instances.
	// +optional
	Subnets Name `json:"subnets,omitempty"`

	// instanceType in the provider's words.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	InstanceType string `json:"instanceType,omitempty"`

	// instanceTypes that the group may have; absent: any, or the server does not say.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=63
	InstanceTypes []string `json:"instanceTypes,omitempty"`

	// loadBalancers of the instances.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	LoadBalancers []Name `json:"loadBalancers,omitempty"`

	// vars after all layers are merged.
	// +optional
	// +kubebuilder:validation:MaxProperties=512
	Vars map[string]string `json:"vars,omitempty"`

	// etag of the configuration: a hash that changes with it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Etag string `json:"etag,omitempty"`
}

// NstanceShardGroup is the part of a pool that one shard keeps. The pool makes one for
// each of its shards, named group--shard, and only the operator writes its spec.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=nstanceshardgroups,scope=Namespaced,shortName=nssg,categories=cluster-api
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta1=v1beta1","cluster.x-k8s.io/v1beta2=v1beta1","cluster.x-k8s.io/provider=infrastructure-nstance","clusterctl.cluster.x-k8s.io="}
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.group`
// +kubebuilder:printcolumn:name="Shard",type=string,JSONPath=`.spec.shard`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.mode`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`,description="Instances that the shard shall keep"
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="Static",type=boolean,JSONPath=`.status.isStatic`,description="Whether the server's configuration has the group"
// +kubebuilder:printcolumn:name="Reachable",type=string,JSONPath=`.status.conditions[?(@.type=="ShardReachable")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.group + '--' + self.spec.shard",message="metadata.name must be spec.group, two hyphens and spec.shard; leave making these objects to the pool"
type NstanceShardGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec NstanceShardGroupSpec `json:"spec"`

	// status is what is.
	// +optional
	Status NstanceShardGroupStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (o *NstanceShardGroup) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (o *NstanceShardGroup) SetConditions(conditions []metav1.Condition) {
	o.Status.Conditions = conditions
}

// NstanceShardGroupList is a list of NstanceShardGroups.
//
// +kubebuilder:object:root=true
type NstanceShardGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NstanceShardGroup `json:"items"`
}

// Share is what the group counts for in the size of its pool: its size, without the instance
// that it has only until another shard has given one up.
func (o *NstanceShardGroup) Share() int32 {
	size := o.Spec.SizeOrZero()
	if o.Annotations[AnnotationSurge] != "" && size > 0 {
		return size - 1
	}
	return size
}

// SizeOrZero is the size; 0 where there is none.
func (s NstanceShardGroupSpec) SizeOrZero() int32 {
	if s.Size == nil {
		return 0
	}
	return *s.Size
}
