package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Template is what a node machine is built from: the part of a MachineConfiguration that has
// versions. Everybody who may view the cluster can read it, so no secret may stand in it.
type Template struct {
	// image is the root file system of the node machine.
	// +required
	Image Image `json:"image"`

	// kubernetes is what runs in it.
	// +required
	Kubernetes Kubernetes `json:"kubernetes"`

	// machine is the systemd-nspawn machine.
	// +optional
	Machine *NodeMachine `json:"machine,omitempty"`

	// host is what is set on the host beneath it.
	// +optional
	Host *HostSettings `json:"host,omitempty"`

	// timeouts of the stages of a repave.
	// +optional
	Timeouts *Timeouts `json:"timeouts,omitempty"`
}

// PullSecrets are the names of the Secrets that images are pulled with, each once.
func (t *Template) PullSecrets() []string {
	var all []string
	if t.Image.OCI != nil && t.Image.OCI.PullSecret != "" {
		all = append(all, string(t.Image.OCI.PullSecret))
	}
	if t.Machine != nil && t.Machine.PullSecret != "" && !slices.Contains(all, string(t.Machine.PullSecret)) {
		all = append(all, string(t.Machine.PullSecret))
	}
	return all
}

// ImageType says where a root file system comes from.
//
// +kubebuilder:validation:Enum=OCI;Archive;Debootstrap
type ImageType string

// Types of images.
const (
	ImageOCI         ImageType = "OCI"
	ImageArchive     ImageType = "Archive"
	ImageDebootstrap ImageType = "Debootstrap"
)

// Image is a root file system.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'OCI') == has(self.oci) && (self.type == 'Archive') == has(self.archive) && (self.type == 'Debootstrap') == has(self.debootstrap)",message="exactly the field that type names must be set: oci, archive or debootstrap"
type Image struct {
	// type says which of the other fields is set.
	// +required
	Type ImageType `json:"type"`

	// oci is an image of a container registry.
	// +optional
	OCI *OCIImage `json:"oci,omitempty"`

	// archive is a tar file, plain or compressed with gzip or zstd.
	// +optional
	Archive *ArchiveImage `json:"archive,omitempty"`

	// debootstrap installs a Debian or Ubuntu on the host. The result is not reproducible;
	// this is for development.
	// +optional
	Debootstrap *DebootstrapImage `json:"debootstrap,omitempty"`
}

// OCIImage is an image of a container registry.
type OCIImage struct {
	// reference of the image, with a tag or without.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Reference string `json:"reference"`

	// digest of the image. Without one the operator asks the registry what the tag means when the
	// version is locked, and all hosts take that; nothing is assigned while there is no answer.
	// +optional
	Digest SHA256 `json:"digest,omitempty"`

	// pullSecret is the name of a Secret of type kubernetes.io/dockerconfigjson in the
	// operator's namespace.
	// +optional
	PullSecret SecretName `json:"pullSecret,omitempty"`
}

// SecretName is the name of a Secret in the operator's namespace.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
type SecretName string

// ArchiveImage is a tar file.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.storageKey)",message="exactly one of url and storageKey must be set"
type ArchiveImage struct {
	// url that the file is fetched from.
	// +optional
	URL URL `json:"url,omitempty"`

	// storageKey of the file in the object storage of the servers.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	StorageKey string `json:"storageKey,omitempty"`

	// sha256 of the file.
	// +required
	SHA256 SHA256 `json:"sha256"`
}

// DebootstrapImage is what debootstrap installs.
type DebootstrapImage struct {
	// suite, such as bookworm.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z0-9][-a-z0-9.]*$`
	Suite string `json:"suite"`

	// mirror that packages come from.
	// +optional
	Mirror URL `json:"mirror,omitempty"`

	// variant of the installation.
	// +optional
	// +kubebuilder:default=minbase
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z]+$`
	Variant string `json:"variant,omitempty"`

	// packages that are installed beside those of the variant.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9][-a-z0-9+.]*$`
	Packages []string `json:"packages,omitempty"`

	// keyring on the host that the archive's signatures are checked with.
	// +optional
	Keyring AbsolutePath `json:"keyring,omitempty"`
}

// Kubernetes is the node's part of Kubernetes.
type Kubernetes struct {
	// version of the kubelet. It must not be newer than the API server, nor more than three
	// minor versions older.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`
	Version string `json:"version"`

	// nodeLabels that the kubelet registers. Those of the group win.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeLabels map[string]LabelValue `json:"nodeLabels,omitempty"`

	// taints that the kubelet registers. Those of the group win.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Taints []Taint `json:"taints,omitempty"`

	// clusterDNS are the addresses of the cluster's name servers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	ClusterDNS []Address `json:"clusterDNS,omitempty"`

	// clusterDomain is the DNS domain of the cluster.
	// +optional
	// +kubebuilder:default=cluster.local
	// +kubebuilder:validation:MaxLength=253
	ClusterDomain string `json:"clusterDomain,omitempty"`

	// kubeletConfig is a KubeletConfiguration in YAML; it is merged over the defaults.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	KubeletConfig string `json:"kubeletConfig,omitempty"`

	// artifacts are the programs that are put into the image. What is absent must be in the
	// image already.
	// +optional
	Artifacts *Artifacts `json:"artifacts,omitempty"`
}

// Taint is a taint of a Node.
type Taint struct {
	// key of the taint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// value of the taint.
	// +optional
	Value LabelValue `json:"value,omitempty"`

	// effect of the taint.
	// +required
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect"`
}

// Artifacts are programs that are put into the image.
type Artifacts struct {
	// +optional
	Kubelet *Artifact `json:"kubelet,omitempty"`
	// +optional
	Containerd *Artifact `json:"containerd,omitempty"`
	// +optional
	Runc *Artifact `json:"runc,omitempty"`
	// +optional
	CNIPlugins *Artifact `json:"cniPlugins,omitempty"`
	// +optional
	Crictl *Artifact `json:"crictl,omitempty"`
}

// Artifact is a file that is fetched.
type Artifact struct {
	// url that the file is fetched from.
	// +required
	URL URL `json:"url"`

	// sha256 of the file.
	// +required
	SHA256 SHA256 `json:"sha256"`
}

// HostSettings are set on the host, because a node machine cannot set them for itself.
//
// +kubebuilder:validation:XValidation:rule="!has(self.kernelArguments) || self.kernelArguments.size() == 0",message="kernel arguments are not supported in systemd-nspawn; set them in the image or user data of the VM (it will be replaced), or use host.sysctls and host.kernelModules"
type HostSettings struct {
	// sysctls of the host's kernel.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Sysctls map[string]SettingValue `json:"sysctls,omitempty"`

	// kernelModules that are loaded.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9_-]+$`
	KernelModules []string `json:"kernelModules,omitempty"`

	// sshKeys of users of the host. The users must exist, and the host's policy must allow
	// them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	SSHKeys []SSHUser `json:"sshKeys,omitempty"`

	// kernelArguments are refused: node machine and host share a kernel.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	KernelArguments []string `json:"kernelArguments,omitempty"`
}

// SettingValue is the value of a sysctl or of an environment variable.
//
// +kubebuilder:validation:MaxLength=1024
type SettingValue string

// SSHUser is a user of the host with the keys that let people in.
type SSHUser struct {
	// user of the host.
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z_][-a-z0-9_]*$`
	User string `json:"user"`

	// keys, one public key each: type, base64 and a comment, no options.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Keys []SSHKey `json:"keys"`
}

// SSHKey is a public key without options.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self.matches('^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-ssh-ed25519@openssh[.]com|sk-ecdsa-sha2-nistp256@openssh[.]com) [A-Za-z0-9+/]+=*( [^\\n\\r]*)?$')",message="must be a public key: type, base64 and a comment, without options"
type SSHKey string

// Timeouts of the stages of a repave, 10s to 2h each.
type Timeouts struct {
	// prepare: fetch the image and build the slot.
	// +optional
	// +kubebuilder:default="20m"
	Prepare StageTimeout `json:"prepare,omitempty"`

	// stop the machine that runs.
	// +optional
	// +kubebuilder:default="3m"
	Stop StageTimeout `json:"stop,omitempty"`

	// boot the new one.
	// +optional
	// +kubebuilder:default="2m"
	Boot StageTimeout `json:"boot,omitempty"`

	// join: the Node appears and runs.
	// +optional
	// +kubebuilder:default="10m"
	Join StageTimeout `json:"join,omitempty"`
}

// StageTimeout is how long a stage may take.
//
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^([0-9]+(ms|s|m|h))+$`
// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('2h')",message="must be 10s to 2h"
type StageTimeout string
