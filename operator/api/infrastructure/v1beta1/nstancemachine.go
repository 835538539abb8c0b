package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MachineSettings say what instance a machine is.
type MachineSettings struct {
	// groupRef names the group on the servers whose template the instance is made from.
	// +required
	GroupRef GroupReference `json:"groupRef"`

	// shard that the instance is on. Default: the failure domain of the Machine, else the
	// shard that has the group, answers, has room, and has the fewest on-demand instances
	// of it.
	// +optional
	Shard Name `json:"shard,omitempty"`

	// instanceType in the provider's words, if it shall not be the group's. The template
	// must allow it.
	// +optional
	InstanceType InstanceType `json:"instanceType,omitempty"`

	// vars for the user data, on top of the group's.
	// +optional
	Vars Vars `json:"vars,omitempty"`

	// template of the instance, if it shall not be the group's.
	// +optional
	Template Name `json:"template,omitempty"`

	// subnets is the subnet pool of the instance, if it shall not be the group's.
	// +optional
	Subnets Name `json:"subnets,omitempty"`

	// loadBalancers that the instance is registered with, if they shall not be the
	// group's: up to 16 keys of the shard's configuration.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	LoadBalancers []Name `json:"loadBalancers,omitempty"`
}

// GroupReference names a group of the servers.
type GroupReference struct {
	// name is the key of the group.
	// +required
	Name Name `json:"name"`
}

// NstanceMachineSpec is what is wanted of one machine. It stays once the machine is made:
// an instance is replaced, never edited.
//
// +kubebuilder:validation:XValidation:rule="self.groupRef == oldSelf.groupRef",message="groupRef is immutable; create another machine"
// +kubebuilder:validation:XValidation:rule="has(self.instanceType) == has(oldSelf.instanceType) && (!has(self.instanceType) || self.instanceType == oldSelf.instanceType)",message="instanceType is immutable; create another machine"
// +kubebuilder:validation:XValidation:rule="has(self.template) == has(oldSelf.template) && (!has(self.template) || self.template == oldSelf.template)",message="template is immutable; create another machine"
// +kubebuilder:validation:XValidation:rule="has(self.subnets) == has(oldSelf.subnets) && (!has(self.subnets) || self.subnets == oldSelf.subnets)",message="subnets is immutable; create another machine"
// +kubebuilder:validation:XValidation:rule="has(self.vars) == has(oldSelf.vars) && (!has(self.vars) || self.vars == oldSelf.vars)",message="vars is immutable; create another machine"
// +kubebuilder:validation:XValidation:rule="has(self.loadBalancers) == has(oldSelf.loadBalancers) && (!has(self.loadBalancers) || self.loadBalancers == oldSelf.loadBalancers)",message="loadBalancers is immutable; create another machine"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Managed' || has(self.instanceID)",message="instanceID is required with mode Managed; leave Managed machines to the operator, or leave mode out"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is immutable once set; create another machine"
type NstanceMachineSpec struct {
	MachineSettings `json:",inline"`

	// mode is OnDemand for an instance that is made for this object, and Managed for one
	// that a group keeps and that this object only shows. Managed is the operator's to
	// use. It stays.
	// +optional
	// +kubebuilder:default=OnDemand
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="mode is immutable; create another machine"
	Mode MachineMode `json:"mode,omitempty"`

	// instanceID of the instance. With OnDemand the operator chooses it before it asks
	// for the instance, so that asking again asks for the same one. It stays, unless the
	// instance ended before it was ever there: then another one is tried.
	// +optional
	InstanceID InstanceID `json:"instanceID,omitempty"`

	// providerID is what stands in spec.providerID of the Node. The operator sets it once.
	// +optional
	ProviderID ProviderID `json:"providerID,omitempty"`
}

// MachineMode says who decides that the instance exists.
//
// +kubebuilder:validation:Enum=OnDemand;Managed
type MachineMode string

// Modes of a machine.
const (
	MachineOnDemand MachineMode = "OnDemand"
	MachineManaged  MachineMode = "Managed"
)

// InstanceState is how far an instance is, in the words of the servers.
//
// +kubebuilder:validation:MaxLength=63
type InstanceState string

// States of an instance.
const (
	InstancePending      InstanceState = "pending"
	InstanceProvisioning InstanceState = "provisioning"
	InstanceRunning      InstanceState = "running"
	InstancePoweredOff   InstanceState = "powered-off"
	InstanceUnhealthy    InstanceState = "unhealthy"
	InstanceDraining     InstanceState = "draining"
	InstanceTerminating  InstanceState = "terminating"
	InstanceTerminated   InstanceState = "terminated"
	InstanceUnknown      InstanceState = "unknown"
)

// NstanceMachineStatus is what is known of one machine.
type NstanceMachineStatus struct {
	// initialization is read by Cluster API; provisioned becomes true when the provider
	// reports the machine running and its provider id is known, and stays.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`

	// ready is whether the instance runs, has registered with its server, and its end is
	// not decided.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// instanceID of the instance, as in the spec.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	InstanceID string `json:"instanceID,omitempty"`

	// providerID of the instance, as in the spec.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// shard that the instance is on.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Shard string `json:"shard,omitempty"`

	// failureDomain is the shard, under the name by which NstanceCluster lists it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// instanceState is how far the instance is: pending, provisioning, running,
	// unhealthy, draining, terminating, terminated or unknown.
	// +optional
	InstanceState InstanceState `json:"instanceState,omitempty"`

	// addresses of the instance.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// instanceType that the instance has.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	InstanceType string `json:"instanceType,omitempty"`

	// capacity of the instance, by resource. Quantities are strings.
	// +optional
	Capacity ResourceList `json:"capacity,omitempty"`

	// allocatable is what the Node left for Pods when it was last ready, by resource; of
	// machines of a pool alone. Quantities are strings.
	// +optional
	Allocatable ResourceList `json:"allocatable,omitempty"`

	// interruptible is whether the provider may take the instance away at short notice;
	// Cluster API labels the Node then.
	// +optional
	Interruptible bool `json:"interruptible,omitempty"`

	// nodeRef names the Node that the instance became.
	// +optional
	NodeRef *NodeReference `json:"nodeRef,omitempty"`

	// drain says how far the Node is emptied, once its end is decided.
	// +optional
	Drain *DrainStatus `json:"drain,omitempty"`

	// lastError is what the server or the provider said last against this instance.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LastError string `json:"lastError,omitempty"`

	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, Paused, InstanceProvisioned, NodeCorrelated, Draining,
	// ServerDeleted, Deleting; and CapacityAvailable, where its provider had no room.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeReference names one Node, not a later one of the same name.
type NodeReference struct {
	// name of the Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid of the Node.
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// DrainStatus says how far a Node is emptied.
type DrainStatus struct {
	// deadline is when the server ends the instance, empty or not.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`

	// reason why the instance ends, in the words of the server, such as spot-termination.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason,omitempty"`

	// startedAt is when the Node was cordoned for this.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// remainingPods are the Pods that are still to leave; absent: not counted yet.
	// +optional
	RemainingPods *int32 `json:"remainingPods,omitempty"`
}

// NstanceMachine is one instance: made for a Machine (OnDemand), or shown for the
// MachinePool whose group keeps it (Managed).
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=nstancemachines,scope=Namespaced,shortName=nsm,categories=cluster-api
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta1=v1beta1","cluster.x-k8s.io/v1beta2=v1beta1","cluster.x-k8s.io/provider=infrastructure-nstance","clusterctl.cluster.x-k8s.io="}
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.groupRef.name`
// +kubebuilder:printcolumn:name="Shard",type=string,JSONPath=`.spec.shard`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Instance",type=string,JSONPath=`.spec.instanceID`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.instanceState`
// +kubebuilder:printcolumn:name="ProviderID",type=string,JSONPath=`.spec.providerID`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeRef.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec.mode != 'Managed' || !has(self.spec.instanceID) || self.metadata.name == self.spec.instanceID",message="metadata.name must be spec.instanceID with mode Managed; leave Managed machines to the operator, or leave mode out"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.instanceID) || (has(self.spec.instanceID) && self.spec.instanceID == oldSelf.spec.instanceID) || (oldSelf.spec.mode == 'OnDemand' && has(oldSelf.status) && has(oldSelf.status.instanceState) && oldSelf.status.instanceState == 'terminated' && !(has(oldSelf.status.initialization) && has(oldSelf.status.initialization.provisioned) && oldSelf.status.initialization.provisioned))",message="spec.instanceID is immutable once set, unless the instance ended before it was provisioned; create another machine"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.shard) || (has(self.spec.shard) && self.spec.shard == oldSelf.spec.shard) || (oldSelf.spec.mode == 'OnDemand' && has(oldSelf.status) && has(oldSelf.status.instanceState) && oldSelf.status.instanceState == 'terminated' && !(has(oldSelf.status.initialization) && has(oldSelf.status.initialization.provisioned) && oldSelf.status.initialization.provisioned))",message="spec.shard is immutable once set, unless the instance ended before it was provisioned; create another machine"
type NstanceMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec NstanceMachineSpec `json:"spec"`

	// status is what is.
	// +optional
	Status NstanceMachineStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (o *NstanceMachine) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (o *NstanceMachine) SetConditions(conditions []metav1.Condition) {
	o.Status.Conditions = conditions
}

// NstanceMachineList is a list of NstanceMachines.
//
// +kubebuilder:object:root=true
type NstanceMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NstanceMachine `json:"items"`
}
