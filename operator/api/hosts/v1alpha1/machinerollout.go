package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolloutStage says how far a rollout is with a machine.
//
// +kubebuilder:validation:Enum=Draining;Repaving;Skipped
type RolloutStage string

// Stages of a machine in a rollout.
const (
	// RolloutDraining: its Node is cordoned, and its Pods are asked to leave.
	RolloutDraining RolloutStage = "Draining"
	// RolloutRepaving: its Node is deleted, and the machine is built again.
	RolloutRepaving RolloutStage = "Repaving"
	// RolloutSkipped: its Pods did not leave in time. The Node was left as it is, and the machine
	// is begun again later.
	RolloutSkipped RolloutStage = "Skipped"
)

// Begun reports whether a machine at the stage counts as one that the rollout has begun and not
// finished.
func (s RolloutStage) Begun() bool { return s == RolloutDraining || s == RolloutRepaving }

// MachineRollout is what a rollout has begun with a machine.
type MachineRollout struct {
	// The version that it is brought to. It stays, whatever versions come later.
	VersionReference `json:",inline"`

	// stage that it is in.
	// +required
	Stage RolloutStage `json:"stage"`

	// nodeUID is the UID of the Node that is drained and deleted.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	NodeUID string `json:"nodeUID,omitempty"`

	// startedAt is when it was begun.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// until is the end of the time in which its Pods may leave; of a machine that was skipped, when
	// it may be begun again.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}
