package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PrebuildMode says what is prepared on machines before they are repaved.
//
// +kubebuilder:validation:Enum="Off";Images;Slot
type PrebuildMode string

// Prebuild modes.
const (
	PrebuildOff    PrebuildMode = "Off"
	PrebuildImages PrebuildMode = "Images" // images and artifacts are fetched
	PrebuildSlot   PrebuildMode = "Slot"   // the other slot is built too
)

// Prebuild says what is prepared on machines before they are repaved.
type Prebuild struct {
	// mode of the preparation.
	// +optional
	// +kubebuilder:default="Off"
	Mode PrebuildMode `json:"mode,omitempty"`

	// maxConcurrent machines prepare at once.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`
}

// UpdateStrategyType says who brings machines to the newest version.
//
// +kubebuilder:validation:Enum=OnDelete;RollingUpdate
type UpdateStrategyType string

// Update strategies.
const (
	// UpdateOnDelete: a machine is repaved when a user deletes its Node.
	UpdateOnDelete UpdateStrategyType = "OnDelete"
	// UpdateRolling: the operator drains and deletes Nodes, a few at a time.
	UpdateRolling UpdateStrategyType = "RollingUpdate"
)

// UpdateStrategy says who brings machines to the newest version.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'RollingUpdate' || !has(self.rollingUpdate)",message="rollingUpdate goes with type RollingUpdate"
type UpdateStrategy struct {
	// type of the strategy.
	// +optional
	// +kubebuilder:default=OnDelete
	Type UpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate are the settings of RollingUpdate.
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// RollingUpdate are the settings of a rollout.
type RollingUpdate struct {
	// maxUnavailable is how many of the machines that follow may be unavailable at once: a
	// number, or a percentage, rounded down, at least 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? (self >= 1) : self.matches('^([1-9][0-9]?|100)%$')",message="must be at least 1, or a percentage of 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// drainTimeout after which a machine is skipped for now.
	// +optional
	// +kubebuilder:default="10m"
	DrainTimeout Duration `json:"drainTimeout,omitempty"`

	// minReadySeconds that a Node must be ready for before its machine counts as done.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// maxFailures at which the rollout halts.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxFailures *int32 `json:"maxFailures,omitempty"`

	// paused: no machine is updated.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// windows in which machines are updated. Default: always.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Windows []Window `json:"windows,omitempty"`
}

// Window is a time in which machines are begun.
type Window struct {
	// cron says when it opens, in five fields.
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	Cron string `json:"cron"`

	// duration that it is open for.
	// +required
	Duration Duration `json:"duration"`

	// timezone of cron, such as Europe/Berlin. Default: UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Timezone string `json:"timezone,omitempty"`
}

// MachineConfigurationSpec describes the nodes of a class of machines.
type MachineConfigurationSpec struct {
	// template that node machines are built from. It is the one part that has versions: a
	// change is copied into the newest version if that was never assigned, else it makes
	// the next one.
	// +required
	Template Template `json:"template"`

	// machineSelector selects the machines that name no configuration. Default: none; an
	// empty one selects all.
	// +optional
	MachineSelector *MachineSelector `json:"machineSelector,omitempty"`

	// priority among the configurations that select a machine: the highest one wins, then
	// the name that comes first.
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// paused: machines stay at the version that they run, also when they are repaved.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// prebuild says what is prepared on machines before they are repaved.
	// +optional
	// +kubebuilder:default={}
	Prebuild *Prebuild `json:"prebuild,omitempty"`

	// updateStrategy says who brings machines to the newest version.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is how many versions are kept, the newest ones. Those that a
	// machine refers to stay beside them.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// PendingVersion is a number that was reserved for content that is not stored yet.
type PendingVersion struct {
	// number of the version.
	// +required
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number"`

	// hash of the template that it was reserved for.
	// +optional
	Hash SHA256 `json:"hash,omitempty"`
}

// ConfigurationMachines counts the machines of a configuration.
type ConfigurationMachines struct {
	// selected: they would be built from this configuration.
	// +optional
	Selected int32 `json:"selected"`
	// applied: their Node was built from it.
	// +optional
	Applied int32 `json:"applied"`
	// outdated: their Node was built from something else than a repave now would use.
	// +optional
	Outdated int32 `json:"outdated"`
	// unavailable: their Node is missing or not ready.
	// +optional
	Unavailable int32 `json:"unavailable"`
	// failed: their last repave was given up.
	// +optional
	Failed int32 `json:"failed"`
	// prebuilt: the newest version is prepared on them.
	// +optional
	Prebuilt int32 `json:"prebuilt"`
	// drifted: files on them differ from what was written.
	// +optional
	Drifted int32 `json:"drifted"`
}

// Rollout is how far a rollout is.
type Rollout struct {
	// target is the number of the version.
	// +optional
	Target int32 `json:"target,omitempty"`

	// updated machines.
	// +optional
	Updated int32 `json:"updated,omitempty"`

	// updating are the machines that are being updated.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=63
	Updating []string `json:"updating,omitempty"`

	// failures are the machines whose repave into the target was given up.
	// +optional
	Failures int32 `json:"failures,omitempty"`

	// startedAt is when it began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// resumedAt is when a user last had it go on after it had halted. Failures of before do not
	// count any more.
	// +optional
	ResumedAt *metav1.Time `json:"resumedAt,omitempty"`
}

// MachineConfigurationStatus is what became of a configuration.
type MachineConfigurationStatus struct {
	// observedGeneration of the spec that the versions were compared with.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// templateHash of the template in the spec.
	// +optional
	TemplateHash SHA256 `json:"templateHash,omitempty"`

	// latestVersion is the highest number that was ever reserved. It never falls.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LatestVersion int32 `json:"latestVersion,omitempty"`

	// editableVersion is the version that a change of the template is copied into; 0: none.
	// +optional
	EditableVersion int32 `json:"editableVersion,omitempty"`

	// latestDeployedVersion is the highest version that is locked; 0: none.
	// +optional
	LatestDeployedVersion int32 `json:"latestDeployedVersion,omitempty"`

	// pendingVersion was reserved and is not stored yet.
	// +optional
	PendingVersion *PendingVersion `json:"pendingVersion,omitempty"`

	// machines of the configuration.
	// +optional
	Machines *ConfigurationMachines `json:"machines,omitempty"`

	// rollout that is under way, or the last one.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// conditions of the configuration.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MachineConfiguration says how the nodes of a class of machines are built. The operator
// keeps its template in numbered versions. A version is locked when a machine is assigned to
// it, and never changes again.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=machineconfigurations,shortName=mcfg,scope=Cluster
// +kubebuilder:printcolumn:name="Latest",type=integer,JSONPath=`.status.latestVersion`
// +kubebuilder:printcolumn:name="Editable",type=integer,JSONPath=`.status.editableVersion`
// +kubebuilder:printcolumn:name="Deployed",type=integer,JSONPath=`.status.latestDeployedVersion`
// +kubebuilder:printcolumn:name="Machines",type=integer,JSONPath=`.status.machines.selected`
// +kubebuilder:printcolumn:name="Outdated",type=integer,JSONPath=`.status.machines.outdated`
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.updateStrategy.type`
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 50 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name must be at most 50 characters a to z, 0 to 9 and hyphens: the names of versions begin with it"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.latestVersion) || (has(self.status) && has(self.status.latestVersion) && self.status.latestVersion >= oldSelf.status.latestVersion)",message="status.latestVersion must not fall"
type MachineConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec describes the nodes.
	// +required
	Spec MachineConfigurationSpec `json:"spec"`

	// status is what became of it.
	// +optional
	Status MachineConfigurationStatus `json:"status,omitzero"`
}

// MachineConfigurationList is a list of MachineConfigurations.
//
// +kubebuilder:object:root=true
type MachineConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []MachineConfiguration `json:"items"`
}
