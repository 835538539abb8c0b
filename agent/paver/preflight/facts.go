package preflight

import "time"

// Mode is how machines are run.
type Mode string

// Modes.
const (
	Service Mode = "service" // by the host's systemd
	Direct  Mode = "direct"  // by the paver itself, where systemd is not the first process
)

// Facts are what was found on a host.
type Facts struct {
	// Root: the paver runs as root. Capabilities are those in force, by bit.
	Root         bool
	Capabilities uint64
	// Init is the name of the first process, SystemdVersion that of systemd; 0: there is none.
	Init           string
	SystemdVersion int
	// Nspawn is where systemd-nspawn is; empty: it is not installed.
	Nspawn string
	// Unified: control groups are those of version 2 alone. Controllers are those available.
	Unified     bool
	Controllers []string
	// Swap is in use.
	Swap bool
	// Kubelets are process IDs of kubelets that run outside of the host's node machines, and
	// PortHolder is the process that has the kubelet's port, if it is outside of them: empty, nobody.
	Kubelets   []int
	PortHolder string
	// DiskFree are bytes that are free where machines are built.
	DiskFree uint64
	// Modules are those of the wanted ones that are loaded, built in, or can be loaded.
	Modules []string
	// Network are the answers of what was asked over the network.
	Network Network
}

// Network are the answers of what was asked over the network; nil: it was not asked.
type Network struct {
	Resolution  *Answer
	APIServer   *Answer
	ImageSource *Answer
	// Skew is how far the host's clock is ahead of the API server's; nil: it is not known.
	Skew *time.Duration
}

// Answer is what came of a question.
type Answer struct {
	// Asked is the address.
	Asked string
	// Err says why there was no answer; nil: there was one.
	Err error
}

// Wants are what a host must have.
type Wants struct {
	Mode Mode
	// AllowDegraded: the host's policy lets machines be built without limits.
	AllowDegraded bool
	// SwapAllowed: the template's kubelet starts with swap.
	SwapAllowed bool
	// Trees are the bytes of what is still to be unpacked and copied, as far as they are known.
	Trees uint64
	// Modules that the kernel must have.
	Modules []string
}
