package render

import (
	"path"
	"slices"
)

// Paths in the machine that others need to know.
const (
	// VersionFile, HashFile and EpochFile say what a slot was built from.
	VersionFile = "/etc/nstance/version"
	HashFile    = "/etc/nstance/hash"
	EpochFile   = "/etc/nstance/epoch"

	// KubeletConfig is the configuration of the kubelet.
	KubeletConfig = "/etc/kubernetes/kubelet.yaml"
	// BootstrapKubeconfig is what the kubelet asks for its client certificate with.
	BootstrapKubeconfig = "/etc/kubernetes/bootstrap-kubelet.conf"
	// Kubeconfig is written by the kubelet once it has its client certificate.
	Kubeconfig = "/var/lib/kubelet/kubeconfig"
	// ClusterCA are the certificates that the API server's is verified with.
	ClusterCA = "/etc/kubernetes/pki/ca.crt"
	// PullSecret is what the kubelet fetches the images of Pods with.
	PullSecret = "/var/lib/kubelet/config.json"
	// PodResolvConf is what Pods without a cluster's name server resolve names with.
	PodResolvConf = "/etc/kubernetes/resolv.conf"
	// ContainerdSocket is where containerd answers.
	ContainerdSocket = "/run/containerd/containerd.sock"

	containerdConfig = "/etc/containerd/config.toml"
	containerdCerts  = "/etc/containerd/certs.d"
	unitDir          = "/etc/systemd/system"
)

// Paths of the host that every machine's settings are in.
const (
	SysctlFile  = "/etc/sysctl.d/90-nstance.conf"
	ModulesFile = "/etc/modules-load.d/nstance.conf"
	// SSHDir has a file of keys for each user, SSHDropIn makes sshd read them.
	SSHDir    = "/etc/nstance/ssh"
	SSHDropIn = "/etc/ssh/sshd_config.d/50-nstance.conf"

	needrestartDir = "/etc/needrestart/conf.d"
	aptDir         = "/etc/apt/apt.conf.d"
	needrestart    = needrestartDir + "/nstance.conf"
	upgrades       = aptDir + "/52nstance"
)

// Directories of the host that have files of ours.
const (
	nspawnDir = "/etc/systemd/nspawn"
	dropInDir = "/etc/systemd/system"
)

// NspawnFile is the path of a machine's settings on the host.
func NspawnFile(machine string) string { return nspawnDir + "/" + machine + ".nspawn" }

// DropIn is the path of the settings of a machine's service on the host.
func DropIn(machine string) string {
	return dropInDir + "/systemd-nspawn@" + machine + ".service.d/50-nstance.conf"
}

// HostPaths are all paths that files of a plan for one of the machines can have on a host. One
// that ends in a slash is a directory that is ours with all that is in it. A reset removes them.
func HostPaths(machines ...string) []string {
	paths := []string{SysctlFile, ModulesFile, SSHDropIn, SSHDir + "/", needrestart, upgrades}
	for _, machine := range machines {
		paths = append(paths, NspawnFile(machine), path.Dir(DropIn(machine))+"/")
	}
	slices.Sort(paths)
	return paths
}
