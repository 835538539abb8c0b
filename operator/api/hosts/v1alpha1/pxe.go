package v1alpha1

// BootMethod is how a physical host is booted for its installation.
//
// +kubebuilder:validation:Enum=PXE;VirtualMedia
type BootMethod string

// Boot methods.
const (
	BootPXE          BootMethod = "PXE"
	BootVirtualMedia BootMethod = "VirtualMedia"
)

// InstallTarget is where the system of a host lives.
//
// +kubebuilder:validation:Enum=Memory;Disk
type InstallTarget string

// Install targets.
const (
	InstallToMemory InstallTarget = "Memory"
	InstallToDisk   InstallTarget = "Disk"
)

// Firmware of a host.
//
// +kubebuilder:validation:Enum=UEFI;BIOS
type Firmware string

// Firmwares.
const (
	FirmwareUEFI Firmware = "UEFI"
	FirmwareBIOS Firmware = "BIOS"
)

// Cleaning says how much of the disks is erased.
//
// +kubebuilder:validation:Enum=none;metadata;full
type Cleaning string

// Ways to clean.
const (
	CleaningNone     Cleaning = "none"
	CleaningMetadata Cleaning = "metadata" // partition tables and signatures
	CleaningFull     Cleaning = "full"     // every byte
)

// PXEHost says how a physical host is booted and installed. Once it is installed only
// cleaning and networkData may change.
type PXEHost struct {
	// boot is how the host is booted for its installation.
	// +optional
	// +kubebuilder:default=PXE
	Boot BootMethod `json:"boot,omitempty"`

	// installTo is where its system lives.
	// +optional
	// +kubebuilder:default=Disk
	InstallTo InstallTarget `json:"installTo,omitempty"`

	// firmware of the host.
	// +optional
	// +kubebuilder:default=UEFI
	Firmware Firmware `json:"firmware,omitempty"`

	// bootMAC is the interface that it boots from.
	// +optional
	BootMAC MAC `json:"bootMAC,omitempty"`

	// cleaning of the disks before the installation and when the HostMachine is deleted.
	// +optional
	// +kubebuilder:default=metadata
	Cleaning Cleaning `json:"cleaning,omitempty"`

	// adopt: the host is installed already. It is neither booted nor written to.
	// +optional
	Adopt bool `json:"adopt,omitempty"`

	// rootDeviceHints say which disk is installed to. Exactly one disk must fit.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// networkData is the network of the installed system. Default: DHCP everywhere.
	// +optional
	NetworkData *NetworkData `json:"networkData,omitempty"`
}

// RootDeviceHints describe a disk: all that is set must hold.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minSizeGiB) || !has(self.maxSizeGiB) || self.minSizeGiB <= self.maxSizeGiB",message="minSizeGiB must not be more than maxSizeGiB"
type RootDeviceHints struct {
	// serial number of the disk.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Serial string `json:"serial,omitempty"`

	// wwn is its World Wide Name.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	WWN string `json:"wwn,omitempty"`

	// path of the device, best one below /dev/disk/by-path.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^/dev/`
	Path string `json:"path,omitempty"`

	// model of the disk.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`

	// minSizeGiB is the least size.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinSizeGiB *int32 `json:"minSizeGiB,omitempty"`

	// maxSizeGiB is the most.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxSizeGiB *int32 `json:"maxSizeGiB,omitempty"`

	// rotational: the disk turns.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}

// NetworkData is the network of an installed system.
//
// +kubebuilder:validation:XValidation:rule="!has(self.bonds) || !has(self.interfaces) || self.interfaces.all(i, self.bonds.filter(b, i.name in b.members).size() <= 1)",message="an interface may be a member of one bond only"
type NetworkData struct {
	// interfaces of the host.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Interfaces []Interface `json:"interfaces,omitempty"`

	// bonds of interfaces.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Bonds []Bond `json:"bonds,omitempty"`

	// vlans on interfaces and bonds.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	VLANs []VLAN `json:"vlans,omitempty"`

	// nameservers of the host.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Nameservers []Address `json:"nameservers,omitempty"`

	// searchDomains of the host.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=253
	SearchDomains []string `json:"searchDomains,omitempty"`
}

// LinkName is the name of a network interface.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=15
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+$`
type LinkName string

// DHCPMode says for which addresses a DHCP server is asked.
//
// +kubebuilder:validation:Enum=None;IPv4;IPv6;Both
type DHCPMode string

// DHCP modes.
const (
	DHCPNone DHCPMode = "None"
	DHCPIPv4 DHCPMode = "IPv4"
	DHCPIPv6 DHCPMode = "IPv6"
	DHCPBoth DHCPMode = "Both"
)

// Addressing is what a link has of addresses and routes.
type Addressing struct {
	// mtu of the link.
	// +optional
	// +kubebuilder:validation:Minimum=576
	// +kubebuilder:validation:Maximum=9216
	MTU *int32 `json:"mtu,omitempty"`

	// dhcp says for which addresses a server is asked.
	// +optional
	DHCP DHCPMode `json:"dhcp,omitempty"`

	// addresses of the link, each with the length of its prefix.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Addresses []Network `json:"addresses,omitempty"`

	// routes by the link.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Routes []Route `json:"routes,omitempty"`
}

// Route to a network.
type Route struct {
	// to is the network.
	// +required
	To Network `json:"to"`

	// via is the router; absent: the network is on the link.
	// +optional
	Via Address `json:"via,omitempty"`

	// metric of the route; the lowest one wins.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Metric *int32 `json:"metric,omitempty"`
}

// Interface of a host.
type Interface struct {
	// name of the interface.
	// +required
	Name LinkName `json:"name"`

	// mac that it is recognised by; absent: by its name.
	// +optional
	MAC MAC `json:"mac,omitempty"`

	Addressing `json:",inline"`
}

// BondMode is how a bond uses its members.
//
// +kubebuilder:validation:Enum=ActiveBackup;LACP
type BondMode string

// Bond modes.
const (
	BondActiveBackup BondMode = "ActiveBackup"
	BondLACP         BondMode = "LACP"
)

// Bond of interfaces.
type Bond struct {
	// name of the bond.
	// +required
	Name LinkName `json:"name"`

	// members are names of interfaces.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Members []LinkName `json:"members"`

	// mode says how the members are used.
	// +optional
	// +kubebuilder:default=ActiveBackup
	Mode BondMode `json:"mode,omitempty"`

	Addressing `json:",inline"`
}

// VLAN on an interface or a bond.
type VLAN struct {
	// name of the VLAN's link.
	// +required
	Name LinkName `json:"name"`

	// link is the interface or the bond that it is on.
	// +required
	Link LinkName `json:"link"`

	// id of the VLAN.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	ID int32 `json:"id"`

	Addressing `json:",inline"`
}
