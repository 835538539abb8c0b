package render

import (
	"fmt"
	"strings"
)

// masked are units of an image that must not run in a machine that has the host's network:
// they would set up its interfaces again, or change packages under a node.
var masked = []string{
	"apt-daily-upgrade.service", "apt-daily-upgrade.timer", "apt-daily.service", "apt-daily.timer",
	"systemd-networkd-wait-online.service", "systemd-networkd.service", "systemd-networkd.socket",
	"systemd-resolved-monitor.socket", "systemd-resolved-varlink.socket", "systemd-resolved.service",
}

const (
	fromHost       = "<from the host>"
	fromCredential = "<from the join credential>"
)

// fromSecret stands for the content of a Secret.
func fromSecret(name string) string { return "<from Secret " + name + ">" }

// system writes what makes an image the machine of this node.
func (r *renderer) system() {
	r.slot("/etc/hostname", 0o644, hostname(r.a.GetNodeName())+"\n")
	// Empty, so that systemd makes a new id at the first boot; it writes it here.
	r.add(File{Place: Slot, Path: "/etc/machine-id", Mode: 0o444, Runtime: true})
	r.add(File{Place: Slot, Path: "/etc/resolv.conf", Mode: 0o644, Runtime: true, Content: orPlaceholder(r.host.ResolvConf)})
	r.add(File{Place: Slot, Path: PodResolvConf, Mode: 0o644, Runtime: true, Content: orPlaceholder(r.host.PodResolvConf)})
	// The kubelet reads the kernel's messages, which a container has no device for.
	r.slot("/etc/tmpfiles.d/kmsg.conf", 0o644, "L /dev/kmsg - - - - /dev/console\n")
	for _, unit := range masked {
		r.add(File{Place: Slot, Path: unitDir + "/" + unit, Link: "/dev/null"})
	}
	c := r.a.GetConfiguration()
	r.slot(VersionFile, 0o644, fmt.Sprintf("%s-v%d\n", c.GetName(), c.GetVersion()))
	r.slot(HashFile, 0o644, c.GetHash()+"\n")
	r.slot(EpochFile, 0o644, fmt.Sprintf("%d\n", r.a.GetEpoch()))
}

func orPlaceholder(content string) string {
	if content == "" {
		return fromHost + "\n"
	}
	return content
}

// hostname is the name of the node where the kernel takes it, at most 64 characters, else its
// first part. The kubelet is told the whole name.
func hostname(node string) string {
	if len(node) <= 64 {
		return node
	}
	first, _, _ := strings.Cut(node, ".")
	return first[:min(len(first), 64)]
}
