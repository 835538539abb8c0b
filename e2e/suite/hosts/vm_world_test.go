//go:build hostvm

package hosts_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	programs "nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/hostvm"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// vmWorld is a world whose host is a virtual machine: a Debian with the units and the user data that are
// shipped, whose node machines are services of its systemd.
type vmWorld struct {
	*world
	vm       *hostvm.Host
	registry *registry
}

// shipped is where what is installed on hosts is in the repository.
const shipped = "../../../deploy"

// atStart is what an image of a host has, and the user data of a cloud do not bring. Beside what is
// documented, the paver trusts the server of images of the test and writes its log to the console too.
const atStart = `
if [ ! -e /usr/local/bin/nstance-paver ]; then
	groupadd --system nstance
	install nstance-agent nstance-paver /usr/local/bin
	install --mode 644 nstance-paver.service /etc/systemd/system
	install -D --mode 644 roots.pem /etc/test/roots.pem
	mkdir -p /etc/systemd/system/nstance-paver.service.d
	printf '[Service]\nEnvironment=SSL_CERT_FILE=/etc/test/roots.pem\nStandardError=journal+console\n' >/etc/systemd/system/nstance-paver.service.d/50-test.conf
	echo '` + hostAddress + ` example.com' >>/etc/hosts
	sync
	systemctl daemon-reload
	systemctl enable --now nstance-paver.service
fi
`

// policyOfHost is how user data write the policy of a host.
const policyOfHost = `#!/bin/sh
install -d /etc/nstance-agent
cat >/etc/nstance-agent/machine-policy.yaml <<'END_OF_POLICY'
{{ .Machine.Policy }}END_OF_POLICY
`

// newVMWorld starts one, whose host is on its way.
func newVMWorld(t *testing.T) *vmWorld {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "root.tar.zst") // an emulated processor takes long for each byte
	if out, err := exec.CommandContext(t.Context(), "zstd", "-q", *rootArchive, "-o", archive).CombinedOutput(); err != nil {
		t.Fatalf("compress the root: %v: %s", err, out)
	}
	w := &vmWorld{registry: serveAt(t, hostAddress, archive)}
	port, err := kube.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	accelerator := hostvm.Accelerator(t.Context(), *hostImage, t.TempDir())
	t.Logf("the accelerator of QEMU is %s", accelerator)
	w.vm, err = hostvm.New(t.Context(), hostvm.Options{
		Image: *hostImage, Dir: t.TempDir(), Port: port, Accelerator: accelerator, Start: atStart,
		Files: map[string]string{
			"nstance-agent": programs.Binary(t, "nstance-agent"), "nstance-paver": programs.Binary(t, "nstance-paver"),
			"nstance-paver.service": filepath.Join(shipped, "systemd", "nstance-paver.service"), "roots.pem": w.registry.roots,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	userData, err := os.ReadFile(filepath.Join(shipped, "userdata", "shell.sh"))
	if err != nil {
		t.Fatal(err)
	}
	w.world = startWorld(t, w.seen,
		shards.UserData(w.vm.UserData(policyOfHost+strings.TrimPrefix(string(userData), "#!/bin/sh\n"))),
		shards.HostPolicy(map[string]any{"allow": map[string]any{"operations": []string{"reboot", "shutdown"}}}),
		shards.ReportInterval(time.Minute)) // a host may be away for as long as an emulated one takes to boot
	return w
}

// seen is what a failed test shows of the host.
func (w *vmWorld) seen(*world) string {
	console, err := w.vm.Console()
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := w.vm.Run(ctx, `
nstance-paver status
systemctl --failed --no-pager
ls -la /var/lib/machines
journalctl --no-pager --boot --lines=60 --unit=nstance-agent --unit=seed --unit=systemd-nspawn@node-a --unit=systemd-nspawn@node-b
for pid in $(pgrep --exact systemd-nspawn); do
	nsenter --all --target "$(cut -d' ' -f1 "/proc/$pid/task/$pid/children")" journalctl --no-pager --boot --lines=80 --unit=kubelet --unit=containerd --unit=pod-image
done
`)
	return fmt.Sprintf("console:\n%s\nthe host says (%v):\n%s", console[max(0, len(console)-8000):], err, out)
}

// template is what machines are built from: content is what tells its versions apart. All else is as it
// is by default: groups of the classes of service, and limits of Pods.
func (w *vmWorld) template(content string) hostsv1.Template {
	archive := strings.Replace(w.registry.server.URL, hostAddress, "example.com", 1) + "/root.tar"
	return hostsv1.Template{
		Image: hostsv1.Image{Type: hostsv1.ImageArchive, Archive: &hostsv1.ArchiveImage{URL: hostsv1.URL(archive), SHA256: hostsv1.SHA256(w.registry.sha256)}},
		// Without reports in between an emulated processor has more time for what is tested.
		Kubernetes: hostsv1.Kubernetes{Version: kubeletVersion, KubeletConfig: "nodeStatusReportFrequency: 10s\nnodeStatusUpdateFrequency: 5s\n"},
		Machine: &hostsv1.NodeMachine{Files: []hostsv1.File{
			{Path: "/etc/content", Content: content, Mode: "0644"},
			{Path: "/etc/cni/net.d/10-pods.conflist", Content: podNetwork, Mode: "0644"},
		}},
		Timeouts: &hostsv1.Timeouts{Prepare: "15m", Stop: "3m", Boot: "5m", Join: "10m"},
	}
}

// on runs a script on the host, and returns its output without the last line's end.
func (w *vmWorld) on(script string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Minute)
	defer cancel()
	out, err := w.vm.Run(ctx, "set -eu\n"+script)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

// expectOne: one machine runs, that which was built from that content, and it starts with its host; nothing
// of half a build is left.
func (w *vmWorld) expectOne(content string) {
	w.t.Helper()
	kube.AwaitFor(w.t, nodesAreReady, "one machine runs, and nothing is left to do", func(ctx context.Context) error {
		out, err := w.vm.Run(ctx, `set -eu
nstance-paver status | head -1 | sed 's/.*: //'
pgrep --exact --count systemd-nspawn
for slot in a b; do
	state=$(systemctl is-active systemd-nspawn@node-$slot || :)
	[ "$state" != active ] || echo "$(cat /var/lib/machines/node-$slot/etc/content) $(systemctl is-enabled systemd-nspawn@node-$slot)"
done
ls /etc/systemd/system/machines.target.wants
ls -d /var/lib/machines/*.new /var/lib/machines/*.old* 2>/dev/null || :
`)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 4 || lines[0] != "running" || lines[1] != "1" || lines[2] != content+" enabled" || !strings.HasPrefix(lines[3], "systemd-nspawn@node-") {
			return fmt.Errorf("want content %s: %q", content, lines)
		}
		return nil
	})
}

// again waits until the same Node is ready again, from another boot of its machine, and the machine is ready with
// the version that it had.
func (w *vmWorld) again(was *corev1.Node, version int32) {
	w.t.Helper()
	kube.AwaitFor(w.t, nodesAreReady, "the same Node is ready from another boot", func(context.Context) error {
		n, err := w.findNode()
		switch {
		case err != nil:
			return err
		case n.UID != was.UID:
			return fmt.Errorf("the Node is another one: %s, before %s", n.UID, was.UID)
		case n.Status.NodeInfo.BootID == was.Status.NodeInfo.BootID || !nodeIsReady(n):
			return fmt.Errorf("boot %s, before %s, ready %t", n.Status.NodeInfo.BootID, was.Status.NodeInfo.BootID, nodeIsReady(n))
		case n.Annotations[hostsv1.AnnotationConfigurationVersion] != strconv.Itoa(int(version)):
			return fmt.Errorf("version %s", n.Annotations[hostsv1.AnnotationConfigurationVersion])
		}
		return nil
	})
	w.joined(types.UID(""), version)
}
