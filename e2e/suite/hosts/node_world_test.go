//go:build hostnodes

package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	programs "nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/inplace"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
	"nstance.dev/e2e/repo/chart"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/protos/identity"
	"nstance.dev/providers/local"
)

// configuration is the one MachineConfiguration, shard the one shard.
const configuration, shard = "node", "a"

// world is a cluster with one host: a control plane, a shard whose one machine is an agent that
// relays to the paver of a box, and an operator.
type world struct {
	t        *testing.T
	box      *box
	cluster  *kube.Cluster
	shards   *shards.Cluster
	admin    client.Client
	operator *kube.Process
	install  *inplace.Installation
	machine  string // the HostMachine, its Node and the instance
}

// hostDisk is how large the file system for node machines is: two of them, and some.
const hostDisk = "5G"

// newWorld starts one, with nothing that selects a version yet.
func newWorld(t *testing.T) *world {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk")
	for _, args := range [][]string{{"truncate", "--size", hostDisk, disk}, {"mkfs.ext4", "-q", "-F", disk}} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	w := &world{t: t, box: newBoxOf(t, *rootArchive, "-o loop "+disk)}
	// There is no name server in this network. A kubelet asks for the name of its own Node, again and again,
	// and does not wait for an answer from an address where nobody listens.
	resolver := "rm -f /etc/resolv.conf && echo nameserver " + hostAddress + " >/etc/resolv.conf"
	if out, err := w.onHost("sh", "-c", resolver).CombinedOutput(); err != nil {
		t.Fatalf("set the name server of the host: %v: %s", err, out)
	}
	w.box.launch()
	w.box.eventually("the paver's socket", 20*time.Second, func() bool { return w.box.exists("run/paver.sock") })
	w.cluster = kube.Start(t, kube.Config{
		Kubelets: true, Scheduler: true, Names: []string{hostAddress}, Flags: map[kube.Component][]string{kube.APIServer: {"--bind-address=0.0.0.0"}},
	})
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), hostsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	admin := w.cluster.Admin()
	admin.WarningHandler = rest.NoWarnings{}
	var err error
	if w.admin, err = client.New(admin, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	relayed := fmt.Sprintf("export %s=%s\nexec ", identity.EnvPaverSocket, w.box.path("run/paver.sock"))
	w.shards = shards.New(t, map[string]shards.Groups{shard: {"web": 1}}, shards.NodeMachines,
		shards.UserData(strings.Replace(local.DefaultUserData, "exec ", relayed, 1)))
	w.installOperator()
	w.startOperator()
	t.Cleanup(func() {
		w.operator.Kill()
		if t.Failed() {
			t.Logf("nstance-operator:\n%s\nnstance-paver:\n%s\n%s", w.operator.Log(80), w.box.logEnd(), w.inMachine())
		}
	})
	kube.Await(t, "the operator knows of the host", func(ctx context.Context) error {
		var all hostsv1.HostMachineList
		if err := w.admin.List(ctx, &all); err != nil {
			return err
		}
		if len(all.Items) != 1 {
			return fmt.Errorf("%d HostMachines", len(all.Items))
		}
		w.machine = all.Items[0].Name
		return nil
	})
	return w
}

// installOperator installs the operator's chart, but for its Deployment.
func (w *world) installOperator() {
	w.t.Helper()
	address := func() string {
		port, err := kube.FreePort()
		if err != nil {
			w.t.Fatal(err)
		}
		return fmt.Sprintf("%s:%d", kube.Address(), port)
	}
	var err error
	w.install, err = inplace.Install(w.t.Context(), inplace.Options{
		Cluster: w.cluster, Release: chart.Release{Name: "nstance-operator", Namespace: "nstance-system"}, Dir: w.t.TempDir(),
		Values: map[string]any{
			"config": map[string]any{"clusterId": shards.ClusterID, "tenant": shards.Tenant, "shards": map[string]any{shard: map[string]any{
				"operator_addr": w.shards.OperatorAddr(shard), "registration_addr": w.shards.RegistrationAddr(shard), "zone": shard,
			}}},
			"ca":              map[string]any{"create": true, "pem": string(w.shards.CA())},
			"registration":    map[string]any{"jwt": w.shards.Nonce(shards.Tenant)},
			"capi":            map[string]any{"apiServer": w.cluster.APIServer()},
			"hosts":           map[string]any{"enabled": true, "apiServer": w.apiServer()},
			"webhook":         map[string]any{"enabled": false},
			"onDemand":        map[string]any{"mode": "off"},
			"log":             map[string]any{"format": "text"},
			"healthProbeAddr": address(),
			"metrics":         map[string]any{"address": address()},
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// apiServer is the API server as the host reaches it: at another address than the operator.
func (w *world) apiServer() string {
	return strings.Replace(w.cluster.APIServer(), "127.0.0.1", hostAddress, 1)
}

func (w *world) startOperator() {
	w.t.Helper()
	var err error
	w.operator, err = kube.Run(programs.Binary(w.t, "nstance-operator"), w.install.Args, w.install.Env, filepath.Join(w.t.ArtifactDir(), "nstance-operator.log"))
	if err != nil {
		w.t.Fatal(err)
	}
}

// inMachine is what units of the machine that runs say, and what is known of it.
func (w *world) inMachine() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var m hostsv1.HostMachine
	if err := w.admin.Get(ctx, client.ObjectKey{Name: w.machine}, &m); err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, c := range m.Status.Conditions {
		fmt.Fprintf(&text, "%s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
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
func (w *world) template(content string) hostsv1.Template {
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

const kubeletVersion = "v1.36.3"

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

// podNetwork gives each Pod a pair of interfaces.
const podNetwork = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp",
  "ipam": {"type": "host-local", "dataDir": "/run/cni-pods", "ranges": [[{"subnet": "10.244.0.0/24"}]]}}]}
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

// history is how many versions are kept: all that a test makes.
var history int32 = 100

// configure makes the MachineConfiguration, or changes its template.
func (w *world) configure(template hostsv1.Template) {
	w.t.Helper()
	c := &hostsv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configuration}}
	err := w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(c), c)
	was := c.DeepCopy()
	c.Spec.Template, c.Spec.MachineSelector, c.Spec.RevisionHistoryLimit = template, &hostsv1.MachineSelector{}, &history
	if err == nil {
		err = w.admin.Patch(w.t.Context(), c, client.MergeFrom(was))
	} else if client.IgnoreNotFound(err) == nil {
		err = w.admin.Create(w.t.Context(), c)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// want has the machine name a version; 0: none, so that the newest counts.
func (w *world) want(version int32) {
	w.t.Helper()
	w.change(func(m *hostsv1.HostMachine) {
		m.Spec.ConfigurationRef = nil
		if version > 0 {
			m.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: configuration, Version: &version}
		}
	})
}

func (w *world) change(edit func(*hostsv1.HostMachine)) {
	w.t.Helper()
	m := w.host()
	patch := client.MergeFrom(m.DeepCopy())
	edit(m)
	if err := w.admin.Patch(w.t.Context(), m, patch); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) host() *hostsv1.HostMachine {
	w.t.Helper()
	m := &hostsv1.HostMachine{}
	if err := w.admin.Get(w.t.Context(), client.ObjectKey{Name: w.machine}, m); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// node is the machine's Node.
func (w *world) node() *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{}
	if err := w.admin.Get(w.t.Context(), client.ObjectKey{Name: w.machine}, n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// deleteNode deletes the Node as users do, and returns what it was.
func (w *world) deleteNode() types.UID {
	w.t.Helper()
	n := w.node()
	if err := w.admin.Delete(w.t.Context(), n, client.Preconditions{UID: &n.UID}); err != nil {
		w.t.Fatal(err)
	}
	return n.UID
}

// nodeReady waits until the Node is ready again, another one than was, and says that it was built from a
// version. It returns how long that took.
func (w *world) nodeReady(was types.UID, version int32) time.Duration {
	w.t.Helper()
	began := time.Now()
	kube.AwaitFor(w.t, 8*time.Minute, fmt.Sprintf("Node is ready from version %d", version), func(ctx context.Context) error {
		n := &corev1.Node{}
		if err := w.admin.Get(ctx, client.ObjectKey{Name: w.machine}, n); err != nil {
			return err
		}
		ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if said := n.Annotations[hostsv1.AnnotationConfigurationVersion]; n.UID == was || !ready || said != strconv.Itoa(int(version)) || n.Annotations[hostsv1.AnnotationConfiguration] != configuration {
			return fmt.Errorf("Node %s (was %s): ready %t, version %q", n.UID, was, ready, said)
		}
		return nil
	})
	return time.Since(began)
}

// joined is nodeReady for the version that was assigned: with it the machine is ready.
func (w *world) joined(was types.UID, version int32) time.Duration {
	w.t.Helper()
	took := w.nodeReady(was, version)
	kube.Await(w.t, "the machine is ready", func(context.Context) error {
		s := w.host().Status
		if s.Phase != hostsv1.PhaseReady || s.Configuration == nil || s.Configuration.Applied == nil || s.Configuration.Applied.Version != version || s.NodeRef == nil || s.NodeRef.UID != string(w.node().UID) {
			return fmt.Errorf("phase %s, configuration %+v, Node %+v", s.Phase, s.Configuration, s.NodeRef)
		}
		return nil
	})
	return took
}
