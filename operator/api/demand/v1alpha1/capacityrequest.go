package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Operator is how a requirement compares a label with its values.
//
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
type Operator string

// Operators, as in the affinity of Pods to Nodes.
const (
	OperatorIn           Operator = "In"
	OperatorNotIn        Operator = "NotIn"
	OperatorExists       Operator = "Exists"
	OperatorDoesNotExist Operator = "DoesNotExist"
	OperatorGt           Operator = "Gt"
	OperatorLt           Operator = "Lt"
)

// What the schema bounds. Who makes a CapacityRequest keeps within it.
const (
	MostRequirements = 32
	MostValues       = 64
	MostAlternatives = 8
	MostSpread       = 8
	MostTolerations  = 32
	MostResources    = 15
)

// Requirement is a condition on one label of a Node.
//
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() > 0)",message="In and NotIn take at least one value"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || self.values.size() == 0",message="Exists and DoesNotExist take no values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt']) || (has(self.values) && self.values.size() == 1 && self.values[0].matches('^-?[0-9]{1,18}$'))",message="Gt and Lt take one decimal integer"
type Requirement struct {
	// key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// operator that compares the label with the values.
	// +required
	Operator Operator `json:"operator"`

	// values: at least one for In and NotIn, one decimal integer for Gt and Lt, none for
	// Exists and DoesNotExist.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Values []string `json:"values,omitempty"`
}

// Alternative is one of several sets of requirements.
type Alternative struct {
	// requirements that all have to hold.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Requirements []Requirement `json:"requirements"`
}

// Resources are what a unit asks for.
type Resources struct {
	// requests by the name of the resource. At least one is more than 0, none is less.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=15
	// +kubebuilder:validation:XValidation:rule="self.all(name, !string(self[name]).startsWith('-'))",message="no request may be negative"
	// +kubebuilder:validation:XValidation:rule="self.exists(name, sign(quantity(string(self[name]))) > 0)",message="at least one request must be more than 0"
	Requests map[corev1.ResourceName]resource.Quantity `json:"requests"`
}

// SpreadPolicy says what happens where a spread cannot be kept.
//
// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
type SpreadPolicy string

// Policies of a spread, as in Pods.
const (
	DoNotSchedule  SpreadPolicy = "DoNotSchedule"
	ScheduleAnyway SpreadPolicy = "ScheduleAnyway"
)

// TopologySpread asks for units to be spread over the values of a label.
type TopologySpread struct {
	// topologyKey is the key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`

	// maxSkew is by how many units two values may differ.
	// +required
	// +kubebuilder:validation:Minimum=1
	MaxSkew int32 `json:"maxSkew"`

	// whenUnsatisfiable says what happens where it cannot be kept. ScheduleAnyway changes
	// nothing about what is bought.
	// +required
	WhenUnsatisfiable SpreadPolicy `json:"whenUnsatisfiable"`
}

// CoLocation names what has to be in one topology domain: one required term of the affinity
// of a Pod to other Pods.
type CoLocation struct {
	// topologyKey is the label whose value has to be the same.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`

	// labelSelector of the Pods that it has to be near.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// namespaces of those Pods. An entry that begins with `sel:` is a selector of namespaces.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Namespaces []string `json:"namespaces,omitempty"`

	// allOrNothing: the group is of use only as a whole. Nothing is bought for a part of it.
	// +optional
	AllOrNothing bool `json:"allOrNothing,omitempty"`
}

// TolerationOperator is how a toleration compares the value of a taint.
//
// +kubebuilder:validation:Enum=Exists;Equal
type TolerationOperator string

// TolerationEffect is the effect of the taints that are tolerated.
//
// +kubebuilder:validation:Enum=NoSchedule;NoExecute
type TolerationEffect string

// Toleration says which taint does not matter.
type Toleration struct {
	// key of the taint. Empty, with Exists: every taint.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`

	// operator that compares the value, by default Equal.
	// +optional
	Operator TolerationOperator `json:"operator,omitempty"`

	// value that is tolerated, with Equal.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`

	// effect that is tolerated. Absent: all of them.
	// +optional
	Effect TolerationEffect `json:"effect,omitempty"`
}

// CapacityRequestSpec is what one unit asks for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.interruptionPenalty) || !string(self.interruptionPenalty).startsWith('-')",message="interruptionPenalty must not be negative"
// +kubebuilder:validation:XValidation:rule="!has(self.reclamationPenalty) || !string(self.reclamationPenalty).startsWith('-')",message="reclamationPenalty must not be negative"
type CapacityRequestSpec struct {
	// requirements that a Node must satisfy, all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Requirements []Requirement `json:"requirements,omitempty"`

	// alternatives: at least one of them must hold beside the requirements.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=8
	Alternatives []Alternative `json:"alternatives,omitempty"`

	// resources that the unit takes on a Node.
	// +required
	Resources Resources `json:"resources"`

	// priority of the unit. Higher wins contested capacity.
	// +optional
	// +kubebuilder:default=0
	Priority int32 `json:"priority,omitempty"`

	// interruptionPenalty is the cost of disturbing the unit, in US dollars; 500m is 50 cents.
	// +optional
	InterruptionPenalty *resource.Quantity `json:"interruptionPenalty,omitempty"`

	// reclamationPenalty is the value of keeping the very machine, in US dollars.
	// +optional
	ReclamationPenalty *resource.Quantity `json:"reclamationPenalty,omitempty"`

	// topologySpread asks for units of one profile to be spread.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TopologySpread []TopologySpread `json:"topologySpread,omitempty"`

	// coLocation puts the unit into one topology domain with others.
	// +optional
	CoLocation *CoLocation `json:"coLocation,omitempty"`

	// tolerations of taints with effect NoSchedule and NoExecute.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []Toleration `json:"tolerations,omitempty"`
}

// CapacityRequestPhase is whether the shards have heard of a request.
//
// +kubebuilder:validation:Enum=Pending;Acknowledged
type CapacityRequestPhase string

// Phases of a request. An empty one counts as Pending.
const (
	CapacityRequestPending      CapacityRequestPhase = "Pending"
	CapacityRequestAcknowledged CapacityRequestPhase = "Acknowledged"
)

// CapacityRequestStatus is what became of a request.
type CapacityRequestStatus struct {
	// phase is Acknowledged when the request was reported to the shards. It says nothing
	// about whether they have the capacity.
	// +optional
	Phase CapacityRequestPhase `json:"phase,omitempty"`

	// observedGeneration that was reported.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// acknowledgedAt is when it was reported.
	// +optional
	AcknowledgedAt *metav1.Time `json:"acknowledgedAt,omitempty"`

	// conditions of the request.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CapacityRequest asks for the capacity that one Pod, or one indivisible unit of another
// workload API, takes for its whole lifetime: as long as it exists the capacity is wanted,
// whether the unit runs already or not.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=capacityrequests,shortName=creq,scope=Namespaced
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.spec.resources.requests.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.resources.requests.memory`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Pod",type=string,priority=1,JSONPath=`.metadata.ownerReferences[?(@.kind=="Pod")].name`
// +kubebuilder:printcolumn:name="Translated",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Translated")].reason`
// +kubebuilder:printcolumn:name="Acknowledged",type=date,priority=1,JSONPath=`.status.acknowledgedAt`
type CapacityRequest struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the unit asks for. Server-side apply takes it as one value: who applies a part of it owns
	// all of it.
	// +required
	// +structType=atomic
	Spec CapacityRequestSpec `json:"spec"`

	// status is what became of it.
	// +optional
	Status CapacityRequestStatus `json:"status,omitzero"`
}

// CapacityRequestList is a list of CapacityRequests.
//
// +kubebuilder:object:root=true
type CapacityRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []CapacityRequest `json:"items"`
}
