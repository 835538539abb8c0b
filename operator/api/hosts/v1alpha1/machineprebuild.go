package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PrebuildState says how far the preparation of a machine is.
//
// +kubebuilder:validation:Enum=Running;Done;Failed;Unsupported
type PrebuildState string

// States of the preparation of a machine.
const (
	// PrebuildRunning: its host was asked to prepare it.
	PrebuildRunning PrebuildState = "Running"
	// PrebuildDone: a repave to the version only switches, or has nothing to fetch.
	PrebuildDone PrebuildState = "Done"
	// PrebuildFailed: it was given up. A rollout goes on without it.
	PrebuildFailed PrebuildState = "Failed"
	// PrebuildUnsupported: its host, or its shard, is of an earlier release.
	PrebuildUnsupported PrebuildState = "Unsupported"
)

// Over reports whether nothing more is done.
func (s PrebuildState) Over() bool { return s != PrebuildRunning }

// MachinePrebuild is what is prepared on a machine before it is repaved.
type MachinePrebuild struct {
	// The version that is prepared.
	VersionReference `json:",inline"`

	// mode of the preparation.
	// +required
	Mode PrebuildMode `json:"mode"`

	// state of the preparation.
	// +required
	State PrebuildState `json:"state"`

	// message says what it failed of, or what its host does.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// startedAt is when its host was asked for it.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// finishedAt is when it ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}
