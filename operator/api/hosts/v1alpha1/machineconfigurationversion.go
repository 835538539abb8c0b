package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MachineConfigurationVersionSpec is one state of a configuration's template.
//
// +kubebuilder:validation:XValidation:rule="self.version == oldSelf.version && self.configurationName == oldSelf.configurationName",message="configurationName and version are immutable"
type MachineConfigurationVersionSpec struct {
	// configurationName is the name of the MachineConfiguration.
	// +required
	ConfigurationName ConfigurationName `json:"configurationName"`

	// version is its number.
	// +required
	// +kubebuilder:validation:Minimum=1
	Version int32 `json:"version"`

	// template that node machines are built from.
	// +required
	Template Template `json:"template"`
}

// ResolvedTemplate is what a template leaves open and was settled when it was locked.
type ResolvedTemplate struct {
	// imageDigest is what the tag of the image was resolved to. Hosts fetch the image by it.
	// +optional
	ImageDigest SHA256 `json:"imageDigest,omitempty"`
}

// MachineConfigurationVersionStatus says who uses a version.
type MachineConfigurationVersionStatus struct {
	// deployed: the version is locked. It may be on a machine, and never changes again.
	// +optional
	// +kubebuilder:default=false
	Deployed bool `json:"deployed"`

	// deployedAt is when it was locked.
	// +optional
	DeployedAt *metav1.Time `json:"deployedAt,omitempty"`

	// firstMachine is the machine that it was locked for.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	FirstMachine string `json:"firstMachine,omitempty"`

	// machines that refer to it.
	// +optional
	Machines int32 `json:"machines"`

	// appliedMachines are those whose Node was built from it.
	// +optional
	AppliedMachines int32 `json:"appliedMachines"`

	// readyMachines are those of them that are ready.
	// +optional
	ReadyMachines int32 `json:"readyMachines"`

	// provenAt is when the first machine that was built from it had been ready for long enough.
	// +optional
	ProvenAt *metav1.Time `json:"provenAt,omitempty"`

	// resolved is what the template leaves open and was settled when it was locked.
	// +optional
	Resolved *ResolvedTemplate `json:"resolved,omitempty"`

	// hash of the template. A version without one was created too late to be used.
	// +optional
	Hash SHA256 `json:"hash,omitempty"`

	// conditions of the version.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MachineConfigurationVersion is one state of the template of a MachineConfiguration. The
// operator alone makes and changes it. Once a machine is assigned to it, it never changes
// again; as long as a machine refers to it, it cannot be deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=machineconfigurationversions,shortName=mcv,scope=Cluster
// +kubebuilder:printcolumn:name="Config",type=string,JSONPath=`.spec.configurationName`
// +kubebuilder:printcolumn:name="Version",type=integer,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Deployed",type=boolean,JSONPath=`.status.deployed`
// +kubebuilder:printcolumn:name="Machines",type=integer,JSONPath=`.status.machines`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyMachines`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Hash",type=string,JSONPath=`.status.hash`,priority=1
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.status) && has(oldSelf.status.deployed) && oldSelf.status.deployed) || self.spec == oldSelf.spec",message="version is deployed; create a new one by editing the MachineConfiguration"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.status) && has(oldSelf.status.deployed) && oldSelf.status.deployed) || (has(self.status) && has(self.status.deployed) && self.status.deployed)",message="a version that is deployed stays deployed"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.startsWith(self.spec.configurationName + '-v') && !self.metadata.name.startsWith(self.spec.configurationName + '-v0') && int(self.metadata.name.substring(self.spec.configurationName.size() + 2)) == self.spec.version",message="the name must be <configurationName>-v<version>"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.resolved) || (has(self.status) && has(self.status.resolved) && self.status.resolved == oldSelf.status.resolved)",message="status.resolved is immutable once it is set"
type MachineConfigurationVersion struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the state of the template.
	// +required
	Spec MachineConfigurationVersionSpec `json:"spec"`

	// status says who uses it.
	// +optional
	Status MachineConfigurationVersionStatus `json:"status,omitzero"`
}

// MachineConfigurationVersionList is a list of MachineConfigurationVersions.
//
// +kubebuilder:object:root=true
type MachineConfigurationVersionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []MachineConfigurationVersion `json:"items"`
}
