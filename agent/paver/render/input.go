package render

// Host is what is known of a host. As JSON it is what nstance-paver facts prints.
type Host struct {
	// Machine is the name of the systemd-nspawn machine of the slot, such as `node-a`.
	Machine string `json:"machine,omitempty"`
	// StateDir is the paver's directory; empty: [StateDir].
	StateDir string `json:"stateDir,omitempty"`
	// ResolvConf is the host's /etc/resolv.conf, and PodResolvConf the one that Pods can use:
	// they cannot reach a name server on the host's loopback interface. Empty: not known, a
	// placeholder stands for it.
	ResolvConf    string `json:"resolvConf,omitempty"`
	PodResolvConf string `json:"podResolvConf,omitempty"`
	// Paths are those of [Wanted] that exist, and what matches its patterns, each with the path
	// that is left when symbolic links are followed. Nil: not known; every bind is written, and
	// patterns of devices as they stand.
	Paths map[string]string `json:"paths"`
	// SSHUsers are the users of the host that exist and whose keys its policy lets be set. Keys
	// of others are left out.
	SSHUsers []string `json:"sshUsers,omitempty"`
}

// StateDir is the paver's directory.
const StateDir = "/var/lib/nstance-paver"

// ServiceEnvironment is the environment that systemd-nspawn itself is started with. The drop-in
// sets it; who starts systemd-nspawn without systemd has to.
var ServiceEnvironment = []string{
	// Control groups of version 2 inside, whatever the image's systemd would choose.
	"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1",
	// The network plug-in and kube-proxy set parameters below /proc/sys/net.
	"SYSTEMD_NSPAWN_API_VFS_WRITABLE=network",
}
