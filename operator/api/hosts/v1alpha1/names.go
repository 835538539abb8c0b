package v1alpha1

// Kinds of this group, as references write them.
const (
	KindHostMachine                 = "HostMachine"
	KindMachineConfiguration        = "MachineConfiguration"
	KindMachineConfigurationVersion = "MachineConfigurationVersion"
	KindMachineOperation            = "MachineOperation"
)

// Provisioners, which say who owns a host and its power. Any other one is called
// <domain>/<name>.
const (
	// ProvisionerNstance: the instance is there already; the operator makes the object.
	ProvisionerNstance = "nstance"
	// ProvisionerCloud: the operator makes an on-demand instance for the object.
	ProvisionerCloud = "cloud"
	// ProvisionerManual: the host is set up by hand, and its agent reports.
	ProvisionerManual = "manual"
	// ProvisionerPXE: the host is booted over the network.
	ProvisionerPXE = "pxe"
)

// Prefix begins the labels and annotations of this group.
const Prefix = "hosts.nstance.dev/"

// Labels of HostMachines that come from the instance. The operator keeps them right.
const (
	LabelGroup        = Prefix + "group"
	LabelShard        = Prefix + "shard"
	LabelTenant       = Prefix + "tenant"
	LabelTemplate     = Prefix + "template"
	LabelKind         = Prefix + "kind"
	LabelArch         = Prefix + "arch"
	LabelInstanceType = Prefix + "instance-type"
	LabelZone         = Prefix + "zone"
	LabelOnDemand     = Prefix + "on-demand"
)

// Labels of versions and operations.
const (
	// LabelConfiguration of a version is the name of its configuration.
	LabelConfiguration = Prefix + "configuration"
	// LabelVersion of a version is its number.
	LabelVersion = Prefix + "version"
	// LabelMachine of an operation, and of a Node, is the name of the HostMachine.
	LabelMachine = Prefix + "machine"
	// LabelExecutor of an operation is who executes it.
	LabelExecutor = Prefix + "executor"
	// LabelParentUID of an operation is the UID of the operation that it was made for.
	LabelParentUID = Prefix + "parent-uid"
)

// Annotations.
const (
	// AnnotationReselect of a HostMachine, with any value: choose its configuration again by
	// the selectors. The operator removes it once that is done.
	AnnotationReselect = Prefix + "reselect"
	// AnnotationRetry of a HostMachine, with any new value: try again what has failed.
	AnnotationRetry = Prefix + "retry"
	// AnnotationReleaseBrake of a MachineConfiguration, with any value: machines whose Nodes are gone
	// are repaved side by side again. The operator removes it once that is done.
	AnnotationReleaseBrake = Prefix + "release-brake"
	// AnnotationResume of a MachineConfiguration, with any value: its rollout goes on after it has
	// halted, and failures of before do not count any more. The operator removes it once that is done.
	AnnotationResume = Prefix + "resume"
	// AnnotationKeepPods of a HostMachine, "true": the Pods of the old machine run on while the
	// new one is built.
	AnnotationKeepPods = Prefix + "keep-pods"
	// AnnotationNodeLabels of a HostMachine are the names of the labels that it has from its
	// group's Nodes, with commas between them. The operator removes those that the group has no more.
	AnnotationNodeLabels = Prefix + "node-labels"
)

// Annotations of a Node that runs in a node machine. The operator keeps them right.
const (
	// AnnotationConfiguration is the name of the MachineConfiguration that it was built from,
	// AnnotationConfigurationVersion the number of its version.
	AnnotationConfiguration        = Prefix + "configuration"
	AnnotationConfigurationVersion = Prefix + "configuration-version"
	// AnnotationConfigurationUID is the UID of the MachineConfiguration, AnnotationConfigurationHash
	// the hash of the template.
	AnnotationConfigurationUID  = Prefix + "configuration-uid"
	AnnotationConfigurationHash = Prefix + "configuration-hash"
	// AnnotationMachineUID is the UID of the HostMachine.
	AnnotationMachineUID = Prefix + "machine-uid"
)

// DrainOfRollout begins what the drain of a Node is known by that a rollout asks for.
const DrainOfRollout = "rollout/"

// Finalizer of a HostMachine: its host has to be reset before the object may go.
const Finalizer = Prefix + "machine"
