package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Confidence is how likely capacity is to be had.
//
// +kubebuilder:validation:Enum=High;Medium;Low;None
type Confidence string

// Confidences, the best first.
const (
	ConfidenceHigh   Confidence = "High"   // a machine that runs and is idle matches
	ConfidenceMedium Confidence = "Medium" // it can be bought
	ConfidenceLow    Confidence = "Low"    // only what was refused a short time ago matches
	ConfidenceNone   Confidence = "None"   // nothing matches
)

// CapacityHint is what could be had for a profile.
type CapacityHint struct {
	// confidence is how likely it is to be had.
	// +optional
	Confidence Confidence `json:"confidence,omitempty"`

	// availableCount is the number of machines.
	// +optional
	AvailableCount int64 `json:"availableCount,omitempty"`

	// costPerHour of the cheapest one, in US dollars.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?$`
	CostPerHour string `json:"costPerHour,omitempty"`

	// observedAt is when it was heard last.
	// +optional
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`
}

// AvailableCapacitySpec is the profile and what could be had for it.
type AvailableCapacitySpec struct {
	// profileFingerprint of the profile.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="profileFingerprint is immutable"
	ProfileFingerprint string `json:"profileFingerprint"`

	// requirements of the profile.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=33
	Requirements []ProfileRequirement `json:"requirements,omitempty"`

	// alternatives of the profile.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Alternatives []Alternative `json:"alternatives,omitempty"`

	// tolerations of the profile.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []Toleration `json:"tolerations,omitempty"`

	CapacityHint `json:",inline"`
}

// ProfileRequirement is a requirement of a profile: beside the operators of a request it may
// have Same, which the operator makes of a co-location.
type ProfileRequirement struct {
	// key of the label.
	// +required
	Key string `json:"key"`

	// operator that compares the label with the values.
	// +required
	Operator string `json:"operator"`

	// values that it is compared with.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Values []string `json:"values,omitempty"`
}

// Shortfall is what is missing.
type Shortfall struct {
	// deficit by the name of the resource.
	// +optional
	Deficit corev1.ResourceList `json:"deficit,omitempty"`

	// since when it is missing.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// reason in one word.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// ShardCapacity is what one shard says.
type ShardCapacity struct {
	// shard that says it.
	// +required
	Shard string `json:"shard"`

	CapacityHint `json:",inline"`

	// shortfall of the shard; absent when nothing is missing.
	// +optional
	Shortfall *Shortfall `json:"shortfall,omitempty"`
}

// AvailableCapacityStatus is what is missing, and what each shard says.
type AvailableCapacityStatus struct {
	// shortfall of the profile; absent when nothing is missing.
	// +optional
	Shortfall *Shortfall `json:"shortfall,omitempty"`

	// shards that the rest is the sum of.
	// +optional
	// +listType=map
	// +listMapKey=shard
	Shards []ShardCapacity `json:"shards,omitempty"`
}

// AvailableCapacity is what the shards could give for one profile that is asked for: a hint,
// out of date as soon as it is read, and never a reservation. The operator writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=availablecapacities,singular=availablecapacity,shortName=ac,scope=Cluster
// +kubebuilder:printcolumn:name="Confidence",type=string,JSONPath=`.spec.confidence`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.spec.availableCount`
// +kubebuilder:printcolumn:name="Cost",type=string,JSONPath=`.spec.costPerHour`
// +kubebuilder:printcolumn:name="Shortfall",type=string,JSONPath=`.status.shortfall.reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.shortfall.since`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Missing",type=string,priority=1,JSONPath=`.status.shortfall.deficit`
// +kubebuilder:printcolumn:name="Requirements",type=string,priority=1,JSONPath=`.spec.requirements`
type AvailableCapacity struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the profile and what could be had for it.
	// +required
	Spec AvailableCapacitySpec `json:"spec"`

	// status is what is missing.
	// +optional
	Status AvailableCapacityStatus `json:"status,omitzero"`
}

// AvailableCapacityList is a list of AvailableCapacities.
//
// +kubebuilder:object:root=true
type AvailableCapacityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []AvailableCapacity `json:"items"`
}
