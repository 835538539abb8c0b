package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NstanceMachinePoolSpec is what is wanted of a group of instances, all but its size: that is
// spec.replicas of the MachinePool. A demand pool has neither.
//
// +kubebuilder:validation:XValidation:rule="!has(self.instanceRequirements) || has(self.demand)",message="spec.instanceRequirements chooses the machine types of a demand pool; set spec.demand too, or name one type in spec.instanceType instead"
// +kubebuilder:validation:XValidation:rule="!has(self.instanceRequirements) || !has(self.instanceType)",message="spec.instanceRequirements and spec.instanceType both choose the machine types; take one of them out"
// +kubebuilder:validation:XValidation:rule="!has(self.demand) || !has(self.demand.reservations) || self.shards.size() < 2 || self.demand.reservations.all(r, has(r.zone))",message="spec.demand.reservations: with several shards each needs a zone, else it would count on each of them; set zone"
type NstanceMachinePoolSpec struct {
	// group is the key of the group on the servers. It stays: another group is another pool.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.group is immutable; create a new NstanceMachinePool"
	Group Name `json:"group"`

	// shards that keep the group, 1 to 64. Replicas are shared out equally; what is left
	// over goes to those listed first, one each. A shard that is taken off the list is
	// emptied once the others have made up for it, or after 15 minutes. Locked while the
	// group is static.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Shards []Name `json:"shards"`

	// template of the instances. A group that no server has yet needs one. Locked while
	// the group is static; it may be removed then.
	// +optional
	Template Name `json:"template,omitempty"`

	// subnets is the subnet pool that the instances are put into. Default: the
	// template's. Locked while the group is static.
	// +optional
	Subnets Name `json:"subnets,omitempty"`

	// instanceType in the provider's words, if it shall not be the template's. The
	// template must allow it.
	// +optional
	InstanceType InstanceType `json:"instanceType,omitempty"`

	// vars for the user data, on top of the template's. They replace all vars that were
	// set through the API before.
	// +optional
	Vars Vars `json:"vars,omitempty"`

	// loadBalancers that the instances are registered with: up to 16 keys of the shards'
	// configuration. Locked while the group is static.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	LoadBalancers []Name `json:"loadBalancers,omitempty"`

	// demand makes this a demand pool: its machines are bought and given back as the Pods of
	// the cluster need them, within these bounds. It has no MachinePool and no size. A pool
	// that has a MachinePool becomes one when the annotation nstance.dev/no-machinepool is
	// "true" and no autoscaler scales it. Removing the field keeps the machines that there
	// are; once that annotation is gone too, a MachinePool of that size is made. Absent: the
	// pool has a fixed size.
	// +optional
	Demand *DemandSettings `json:"demand,omitempty"`

	// instanceRequirements choose the machine types of a demand pool by what they are, instead
	// of instanceType.
	// +optional
	InstanceRequirements *InstanceRequirements `json:"instanceRequirements,omitempty"`

	// nodeTemplate describes the Nodes of the pool for an autoscaler. It wins over what
	// the servers report, and changes nothing of the instances.
	// +optional
	NodeTemplate *NodeTemplate `json:"nodeTemplate,omitempty"`

	// deletePolicy says which instance of a shard goes when the pool shrinks and nobody
	// named one: Oldest, Newest or Random. Instances that never became a Node go first.
	// +optional
	// +kubebuilder:default=Oldest
	DeletePolicy DeletePolicy `json:"deletePolicy,omitempty"`

	// rebalance says when instances move between shards to make their parts equal again:
	// Always, OnShardChange (when the set of shards was changed) or Never. One instance
	// moves at a time, and the new one is ready before the old one goes.
	// +optional
	// +kubebuilder:default=Always
	Rebalance RebalancePolicy `json:"rebalance,omitempty"`

	// unreachablePolicy says where the pool grows while a shard does not answer, or has no
	// room: Redirect to the other shards, or Hold until it can.
	// +optional
	// +kubebuilder:default=Redirect
	UnreachablePolicy UnreachablePolicy `json:"unreachablePolicy,omitempty"`

	// deletionPolicy says what becomes of the group when the pool is deleted: Delete ends
	// it with all its instances, Orphan leaves both on the servers. A static group is
	// always left.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// providerID names the pool. The operator sets it.
	// +optional
	ProviderID ProviderID `json:"providerID,omitempty"`

	// providerIDList are the provider ids of all instances that are not confirmed gone,
	// those that drain and those of shards that do not answer included. The operator sets
	// it, and Cluster API deletes the Node of every id that leaves it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	ProviderIDList []ProviderID `json:"providerIDList,omitempty"`
}

// DeletePolicy says which instance of a shard goes first.
//
// +kubebuilder:validation:Enum=Oldest;Newest;Random
type DeletePolicy string

// Which instance goes when nobody named one.
const (
	DeleteOldest DeletePolicy = "Oldest"
	DeleteNewest DeletePolicy = "Newest"
	DeleteRandom DeletePolicy = "Random"
)

// RebalancePolicy says when instances move between shards.
//
// +kubebuilder:validation:Enum=Always;OnShardChange;Never
type RebalancePolicy string

// When instances move between shards.
const (
	RebalanceAlways        RebalancePolicy = "Always"
	RebalanceOnShardChange RebalancePolicy = "OnShardChange"
	RebalanceNever         RebalancePolicy = "Never"
)

// UnreachablePolicy says where a pool grows while a shard cannot.
//
// +kubebuilder:validation:Enum=Redirect;Hold
type UnreachablePolicy string

// Where a pool grows while a shard cannot.
const (
	UnreachableRedirect UnreachablePolicy = "Redirect"
	UnreachableHold     UnreachablePolicy = "Hold"
)

// DeletionPolicy says what becomes of a group when its pool is deleted.
//
// +kubebuilder:validation:Enum=Delete;Orphan
type DeletionPolicy string

// What becomes of the group of a deleted pool.
const (
	DeletionDelete DeletionPolicy = "Delete"
	DeletionOrphan DeletionPolicy = "Orphan"
)

// MixedValue stands in the status of a pool where its shards differ.
const MixedValue = "mixed"

// NstanceMachinePoolStatus is what is known of a pool.
type NstanceMachinePoolStatus struct {
	// initialization is read by Cluster API; provisioned becomes true when each shard has
	// accepted its part once, and stays.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`

	// ready is the same as initialization.provisioned. Cluster API still waits for it
	// before it looks at the list of provider ids.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// replicas is the length of spec.providerIDList.
	// +optional
	Replicas int32 `json:"replicas"`

	// desiredReplicas is the size that was last planned with: spec.replicas of the
	// MachinePool; absent: none was seen yet.
	// +optional
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`

	// infrastructureMachineKind is NstanceMachine where each instance gets a Machine of
	// its own; absent: the MachinePool has no Machines, only replicas.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	InfrastructureMachineKind string `json:"infrastructureMachineKind,omitempty"`

	// capacity that is left for Pods on one Node, by resource, for an autoscaler that
	// must decide while the pool has none. Quantities are strings.
	// +optional
	Capacity ResourceList `json:"capacity,omitempty"`

	// nodeInfo is the system of the Nodes.
	// +optional
	NodeInfo *NodeInfo `json:"nodeInfo,omitempty"`

	// learned is the least that was ever left for Pods on a Node of this pool, kept for
	// the time when it has none.
	// +optional
	Learned *LearnedCapacity `json:"learned,omitempty"`

	// isStatic is whether the configuration of any shard's server has the group. Then
	// template, subnets, loadBalancers and shards of the spec are locked.
	// +optional
	IsStatic bool `json:"isStatic,omitempty"`

	// template that the servers use; `mixed` where they differ.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Template string `json:"template,omitempty"`

	// subnets is the subnet pool that the servers use; `mixed` where they differ.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Subnets string `json:"subnets,omitempty"`

	// instanceType that the servers use; `mixed` where they differ.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	InstanceType string `json:"instanceType,omitempty"`

	// demand is what there is of a demand pool; absent: the pool has a fixed size.
	// +optional
	Demand *DemandStatus `json:"demand,omitempty"`

	// mode is Demand if the servers buy and give back the machines as they are needed, Fixed
	// if the MachinePool says how many there are, and Switching while it goes over from one to
	// the other.
	// +optional
	Mode PoolMode `json:"mode,omitempty"`

	// shards says what each shard has of the pool.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Shards []PoolShard `json:"shards,omitempty"`

	// shardCount is the number of shards of the spec.
	// +optional
	ShardCount int32 `json:"shardCount,omitempty"`

	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// observedOwnerGeneration is the generation of the MachinePool that this status is about.
	// +optional
	ObservedOwnerGeneration int64 `json:"observedOwnerGeneration,omitempty"`

	// conditions: Ready, Paused, ShardGroupsReady, ShardsReachable, ScalingUp, ScalingDown,
	// Rebalancing, CapacityAvailable, ProviderIDsUnique, NodesJoined, PoolConflict,
	// ZonalAutoscaling, CapacityKnown, FeatureDegraded, SpecIgnored, Deleting; with spec.demand
	// DemandAllowed and LimitReached; and Scaling, which is True where ScalingUp or ScalingDown
	// is and will be left out in a later version.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PoolMode says what decides how many machines a pool has.
//
// +kubebuilder:validation:Enum=Fixed;Demand;Switching
type PoolMode string

// Modes of a pool.
const (
	PoolFixed     PoolMode = "Fixed"
	PoolDemand    PoolMode = "Demand"
	PoolSwitching PoolMode = "Switching"
)

// LearnedCapacity is what Nodes of a pool turned out to have. It holds for one machine
// type and one configuration.
type LearnedCapacity struct {
	// instanceType of the Nodes that it was learnt from.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	InstanceType string `json:"instanceType,omitempty"`

	// etag of the configuration that the Nodes were made from.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Etag string `json:"etag,omitempty"`

	// allocatable is the least that a Node left for Pods, by resource. Quantities are strings.
	// +optional
	Allocatable ResourceList `json:"allocatable,omitempty"`
}

// PoolShard is what one shard has of a pool.
type PoolShard struct {
	// name of the shard.
	// +required
	Name Name `json:"name"`

	// size that the shard shall keep; 0 in a demand pool.
	// +optional
	Size int32 `json:"size"`

	// running instances.
	// +optional
	Running int32 `json:"running"`

	// pending instances: asked for, or started and not heard of yet.
	// +optional
	Pending int32 `json:"pending"`

	// draining instances: their end is decided.
	// +optional
	Draining int32 `json:"draining"`

	// unhealthy instances whose end is not decided yet.
	// +optional
	Unhealthy int32 `json:"unhealthy"`

	// reachable is whether the shard answers; if not, the numbers are the last known ones.
	// +optional
	Reachable bool `json:"reachable"`
}

// NstanceMachinePool is a group of instances on one or more shards: the infrastructure
// of a MachinePool. Scale the MachinePool; this object says what its machines are. With
// spec.demand there is no MachinePool: the Pods of the cluster say how many there are.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=nstancemachinepools,scope=Namespaced,shortName=nsmp,categories=cluster-api
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta1=v1beta1","cluster.x-k8s.io/v1beta2=v1beta1","cluster.x-k8s.io/provider=infrastructure-nstance","clusterctl.cluster.x-k8s.io="}
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.group`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.mode`,description="Fixed: the MachinePool says how many machines there are; Demand: the Pods do"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredReplicas`,description="Replicas of the MachinePool"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`,description="Instances with a provider id"
// +kubebuilder:printcolumn:name="Machines",type=integer,JSONPath=`.status.demand.machines`,description="Machines of a demand pool"
// +kubebuilder:printcolumn:name="Idle",type=integer,JSONPath=`.status.demand.idle`,description="Machines of a demand pool that serve no cluster"
// +kubebuilder:printcolumn:name="Spend",type=string,JSONPath=`.status.demand.hourlySpend`,description="What the machines of a demand pool cost, in US dollars an hour"
// +kubebuilder:printcolumn:name="Shards",type=integer,JSONPath=`.status.shardCount`
// +kubebuilder:printcolumn:name="Static",type=boolean,JSONPath=`.status.isStatic`,description="Whether a server's configuration has the group"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.instanceType`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.isStatic) || !oldSelf.status.isStatic || self.spec.shards.map(s, s) == oldSelf.spec.shards.map(s, s)",message="spec.shards is locked: the group is static, a server's configuration says which shards have it; change that configuration, or take the group out of it first"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.isStatic) || !oldSelf.status.isStatic || !has(self.spec.template) || (has(oldSelf.spec.template) && self.spec.template == oldSelf.spec.template)",message="spec.template is locked: the group is static, a server's configuration says its template; change that configuration, or take the group out of it first"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.isStatic) || !oldSelf.status.isStatic || !has(self.spec.subnets) || (has(oldSelf.spec.subnets) && self.spec.subnets == oldSelf.spec.subnets)",message="spec.subnets is locked: the group is static, a server's configuration says its subnets; change that configuration, or take the group out of it first"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.isStatic) || !oldSelf.status.isStatic || !has(self.spec.loadBalancers) || (has(oldSelf.spec.loadBalancers) && self.spec.loadBalancers == oldSelf.spec.loadBalancers)",message="spec.loadBalancers is locked: the group is static, a server's configuration says its load balancers; change that configuration, or take the group out of it first"
type NstanceMachinePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec NstanceMachinePoolSpec `json:"spec"`

	// status is what is.
	// +optional
	Status NstanceMachinePoolStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (o *NstanceMachinePool) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (o *NstanceMachinePool) SetConditions(conditions []metav1.Condition) {
	o.Status.Conditions = conditions
}

// NstanceMachinePoolList is a list of NstanceMachinePools.
//
// +kubebuilder:object:root=true
type NstanceMachinePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NstanceMachinePool `json:"items"`
}
