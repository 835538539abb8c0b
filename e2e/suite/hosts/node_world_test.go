//go:build hostnodes

package hosts_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/shards"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/protos/identity"
	"nstance.dev/providers/local"
)

// nodeWorld is a world whose host is a box: the machine of its shard is an agent that relays to the paver
// there.
type nodeWorld struct {
	*world
	box *box
}

// hostDisk is how large the file system for node machines is: two of them, and some.
const hostDisk = "5G"

// newWorld starts one.
func newWorld(t *testing.T) *nodeWorld {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk")
	for _, args := range [][]string{{"truncate", "--size", hostDisk, disk}, {"mkfs.ext4", "-q", "-F", disk}} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	w := &nodeWorld{box: newBoxOf(t, *rootArchive, "-o loop "+disk)}
	// There is no name server in this network. A kubelet asks for the name of its own Node, again and again,
	// and does not wait for an answer from an address where nobody listens.
	resolver := "rm -f /etc/resolv.conf && echo nameserver " + hostAddress + " >/etc/resolv.conf"
	if out, err := w.onHost("sh", "-c", resolver).CombinedOutput(); err != nil {
		t.Fatalf("set the name server of the host: %v: %s", err, out)
	}
	w.box.launch()
	w.box.eventually("the paver's socket", 20*time.Second, func() bool { return w.box.exists("run/paver.sock") })
	relayed := fmt.Sprintf("export %s=%s\nexec ", identity.EnvPaverSocket, w.box.path("run/paver.sock"))
	w.world = startWorld(t, func(*world) string { return "nstance-paver:\n" + w.box.logEnd() + "\n" + w.inMachine() },
		shards.UserData(strings.Replace(local.DefaultUserData, "exec ", relayed, 1)))
	return w
}

// inMachine is what units of the machine that runs say.
func (w *nodeWorld) inMachine() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var text strings.Builder
	for slot, pids := range w.box.supervisors() {
		for _, pid := range pids {
			children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
			if err != nil || len(strings.Fields(string(children))) == 0 {
				continue
			}
			out, _ := exec.CommandContext(ctx, "nsenter", "-a", "-t", strings.Fields(string(children))[0], "journalctl", "--no-pager", "--lines=60", "-u", "kubelet", "-u", "containerd", "-u", "pod-image").CombinedOutput()
			fmt.Fprintf(&text, "journal of %s:\n%s\n", slot, out)
		}
	}
	return text.String()
}

// template is what machines are built from: content is what tells its versions apart.
func (w *nodeWorld) template(content string) hostsv1.Template {
	return hostsv1.Template{
		Image:      hostsv1.Image{Type: hostsv1.ImageArchive, Archive: &hostsv1.ArchiveImage{URL: hostsv1.URL(w.box.registry.server.URL + "/root.tar"), SHA256: hostsv1.SHA256(w.box.registry.sha256)}},
		Kubernetes: hostsv1.Kubernetes{Version: kubeletVersion, KubeletConfig: kubeletConfig},
		Machine: &hostsv1.NodeMachine{
			Binds: []hostsv1.Bind{{Source: hostsv1.AbsolutePath(w.box.path("sys")), Target: "/srv/sysctls", ReadOnly: true}},
			Files: []hostsv1.File{
				{Path: "/etc/content", Content: content, Mode: "0644"},
				{Path: "/etc/cni/net.d/10-pods.conflist", Content: podNetwork, Mode: "0644"},
				{Path: "/usr/local/bin/see-sysctls", Content: seeSysctls, Mode: "0755"},
				{Path: "/etc/systemd/system/kubelet.service.d/50-sysctls.conf", Content: "[Service]\nExecStartPre=/usr/local/bin/see-sysctls\n", Mode: "0644"},
			},
		},
		Timeouts: &hostsv1.Timeouts{Prepare: "5m", Stop: "1m", Boot: "2m", Join: "3m"},
	}
}

// kubeletConfig is for boxes whose control groups have no controllers: without limits of Pods and groups
// of their classes of service.
const kubeletConfig = `cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
failSwapOn: false
nodeStatusReportFrequency: 10s
nodeStatusUpdateFrequency: 2s
`

// seeSysctls has the kubelet see the parameters of the kernel that the paver has set on its host, which
// are files there: this box keeps its own.
const seeSysctls = `#!/bin/sh
set -eu
cd /srv/sysctls
for name in kernel.* vm.*; do
	at=/proc/sys/$(echo "$name" | tr . /)
	mountpoint -q "$at" || mount --bind "$name" "$at"
done
`
