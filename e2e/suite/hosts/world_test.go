//go:build hostnodes || hostvm

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
)

// configuration is the one MachineConfiguration, shard the one shard.
const configuration, shard = "node", "a"

// hostAddress is that of the box for its hosts, and with it of the API server.
const hostAddress = "192.0.2.10"

// connected gives the network of tests an interface with an address and a route by it: a kubelet
// takes the address of its Node from there.
type connected struct {
	tests kube.Runner
	alone func() error // keeps other tests of node machines out
}

func (c connected) Run() int {
	if err := c.alone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, args := range []string{
		"link add uplink type veth peer name downlink", "address add " + hostAddress + "/24 dev uplink",
		"link set uplink up", "link set downlink up", "route add default via 192.0.2.1 dev uplink",
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "ip %s: %v: %s", args, err, out)
			return 1
		}
	}
	return c.tests.Run()
}

// world is a cluster with one host: a control plane, a shard with one machine, which is the host, and an
// operator.
type world struct {
	t        *testing.T
	cluster  *kube.Cluster
	shards   *shards.Cluster
	admin    client.Client
	operator *kube.Process
	install  *inplace.Installation
	machine  string // the HostMachine, its Node and the instance
}

// startWorld starts one, with nothing that selects a version yet. If the test fails, seen is printed of the
// host.
func startWorld(t *testing.T, seen func(*world) string, machines ...shards.Option) *world {
	t.Helper()
	w := &world{t: t}
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
	w.shards = shards.New(t, map[string]shards.Groups{shard: {"web": 1}}, append(machines, shards.NodeMachines)...)
	w.installOperator()
	w.startOperator()
	t.Cleanup(func() {
		w.operator.Kill()
		if t.Failed() {
			t.Logf("nstance-operator:\n%s\n%s\n%s", w.operator.Log(80), w.conditions(), seen(w))
		}
	})
	kube.AwaitFor(t, nodesAreReady, "the operator knows of the host", func(ctx context.Context) error {
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

// conditions is what is known of the machine.
func (w *world) conditions() string {
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
	return text.String()
}

// podNetwork gives each Pod a pair of interfaces.
const podNetwork = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp",
  "ipam": {"type": "host-local", "dataDir": "/run/cni-pods", "ranges": [[{"subnet": "10.244.0.0/24"}]]}}]}
`

const kubeletVersion = "v1.36.3"

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
	n, err := w.findNode()
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) findNode() (*corev1.Node, error) {
	n := &corev1.Node{}
	return n, w.admin.Get(w.t.Context(), client.ObjectKey{Name: w.machine}, n)
}

func nodeIsReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
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
	kube.AwaitFor(w.t, nodesAreReady, fmt.Sprintf("Node is ready from version %d", version), func(context.Context) error {
		n, err := w.findNode()
		if err != nil {
			return err
		}
		ready := nodeIsReady(n)
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
	kube.AwaitFor(w.t, nodesAreReady, "the machine is ready", func(context.Context) error {
		s := w.host().Status
		if s.Phase != hostsv1.PhaseReady || s.Configuration == nil || s.Configuration.Applied == nil || s.Configuration.Applied.Version != version || s.NodeRef == nil || s.NodeRef.UID != string(w.node().UID) {
			return fmt.Errorf("phase %s, configuration %+v, Node %+v", s.Phase, s.Configuration, s.NodeRef)
		}
		return nil
	})
	return took
}

// knows waits until a repave would build a version.
func (w *world) knows(version int32) {
	w.t.Helper()
	kube.AwaitFor(w.t, nodesAreReady, fmt.Sprintf("version %d is what a repave builds", version), func(context.Context) error {
		if c := w.host().Status.Configuration; c == nil || c.Desired == nil || c.Desired.Version != version {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}

// run runs a Pod on the Node, until it is ready with an address of its own, and returns it.
func (w *world) run(name string, resources corev1.ResourceRequirements) *corev1.Pod {
	w.t.Helper()
	no := false
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{
				Name: "pause", Image: "registry.k8s.io/pause:3.10", ImagePullPolicy: corev1.PullNever, Resources: resources,
			}},
		},
	}
	kube.AwaitFor(w.t, nodesAreReady, "Pod "+name+" is taken", func(ctx context.Context) error { // once there is the service account of its namespace
		return client.IgnoreAlreadyExists(w.admin.Create(ctx, p.DeepCopy()))
	})
	kube.AwaitFor(w.t, podsRun, "Pod "+name+" runs", func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if !ready || p.Spec.NodeName != w.machine || !strings.HasPrefix(p.Status.PodIP, "10.244.0.") {
			return fmt.Errorf("on %q with address %q: %+v", p.Spec.NodeName, p.Status.PodIP, p.Status.Conditions)
		}
		return nil
	})
	return p
}

// end deletes a Pod, and waits until it is gone.
func (w *world) end(p *corev1.Pod) {
	w.t.Helper()
	if err := w.admin.Delete(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	w.gone(p)
}

// gone waits until a Pod that was deleted is gone.
func (w *world) gone(p *corev1.Pod) {
	w.t.Helper()
	kube.AwaitFor(w.t, podsAreGone, "Pod "+p.Name+" is gone", func(ctx context.Context) error {
		err := w.admin.Get(ctx, client.ObjectKeyFromObject(p), p)
		if err == nil {
			return fmt.Errorf("it exists: %+v", p.Status.ContainerStatuses)
		}
		return client.IgnoreNotFound(err)
	})
}

// How long what comes late on a box that is busy, or emulates a host, may take.
const (
	nodesAreReady = 15 * time.Minute
	podsRun       = 5 * time.Minute
	podsAreGone   = 10 * time.Minute
)
