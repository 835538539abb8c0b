package v1alpha1

// Name is the name of a group, a shard or a tenant of the servers.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*$`
type Name string

// InstanceID is the id of an instance.
//
// +kubebuilder:validation:MinLength=29
// +kubebuilder:validation:MaxLength=29
// +kubebuilder:validation:Pattern=`^[a-z]{3}[0-9a-hjkmnp-tv-z]{26}$`
type InstanceID string

// ConfigurationName is the name of a MachineConfiguration.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=50
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type ConfigurationName string

// Label is a name of at most 63 characters that may be the value of a label.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type Label string

// Duration is a time span such as 90s or 1h30m.
//
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^([0-9]+(ms|s|m|h))+$`
type Duration string

// SHA256 is the digest of some content.
//
// +kubebuilder:validation:MaxLength=71
// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
type SHA256 string

// MAC is the hardware address of a network interface.
//
// +kubebuilder:validation:MaxLength=17
// +kubebuilder:validation:Pattern=`^([0-9a-f]{2}:){5}[0-9a-f]{2}$`
type MAC string

// Address is an IP address.
//
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=45
// +kubebuilder:validation:Pattern=`^[0-9a-fA-F:.]+$`
type Address string

// Network is an IP address with the length of its network's prefix.
//
// +kubebuilder:validation:MinLength=4
// +kubebuilder:validation:MaxLength=49
// +kubebuilder:validation:Pattern=`^[0-9a-fA-F:.]+/[0-9]{1,3}$`
type Network string

// AbsolutePath is the path of a file or a directory from the root, without `..`.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:Pattern=`^/[^\x00]*$`
// +kubebuilder:validation:XValidation:rule="!self.contains('/../') && !self.endsWith('/..')",message="must not contain .."
type AbsolutePath string

// URL is the address of something that is fetched.
//
// +kubebuilder:validation:MinLength=8
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:Pattern=`^https?://[^ ]+$`
type URL string

// SelectorOperator is how an expression over labels compares.
//
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
type SelectorOperator string

// Operators over labels, as in label selectors.
const (
	SelectorIn           SelectorOperator = "In"
	SelectorNotIn        SelectorOperator = "NotIn"
	SelectorExists       SelectorOperator = "Exists"
	SelectorDoesNotExist SelectorOperator = "DoesNotExist"
)

// LabelExpression is a condition on one label of a HostMachine.
type LabelExpression struct {
	// key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// operator that compares the label with the values.
	// +required
	Operator SelectorOperator `json:"operator"`

	// values: at least one for In and NotIn, none for Exists and DoesNotExist.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Values []string `json:"values,omitempty"`
}

// MachineField is a field of a HostMachine that selectors may read.
//
// +kubebuilder:validation:Enum=metadata.name;spec.provisioner;spec.providerID;spec.instance.shard;spec.instance.tenant;spec.instance.group;spec.instance.onDemand
type MachineField string

// Fields that selectors may read.
const (
	FieldName        MachineField = "metadata.name"
	FieldProvisioner MachineField = "spec.provisioner"
	FieldProviderID  MachineField = "spec.providerID"
	FieldShard       MachineField = "spec.instance.shard"
	FieldTenant      MachineField = "spec.instance.tenant"
	FieldGroup       MachineField = "spec.instance.group"
	FieldOnDemand    MachineField = "spec.instance.onDemand"
)

// FieldOperator is how an expression over a field compares.
//
// +kubebuilder:validation:Enum=In;NotIn
type FieldOperator string

// Operators over fields.
const (
	FieldIn    FieldOperator = "In"
	FieldNotIn FieldOperator = "NotIn"
)

// FieldExpression is a condition on one field of a HostMachine. A field that is not set has
// the empty value; onDemand is "true" or "false".
type FieldExpression struct {
	// key is the field.
	// +required
	Key MachineField `json:"key"`

	// operator that compares the field with the values.
	// +required
	Operator FieldOperator `json:"operator"`

	// values, at least one.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	Values []string `json:"values"`
}

// MachineSelector selects HostMachines by their labels and fields: all that it says must
// hold. One that says nothing selects every machine.
type MachineSelector struct {
	// matchLabels are labels with the values that they must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are conditions on labels.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	MatchExpressions []LabelExpression `json:"matchExpressions,omitempty"`

	// matchFields are conditions on fields.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	MatchFields []FieldExpression `json:"matchFields,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// VersionReference names the content that a machine is built from.
type VersionReference struct {
	// name of the MachineConfiguration.
	// +required
	Name ConfigurationName `json:"name"`

	// version is the number.
	// +required
	// +kubebuilder:validation:Minimum=1
	Version int32 `json:"version"`

	// uid of the MachineConfiguration: another one of the same name is not meant.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`

	// hash of the template.
	// +optional
	Hash SHA256 `json:"hash,omitempty"`
}
