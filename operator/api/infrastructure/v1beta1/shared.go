package v1beta1

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Name is an identifier of the servers: of a shard, group, template, subnet pool or
// load balancer. 1 to 32 characters of a to z, 0 to 9 and single hyphens between them.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*$`
type Name = string

// InstanceID is the id of an instance: the three letters of its kind and 26 characters
// of lower case Crockford base32. It is given out once and never again.
//
// +kubebuilder:validation:MinLength=29
// +kubebuilder:validation:MaxLength=29
// +kubebuilder:validation:Pattern=`^[a-z]{3}[0-9a-hjkmnp-tv-z]{26}$`
type InstanceID = string

// InstanceType is a machine type in the provider's words, such as `m7i.large`.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
type InstanceType = string

// ProviderID is what stands in spec.providerID of the Node of an instance, byte for byte.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=512
type ProviderID = string

// VarValue is the value of a variable.
//
// +kubebuilder:validation:MaxLength=4096
type VarValue = string

// Vars are variables for the user data of instances, by name.
//
// +kubebuilder:validation:MaxProperties=64
// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z_][A-Za-z0-9_]{0,63}$'))",message="vars: a name is 1 to 64 letters, digits and underscores and does not begin with a digit; rename the variable"
// +kubebuilder:object:generate=false
type Vars map[string]VarValue

// DeepCopyInto copies the variables.
func (in Vars) DeepCopyInto(out *Vars) { *out = maps.Clone(in) }

// DeepCopy returns a copy.
func (in Vars) DeepCopy() Vars { return maps.Clone(in) }

// ResourceList are quantities by resource, as Kubernetes names it. They are always
// stored as strings: readers of a status take nothing else.
//
// +kubebuilder:validation:MaxProperties=64
// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == string)",message="write each quantity as a string, as in cpu: \"4\"; the cluster autoscaler reads nothing else"
type ResourceList map[corev1.ResourceName]resource.Quantity

// NodeInfo says what system the Nodes of a group run.
//
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture of the processor.
	// +optional
	Architecture Architecture `json:"architecture,omitempty"`

	// operatingSystem of the Nodes.
	// +optional
	OperatingSystem OperatingSystem `json:"operatingSystem,omitempty"`
}

// Architecture of a processor, as Nodes report it.
//
// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
type Architecture string

// Architectures of Nodes.
const (
	ArchitectureAMD64   Architecture = "amd64"
	ArchitectureARM64   Architecture = "arm64"
	ArchitectureS390X   Architecture = "s390x"
	ArchitecturePPC64LE Architecture = "ppc64le"
)

// OperatingSystem of a Node, as Nodes report it.
//
// +kubebuilder:validation:Enum=linux;windows
type OperatingSystem string

// Operating systems of Nodes.
const (
	OperatingSystemLinux   OperatingSystem = "linux"
	OperatingSystemWindows OperatingSystem = "windows"
)

// NodeTemplate describes the Nodes that a pool will have, for an autoscaler that must
// decide while the pool has none.
//
// +kubebuilder:validation:MinProperties=1
type NodeTemplate struct {
	// labels that new Nodes will have. The autoscaler matches Pods against them; they
	// are put on Nodes by the user data of the template, not by this field.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// taints that new Nodes will have. As with labels, the user data sets them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []Taint `json:"taints,omitempty"`

	// capacity that is left for Pods on a new Node, by resource: `cpu`, `memory`,
	// `ephemeral-storage`, `pods`, devices. It wins over what was learnt from Nodes and
	// over what the servers report.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	Capacity map[corev1.ResourceName]resource.Quantity `json:"capacity,omitempty"`

	// nodeInfo is the system of new Nodes. Default: the architecture of the template, linux.
	// +optional
	NodeInfo *NodeInfo `json:"nodeInfo,omitempty"`

	// maxPods is how many Pods a new Node takes. Default: `pods` of capacity.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxPods int32 `json:"maxPods,omitempty"`
}

// Taint that a Node will have.
type Taint struct {
	// key of the taint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// value of the taint; it may be empty.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`

	// effect on Pods that do not tolerate the taint.
	// +required
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect"`
}

// Initialization says how far the infrastructure is, for Cluster API.
//
// +kubebuilder:validation:MinProperties=1
type Initialization struct {
	// provisioned is true once the infrastructure has been there. It never goes back.
	// +optional
	Provisioned bool `json:"provisioned,omitempty"`
}
