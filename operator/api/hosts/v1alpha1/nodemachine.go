package v1alpha1

// NetworkMode is how a node machine reaches the network.
//
// +kubebuilder:validation:Enum=Host;Veth
type NetworkMode string

// Modes of the network.
const (
	// NetworkHost: the node machine uses the host's interfaces.
	NetworkHost NetworkMode = "Host"
	// NetworkVeth: it has an interface of its own.
	NetworkVeth NetworkMode = "Veth"
)

// NodeMachine is the systemd-nspawn machine that the node runs in.
//
// +kubebuilder:validation:XValidation:rule="!has(self.registries) || self.registries.map(r, has(r.mirrors) ? r.mirrors.map(m, has(m.caBundle) ? m.caBundle.size() : 0).sum() : 0).sum() <= 131072",message="the CA bundles of all mirrors together must be at most 131072 characters"
type NodeMachine struct {
	// network of the machine.
	// +optional
	// +kubebuilder:default=Host
	Network NetworkMode `json:"network,omitempty"`

	// binds are files and directories of the host that the machine sees.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Binds []Bind `json:"binds,omitempty"`

	// persist are directories that survive a repave.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Persist []Persist `json:"persist,omitempty"`

	// devices of the host that the machine may use: paths or patterns.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Devices []DevicePath `json:"devices,omitempty"`

	// environment of the machine's first process.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Environment map[string]SettingValue `json:"environment,omitempty"`

	// units of systemd in the machine.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Units []Unit `json:"units,omitempty"`

	// files in the machine.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=32
	Files []File `json:"files,omitempty"`

	// limits of all that runs in the machine.
	// +optional
	Limits *Limits `json:"limits,omitempty"`

	// registries say where the images of Pods are fetched from.
	// +optional
	// +listType=map
	// +listMapKey=host
	// +kubebuilder:validation:MaxItems=32
	Registries []Registry `json:"registries,omitempty"`

	// pullSecret is the name of a Secret of type kubernetes.io/dockerconfigjson in the
	// operator's namespace, for the images of Pods.
	// +optional
	PullSecret SecretName `json:"pullSecret,omitempty"`
}

// Bind is a file or a directory of the host that the machine sees.
type Bind struct {
	// source on the host.
	// +required
	Source AbsolutePath `json:"source"`

	// target in the machine.
	// +required
	Target AbsolutePath `json:"target"`

	// readOnly: the machine cannot change it.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`

	// optional: left out where the host does not have it.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// Persist is a directory that survives a repave.
type Persist struct {
	// path in the machine.
	// +required
	Path AbsolutePath `json:"path"`

	// name of the directory, once for each machine.
	// +required
	Name Label `json:"name"`

	// wipeOnRepave empties it at each repave.
	// +optional
	WipeOnRepave bool `json:"wipeOnRepave,omitempty"`
}

// DevicePath is a device of the host, or a pattern for several.
//
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^/dev/[^\x00]+$`
// +kubebuilder:validation:XValidation:rule="!self.contains('/../') && !self.endsWith('/..')",message="must not contain .."
type DevicePath string

// Unit is a unit of systemd.
type Unit struct {
	// name of the unit with its type, such as mine.service.
	// +required
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:_.@-]+[.](service|socket|mount|automount|swap|target|path|timer|slice)$`
	Name string `json:"name"`

	// content of the unit.
	// +required
	// +kubebuilder:validation:MaxLength=8192
	Content string `json:"content"`

	// enable starts it at boot.
	// +optional
	Enable bool `json:"enable,omitempty"`
}

// File is a file in the machine.
type File struct {
	// path in the machine.
	// +required
	Path AbsolutePath `json:"path"`

	// content of the file.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Content string `json:"content,omitempty"`

	// mode in octal, such as 0644.
	// +optional
	// +kubebuilder:default="0644"
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^0?[0-7]{3}$`
	Mode string `json:"mode,omitempty"`
}

// Limits of all that runs in the machine.
type Limits struct {
	// memoryMax is the most memory.
	// +optional
	MemoryMax MemorySize `json:"memoryMax,omitempty"`

	// cpuQuota in percent of one CPU: 250 is two and a half.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=102400
	CPUQuota *int32 `json:"cpuQuota,omitempty"`

	// tasksMax is the largest number of threads.
	// +optional
	// +kubebuilder:validation:Minimum=64
	TasksMax *int64 `json:"tasksMax,omitempty"`
}

// MemorySize is an amount of memory, such as 6Gi.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^[1-9][0-9]*(Ki|Mi|Gi|Ti)?$`
type MemorySize string

// Registry says where the images of one registry are fetched from.
type Registry struct {
	// host of the registry, with its port if it has one, as images name it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9.:_-]+$`
	Host string `json:"host"`

	// mirrors in the order in which they are asked. The registry itself comes last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Mirrors []Mirror `json:"mirrors,omitempty"`
}

// MirrorURL is the address of a mirror.
//
// +kubebuilder:validation:MinLength=9
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:Pattern=`^https://[^ ]+$`
type MirrorURL string

// Mirror of a registry. Its certificate is always verified.
type Mirror struct {
	// url of the mirror, with https.
	// +required
	URL MirrorURL `json:"url"`

	// caBundle are the certificates that the mirror's is verified with, PEM; by default
	// those of the image.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	CABundle string `json:"caBundle,omitempty"`
}
