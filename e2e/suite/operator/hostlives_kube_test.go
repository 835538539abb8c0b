//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/hosts/host"
	hostinventory "nstance.dev/operator/controllers/hosts/inventory"
	"nstance.dev/operator/controllers/hosts/selection"
	"nstance.dev/operator/crds"
	"nstance.dev/operator/hosts/assignment"
	"nstance.dev/operator/hosts/lifecycle"
	"nstance.dev/operator/hosts/reports"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/policies/policytest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// lives are host machines whose Nodes join a real API server: their controller runs as the operator, and the
// shard and the agents behind it are simulated, in one process.
type lives struct {
	*hostWorld
	t    *testing.T
	deaf *deaf // what the controller asks the API server itself goes through it
	took time.Duration
	// with starts what else runs in the operator; nil: nothing does.
	with func(mgr ctrl.Manager, live client.Client, o controller.Options) error

	mu       sync.Mutex
	bad      map[int32]bool // versions that join on no host
	store    *reports.Store
	up       bool // the shard is
	agents   bool // they are
	hosts    map[string]*nstancev1.MachineState
	puts     []string
	repaving map[string]bool
	most     int        // machines that were repaved at once
	prepares background // what hosts prepare in the background; nil: nothing
	notices  []string
	builds   errgroup.Group
}

// background is what hosts prepare in the background, whose methods are called with mu held.
type background interface {
	// say adds to what is said of a host.
	say(id string, m *nstancev1.MachineState)
	// assigned hears that a machine is to be built from a version.
	assigned(id string, version int32)
}

// deaf stands between the controller and the API server: what it answers instead, to questions after a Node.
type deaf struct {
	next http.RoundTripper

	mu     sync.Mutex
	answer func(*http.Request) (*http.Response, error) // nil: the API server answers
	asked  int
}

func (d *deaf) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	answer := d.answer
	if answer == nil || !strings.HasPrefix(r.URL.Path, "/api/v1/nodes/") {
		d.mu.Unlock()
		return d.next.RoundTrip(r)
	}
	d.asked++
	d.mu.Unlock()
	return answer(r)
}

func (d *deaf) set(answer func(*http.Request) (*http.Response, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer, d.asked = answer, 0
}

func (d *deaf) times() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

func newLives(t *testing.T) *lives {
	t.Helper()
	l := &lives{hostWorld: newHostWorld(t), t: t, deaf: &deaf{}, up: true, agents: true, hosts: map[string]*nstancev1.MachineState{}, repaving: map[string]bool{}}
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		if crd.Spec.Names.Kind == "NstanceMachine" {
			apply(t, l.cluster, convert(t, crd))
		}
	}
	l.make(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: bootstrapNamespace}})
	l.make(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: bootstrapNamespace, Name: bootstrap}})
	t.Cleanup(func() {
		if err := l.builds.Wait(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// run starts the controller of node machines as a new process does, which knows nothing, and returns what ends it: as a
// process that is killed, of which no request arrives any more.
func (l *lives) run() (stop func()) {
	t := l.t
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, hostsv1.AddToScheme, infrav1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config, err := l.cluster.User(policytest.Params.User, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	var dead atomic.Bool
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return mortal{next, &dead} })
	yes := true
	o := ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: asShipped}
	o.Controller.SkipNameValidation = &yes
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		t.Fatal(err)
	}
	index := mgr.GetFieldIndexer()
	errs := []error{
		index.IndexField(t.Context(), &hostsv1.HostMachine{}, selection.IndexField, selection.Index),
		index.IndexField(t.Context(), &hostsv1.HostMachine{}, hostinventory.IndexField, hostinventory.Index),
	}
	for field, of := range nodes.MachineIndexes() {
		errs = append(errs, index.IndexField(t.Context(), &infrav1.NstanceMachine{}, field, of))
	}
	through := rest.CopyConfig(config)
	through.Timeout = 5 * time.Second
	through.Wrap(func(next http.RoundTripper) http.RoundTripper {
		l.deaf.next = next
		return l.deaf
	})
	live, err := client.New(through, client.Options{Scheme: scheme})
	secrets, err2 := client.New(config, client.Options{Scheme: scheme})
	if err := errors.Join(append(errs, err, err2)...); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.store = reports.New()
	l.snapshot()
	l.mu.Unlock()
	r := host.New(host.Options{
		Client: mgr.GetClient(), Secrets: secrets, Namespace: bootstrapNamespace, SecretMissing: func(context.Context, string) bool { return false },
		Nodes: host.Nodes{Client: mgr.GetClient(), Live: live, Version: func() string { return "v1.36.3" }, API: func(context.Context) assignment.APIServer {
			return assignment.APIServer{URL: config.Host, CA: config.CAData}
		}},
		Inventory: l.known.store, Reports: l.store,
		Server: func(string) (host.Server, bool) {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l, l.up
		},
		Lock: func(ctx context.Context, configuration string, number int32, machine string) (host.Locked, error) {
			v, err := l.versions.Lock(ctx, configuration, number, machine)
			return host.Locked{Reference: v.Reference, Content: assignment.Content{Template: v.Template}}, err
		},
		Credentials: &host.Tokens{Client: secrets, Namespace: bootstrapNamespace, ServiceAccount: bootstrap},
		Events:      mgr.GetEventRecorder("nstance-operator"), Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Notice: func(_ context.Context, _ runtime.Object, reason, _, format string, args ...any) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.notices = append(l.notices, reason+": "+fmt.Sprintf(format, args...))
		},
	})
	if err := r.SetupWithManager(mgr, mgr, l.known.hub, controller.Options{MaxConcurrentReconciles: 10, SkipNameValidation: &yes}); err != nil {
		t.Fatal(err)
	}
	if l.with != nil {
		if err := l.with(mgr, secrets, controller.Options{MaxConcurrentReconciles: 10, SkipNameValidation: &yes}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			dead.Store(true)
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// snapshot has the shard say all that it knows, if it is up; mu is held.
func (l *lives) snapshot() {
	if !l.up {
		return
	}
	l.store.MachinesOpened("a")
	for id := range l.hosts {
		l.say(id)
	}
	l.store.MachineEvent("a", &nstancev1.MachineEvent{Type: "snapshot_end"})
}

// say has the shard say what it knows of a host; mu is held.
func (l *lives) say(id string) {
	if !l.up {
		return
	}
	h := l.hosts[id]
	said := &nstancev1.MachineState{Connected: l.agents, Status: h.Status, Assignment: h.Assignment}
	if l.prepares != nil {
		l.prepares.say(id, said)
	}
	l.store.MachineEvent("a", &nstancev1.MachineEvent{InstanceId: id, Type: "machine", Machine: said})
}

// change changes who is up, with what follows from it: an agent that comes back builds what it was told meanwhile.
func (l *lives) change(shard, agents bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	back := agents && !l.agents
	l.up, l.agents = shard, agents
	l.snapshot()
	for id := range l.hosts {
		if back {
			l.build(id)
		}
	}
}

// PutAssignment implements [host.Server].
func (l *lives) PutAssignment(_ context.Context, r *nstancev1.PutAssignmentRequest) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, id := r.GetAssignment(), r.GetInstanceId()
	h := l.hosts[id]
	if h.GetAssignment().GetEpoch() >= a.GetEpoch() {
		return nil
	}
	if l.prepares != nil {
		l.prepares.assigned(id, a.GetConfiguration().GetVersion())
	}
	l.puts = append(l.puts, fmt.Sprintf("%s %d", id, a.GetEpoch()))
	h.Assignment = &nstancev1.AssignmentState{MachineName: a.GetMachineName(), MachineUid: a.GetMachineUid(), Epoch: a.GetEpoch(), Mode: a.GetMode(), Configuration: a.GetConfiguration()}
	if a.GetEpoch() > 1 {
		l.repaving[id] = true
		l.most = max(l.most, len(l.repaving))
	}
	l.say(id)
	l.build(id)
	return nil
}

// DeleteAssignment implements [host.Server].
func (l *lives) DeleteAssignment(context.Context, *nstancev1.DeleteAssignmentRequest) error {
	return nil
}

// ConfirmNode implements [host.Server].
func (l *lives) ConfirmNode(_ context.Context, r *nstancev1.ConfirmNodeRequest) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := r.GetInstanceId()
	h := l.hosts[id]
	h.Assignment.Confirmed = &nstancev1.NodeConfirmed{Epoch: r.GetEpoch(), NodeUid: r.GetNodeUid(), BootId: r.GetBootId()}
	h.Status.Stage = nstancev1.MachineStage_MACHINE_STAGE_RUNNING
	delete(l.repaving, id)
	l.say(id)
	return nil
}

// SetHold implements [host.Server].
func (l *lives) SetHold(_ context.Context, r *nstancev1.SetHoldRequest) (*nstancev1.Hold, error) {
	return &nstancev1.Hold{Reason: r.GetReason(), Until: r.GetUntil()}, nil
}

// ClearHold implements [host.Server].
func (l *lives) ClearHold(context.Context, *nstancev1.ClearHoldRequest) error { return nil }

// build has a host build what it was told, and its kubelet join; mu is held.
func (l *lives) build(id string) {
	a := l.hosts[id].GetAssignment()
	if !l.agents || a.GetEpoch() == 0 || a.GetConfirmed() != nil || a.GetEpoch() == l.hosts[id].GetStatus().GetEpoch() {
		return
	}
	boot := fmt.Sprintf("%s-%d", id, a.GetEpoch())
	if l.bad[a.GetConfiguration().GetVersion()] {
		l.revert(id, boot)
		return
	}
	l.hosts[id].Status = &nstancev1.MachineStatus{Epoch: a.GetEpoch(), Stage: nstancev1.MachineStage_MACHINE_STAGE_JOIN, Slots: []*nstancev1.MachineSlot{
		{Name: "a", State: nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING, Configuration: a.GetConfiguration(), Epoch: a.GetEpoch(), BootId: boot},
	}}
	l.say(id)
	l.builds.Go(func() error {
		time.Sleep(l.took)
		return l.register(id, boot)
	})
}

// revert has a host fail to build what it was told, and its old machine run again; mu is held.
func (l *lives) revert(id, boot string) {
	a, old := l.hosts[id].GetAssignment(), l.hosts[id].GetStatus().GetSlots()[0]
	l.hosts[id].Status = &nstancev1.MachineStatus{Epoch: a.GetEpoch(), Stage: nstancev1.MachineStage_MACHINE_STAGE_JOIN}
	l.say(id)
	l.builds.Go(func() error {
		time.Sleep(l.took)
		l.mu.Lock()
		l.hosts[id].Status = &nstancev1.MachineStatus{
			Epoch: a.GetEpoch(), Stage: nstancev1.MachineStage_MACHINE_STAGE_FAILED, Failure: &nstancev1.MachineFailure{
				Epoch: a.GetEpoch(), Configuration: a.GetConfiguration(), Stage: nstancev1.MachineStage_MACHINE_STAGE_JOIN, Reason: "JoinTimeout",
				Message: "its kubelet did not join", Outcome: nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_REVERTED,
			},
			Slots: []*nstancev1.MachineSlot{{Name: "a", State: nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING, Configuration: old.GetConfiguration(), Epoch: old.GetEpoch(), BootId: boot}},
		}
		delete(l.repaving, id)
		l.say(id)
		l.mu.Unlock()
		return l.register(id, boot)
	})
}

// register has a kubelet make its Node.
func (l *lives) register(id, boot string) error {
	ctx := context.WithoutCancel(l.t.Context())
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: corev1.NodeSpec{ProviderID: "nstance://a/" + id}}
	if err := l.admin.Create(ctx, n); err != nil {
		return err
	}
	n.Status.NodeInfo.BootID = boot
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	return l.admin.Status().Update(ctx, n)
}

// idle makes hosts that run nothing, and the HostMachines of their instances.
func (l *lives) idle(ids ...string) {
	l.mu.Lock()
	for _, id := range ids {
		l.hosts[id] = &nstancev1.MachineState{Status: &nstancev1.MachineStatus{Stage: nstancev1.MachineStage_MACHINE_STAGE_IDLE}}
		l.say(id)
	}
	l.mu.Unlock()
	l.known.list(ids...)
}

func (l *lives) deleteNode(id string) {
	l.t.Helper()
	if err := l.admin.Delete(l.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: id}}); err != nil {
		l.t.Error(err)
	}
}

// await waits until a machine is as a condition wants it.
func (l *lives) await(id, what string, is func(*hostsv1.HostMachine) bool) {
	l.t.Helper()
	kube.Await(l.t, what, func(ctx context.Context) error {
		m := &hostsv1.HostMachine{}
		if err := l.admin.Get(ctx, client.ObjectKey{Name: id}, m); err != nil {
			return err
		}
		if !is(m) {
			return fmt.Errorf("phase %s, repave %+v, configuration %+v, node %+v", m.Status.Phase, m.Status.Repave, m.Status.Configuration, m.Status.NodeRef)
		}
		return nil
	})
}

// joined wants a machine whose Node of an epoch is ready, and which everybody knows of.
func joined(epoch int64) func(*hostsv1.HostMachine) bool {
	return func(m *hostsv1.HostMachine) bool {
		c := m.Status.Configuration
		return m.Status.Phase == hostsv1.PhaseReady && c != nil && c.Assigned != nil && c.Assigned.Epoch == epoch && m.Status.NodeRef != nil && m.Status.NodeRef.UID != ""
	}
}

func (l *lives) published() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.puts...)
}

// says is an answer of the API server, or of what stands in front of it.
func says(code int, reason metav1.StatusReason) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		body, kind := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code), "application/json"
		if reason == "" {
			body, kind = "<html>nothing here</html>", "text/html"
		}
		return &http.Response{
			StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
		}, nil
	}
}

// M51: a Node is deleted while operator, shard and agent are down. Each of them comes back without the others: it is
// repaved when all of them are there.
func TestM51_DeletedWhileEverybodyIsDown(t *testing.T) {
	ownCluster(t)
	l := newLives(t)
	l.configure(t)
	stop := l.run()
	id := hostIDs(t, 1)[0]
	l.idle(id)
	l.await(id, "the machine has joined", joined(1))
	stop()
	l.change(false, false)
	l.deleteNode(id)
	l.run()
	l.await(id, "the operator is back, and waits for the shard", func(m *hostsv1.HostMachine) bool {
		return m.Status.Repave != nil && m.Status.Repave.Held != nil && m.Status.Repave.Held.Reason == lifecycle.HeldIncomplete
	})
	if all := l.published(); len(all) != 1 {
		t.Fatalf("published %v while the shard is down", all)
	}
	l.change(true, false)
	l.await(id, "the shard is back, and keeps the repave for the agent", func(m *hostsv1.HostMachine) bool {
		return m.Status.Configuration.Assigned.Epoch == 2 && len(l.published()) == 2
	})
	if err := l.admin.Get(t.Context(), client.ObjectKey{Name: id}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Errorf("the agent is down, and the Node is there: %v", err)
	}
	l.change(true, true)
	l.await(id, "the agent is back, and the machine is repaved", joined(2))
}

// settled writes what is so of a machine that has joined long ago.
func (l *lives) settled(id string, v hostsv1.VersionReference) error {
	ctx, boot := l.t.Context(), id+"-1"
	if err := l.register(id, boot); err != nil {
		return err
	}
	n := &corev1.Node{}
	if err := l.admin.Get(ctx, client.ObjectKey{Name: id}, n); err != nil {
		return err
	}
	m := &hostsv1.HostMachine{}
	for {
		if err := l.admin.Get(ctx, client.ObjectKey{Name: id}, m); err != nil {
			return err
		}
		m.Status.Configuration.Assigned = &hostsv1.AssignedVersion{VersionReference: v, Epoch: 1}
		m.Status.Configuration.Applied = &hostsv1.AppliedVersion{VersionReference: v}
		m.Status.NodeRef = &hostsv1.NodeReference{Name: id, UID: string(n.UID)}
		m.Status.Repave = &hostsv1.RepaveStatus{Epoch: 1, Mode: hostsv1.ModePave, Reason: lifecycle.ReasonFirst}
		if err := l.admin.Status().Update(ctx, m); err == nil {
			break
		} else if !apierrors.IsConflict(err) {
			return err
		}
	}
	m.Finalizers = []string{hostsv1.Finalizer}
	patch := []byte(`{"metadata":{"finalizers":["` + hostsv1.Finalizer + `"]}}`)
	if err := l.admin.Patch(ctx, m, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return err
	}
	of := &nstancev1.MachineConfigurationVersion{Name: string(v.Name), Version: v.Version, Uid: v.UID, Hash: string(v.Hash)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hosts[id] = &nstancev1.MachineState{
		Assignment: &nstancev1.AssignmentState{
			MachineName: id, MachineUid: string(m.UID), Epoch: 1, Mode: nstancev1.MachineMode_MACHINE_MODE_PAVE, Configuration: of,
			Confirmed: &nstancev1.NodeConfirmed{Epoch: 1, NodeUid: string(n.UID), BootId: boot},
		},
		Status: &nstancev1.MachineStatus{Epoch: 1, Stage: nstancev1.MachineStage_MACHINE_STAGE_RUNNING, Slots: []*nstancev1.MachineSlot{
			{Name: "a", State: nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING, Configuration: of, Epoch: 1, BootId: boot},
		}},
	}
	return nil
}
