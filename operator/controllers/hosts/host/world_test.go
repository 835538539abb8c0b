package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/assignment"
	"nstance.dev/operator/hosts/lifecycle"
	"nstance.dev/operator/hosts/reports"
	"nstance.dev/operator/hosts/selection"
	"nstance.dev/operator/hosts/versions"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/status"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// world is a reconciler between an API server, which may fail, and a shard that keeps assignments.
type world struct {
	t      *testing.T
	after  func(time.Duration) // lets time pass
	api    client.WithWatch
	faults testworld.Faults
	live   func() error // what live reads of Nodes fail with; nil: they do not
	r      *Reconciler
	shard  *shard
	inv    *inventory.Store
	events testworld.Events
	told   int
	issued int
	counts []string
	last   map[string]ctrl.Result
	woken  *queue // by the brake
	lists  int    // of all machines
	lock   error  // what locking a version fails with; nil: it does not
	// binding is how instances are bound; empty: their group has a size.
	binding string
	// hidden Nodes are not in the cache yet.
	hidden bool
	// stale is what the cache has of a machine that has changed since; nil: it is up to date.
	stale *hostsv1.HostMachine
	// fleet is what lists of all machines are answered from, where there are many; nil: they are not.
	fleet map[string]*hostsv1.HostMachine
}

// running makes a machine whose Node runs a version, and the host that reports it.
func (w *world) running(name string, v hostsv1.VersionReference) *hostsv1.HostMachine {
	w.t.Helper()
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{hostsv1.Finalizer}}, Spec: hostsv1.HostMachineSpec{
		Provisioner: hostsv1.ProvisionerNstance, Instance: &hostsv1.InstanceReference{Shard: "a", Tenant: testworld.Tenant, Group: "web", ID: hostsv1.InstanceID(name)},
	}}
	w.must(w.api.Create(w.t.Context(), m))
	m.Status.NodeRef = &hostsv1.NodeReference{Name: name, UID: "node-1-" + name}
	m.Status.Configuration = &hostsv1.ConfigurationStatus{
		Source: hostsv1.SourceSelector, Desired: &v, Assigned: &hostsv1.AssignedVersion{VersionReference: v, Epoch: 1}, Applied: &hostsv1.AppliedVersion{VersionReference: v},
	}
	m.Status.Repave = &hostsv1.RepaveStatus{Epoch: 1, Mode: hostsv1.ModePave, Reason: lifecycle.ReasonFirst}
	w.must(w.api.Status().Update(w.t.Context(), m))
	of := &nstancev1.MachineConfigurationVersion{Name: string(v.Name), Version: v.Version, Uid: v.UID, Hash: string(v.Hash)}
	h := w.shard.host(name)
	h.Assignment = &nstancev1.AssignmentState{
		MachineUid: string(m.UID), Epoch: 1, Mode: nstancev1.MachineMode_MACHINE_MODE_PAVE, Configuration: of,
		Confirmed: &nstancev1.NodeConfirmed{Epoch: 1, NodeUid: "node-1-" + name, BootId: "boot-1"},
	}
	w.shard.report(name, &nstancev1.MachineStatus{Epoch: 1, Stage: nstancev1.MachineStage_MACHINE_STAGE_RUNNING, Slots: []*nstancev1.MachineSlot{
		{Name: "a", State: nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING, Configuration: of, Epoch: 1, BootId: "boot-1"},
	}})
	w.node(name, "node-1-"+name, "boot-1")
	return m
}

// listing answers lists of all machines from fleet, which knows what was written.
func (w *world) listing(api client.WithWatch) client.WithWatch {
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if m, machine := o.(*hostsv1.HostMachine); machine && w.stale != nil {
				w.stale.DeepCopyInto(m)
				return nil
			}
			if _, node := o.(*corev1.Node); node && w.hidden {
				return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			all, machines := list.(*hostsv1.HostMachineList)
			o := client.ListOptions{}
			o.ApplyOptions(opts)
			switch {
			case !machines:
				return c.List(ctx, list, opts...)
			case o.FieldSelector == nil:
				w.lists++
			}
			switch {
			case w.fleet == nil:
				return c.List(ctx, list, opts...)
			case o.FieldSelector != nil: // a machine has the name of its Node here
				_, name, _ := strings.Cut(o.FieldSelector.String(), "=")
				if m := w.fleet[name]; m != nil {
					all.Items = []hostsv1.HostMachine{*m}
				}
				return nil
			}
			for _, m := range w.fleet {
				all.Items = append(all.Items, *m)
			}
			return nil
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			err := c.SubResource(sub).Apply(ctx, o, opts...)
			if named, ok := o.(interface{ GetName() string }); ok && err == nil && w.fleet != nil {
				m := &hostsv1.HostMachine{}
				if c.Get(ctx, client.ObjectKey{Name: named.GetName()}, m) == nil {
					w.fleet[m.Name] = m
				}
			}
			return err
		},
	})
}

// shard is what a shard keeps: assignments, and what hosts report.
type shard struct {
	w     *world
	store *reports.Store
	hosts map[string]*nstancev1.MachineState
	puts  []*nstancev1.PutAssignmentRequest
	holds map[string]*nstancev1.SetHoldRequest // those that are in force, by instance
	fail  error
}

func (s *shard) tell(id string) {
	s.store.MachineEvent("a", &nstancev1.MachineEvent{InstanceId: id, Type: "machine", Machine: s.hosts[id]})
}

func (s *shard) host(id string) *nstancev1.MachineState {
	if s.hosts[id] == nil {
		s.hosts[id] = &nstancev1.MachineState{}
	}
	return s.hosts[id]
}

func (s *shard) PutAssignment(_ context.Context, r *nstancev1.PutAssignmentRequest) error {
	if s.fail != nil {
		return s.fail
	}
	s.puts = append(s.puts, r)
	a := r.GetAssignment()
	h := s.host(r.GetInstanceId())
	if h.Assignment == nil || h.Assignment.Epoch < a.GetEpoch() {
		h.Assignment = &nstancev1.AssignmentState{
			MachineName: a.GetMachineName(), MachineUid: a.GetMachineUid(), Epoch: a.GetEpoch(), Mode: a.GetMode(), Configuration: a.GetConfiguration(),
		}
	}
	if c := r.GetCredential(); c != nil {
		h.Assignment.CredentialMissing, h.Assignment.CredentialSequence = false, c.GetSequence()
	}
	s.tell(r.GetInstanceId())
	return nil
}

func (s *shard) DeleteAssignment(_ context.Context, r *nstancev1.DeleteAssignmentRequest) error {
	if s.fail == nil {
		s.host(r.GetInstanceId()).Assignment = nil
		s.tell(r.GetInstanceId())
	}
	return s.fail
}

func (s *shard) ConfirmNode(_ context.Context, r *nstancev1.ConfirmNodeRequest) error {
	if s.fail != nil {
		return s.fail
	}
	h := s.host(r.GetInstanceId())
	if h.GetAssignment().GetEpoch() != r.GetEpoch() {
		return fmt.Errorf("confirmed epoch %d, and %d is stored", r.GetEpoch(), h.GetAssignment().GetEpoch())
	}
	h.Assignment.Confirmed = &nstancev1.NodeConfirmed{Epoch: r.GetEpoch(), NodeUid: r.GetNodeUid(), BootId: r.GetBootId()}
	s.tell(r.GetInstanceId())
	return nil
}

func (s *shard) SetHold(_ context.Context, r *nstancev1.SetHoldRequest) (*nstancev1.Hold, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	if s.holds == nil {
		s.holds = map[string]*nstancev1.SetHoldRequest{}
	}
	s.holds[r.GetInstanceId()] = r
	return &nstancev1.Hold{Reason: r.GetReason(), Until: r.GetUntil()}, nil
}

func (s *shard) ClearHold(_ context.Context, r *nstancev1.ClearHoldRequest) error {
	if s.fail == nil && s.holds[r.GetInstanceId()].GetReason() == r.GetReason() {
		delete(s.holds, r.GetInstanceId())
	}
	return s.fail
}

// report has a host report.
func (s *shard) report(id string, status *nstancev1.MachineStatus) {
	h := s.host(id)
	h.Connected, h.Status = status != nil, status
	s.tell(id)
}

// Issue and Revoke implement [Credentials].
func (w *world) Issue(_ context.Context, machine string, life time.Duration) (Issued, error) {
	w.issued++
	return Issued{Token: fmt.Sprintf("marked-token-%d", w.issued), ID: fmt.Sprintf("JTI=%s-%d", machine, w.issued), Until: time.Now().Add(life)}, nil
}

func (w *world) Revoke(context.Context, string) error {
	w.counts = append(w.counts, "revoked")
	return nil
}

var errRefused = errors.New("the API server breaks")

func run(t *testing.T, test func(w *world)) {
	t.Helper()
	testworld.Run(t, nil, func(t *testing.T, tw *testworld.World) {
		w := &world{t: t, inv: inventory.NewStore(testworld.Tenant, nil), last: map[string]ctrl.Result{}}
		b := testworld.NewClientBuilder(t).
			WithIndex(&hostsv1.HostMachine{}, byNodeName, func(o client.Object) []string { return []string{o.(*hostsv1.HostMachine).NodeName()} }).
			WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
		for field, index := range nodes.MachineIndexes() {
			b = b.WithIndex(machineKind(), field, index)
		}
		w.api = b.Build()
		w.inv.Configure([]string{"a"})
		w.shard = &shard{w: w, hosts: map[string]*nstancev1.MachineState{}}
		w.restart()
		w.after = tw.After
		test(w)
	})
}

// restart makes a new reconciler, as a new process does.
func (w *world) restart() {
	w.shard.store = reports.New()
	w.shard.store.MachinesOpened("a")
	for id := range w.shard.hosts {
		w.shard.tell(id)
	}
	w.shard.store.MachineEvent("a", &nstancev1.MachineEvent{Type: "snapshot_end"})
	live := interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, node := o.(*corev1.Node); node && w.live != nil {
				if err := w.live(); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	writer := w.faults.Through(w.listing(w.api))
	w.r = New(Options{
		Client: writer, Secrets: w.api, Namespace: testworld.Namespace,
		SecretMissing: func(ctx context.Context, name string) bool {
			return apierrors.IsNotFound(w.api.Get(ctx, client.ObjectKey{Namespace: testworld.Namespace, Name: name}, &corev1.Secret{}))
		},
		Nodes: Nodes{
			Client: writer, Live: live, Version: func() string { return "v1.36.3" },
			API: func(context.Context) assignment.APIServer {
				return assignment.APIServer{URL: "https://api.example.com:6443", CA: []byte("ca")}
			},
		},
		Inventory: w.inv, Reports: w.shard.store,
		Server: func(string) (Server, bool) { return w.shard, true },
		Lock: func(ctx context.Context, configuration string, number int32, machine string) (Locked, error) {
			if w.lock != nil {
				return Locked{}, w.lock
			}
			v := &hostsv1.MachineConfigurationVersion{}
			if err := w.api.Get(ctx, client.ObjectKey{Name: versions.Name(configuration, number)}, v); err != nil {
				return Locked{}, err
			}
			if !v.Status.Deployed {
				v.Status.Deployed = true
				if err := w.api.Status().Update(ctx, v); err != nil {
					return Locked{}, err
				}
				w.counts = append(w.counts, "locked "+v.Name)
			}
			return Locked{Reference: w.reference(configuration, number), Content: assignment.Content{Template: v.Spec.Template}}, nil
		},
		Credentials: w, Events: &w.events, Log: testLog(w.t), Now: time.Now,
		Notice: func(_ context.Context, _ runtime.Object, reason, _, format string, args ...any) {
			w.counts = append(w.counts, reason+": "+fmt.Sprintf(format, args...))
		},
		Count: Counters{Repaved: func(reason, result string) { w.counts = append(w.counts, reason+" "+result) }},
	})
	w.woken = &queue{}
	w.must(w.r.brake.woken.Source().Start(w.t.Context(), w.woken))
}

// queue is one that remembers what it was asked for.
type queue struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]
	names []string
}

func (q *queue) Add(r ctrl.Request) {
	if !slices.Contains(q.names, r.Name) {
		q.names = append(q.names, r.Name)
	}
}

// take returns what was asked for since the last call.
func (q *queue) take() []string {
	defer func() { q.names = nil }()
	return q.names
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// configuration makes a configuration that selects all machines, with versions of these numbers, the last of them not locked.
func (w *world) configuration(name string, numbers ...int32) {
	w.t.Helper()
	c := &hostsv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: hostsv1.MachineConfigurationSpec{MachineSelector: &hostsv1.MachineSelector{}}}
	w.must(w.api.Create(w.t.Context(), c))
	for i, number := range numbers {
		w.version(c, number, i < len(numbers)-1)
	}
}

func (w *world) version(c *hostsv1.MachineConfiguration, number int32, locked bool) {
	w.t.Helper()
	v := &hostsv1.MachineConfigurationVersion{ObjectMeta: metav1.ObjectMeta{
		Name:            versions.Name(c.Name, number),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, hostsv1.GroupVersion.WithKind(hostsv1.KindMachineConfiguration))},
	}}
	v.Spec = hostsv1.MachineConfigurationVersionSpec{ConfigurationName: hostsv1.ConfigurationName(c.Name), Version: number}
	v.Spec.Template = hostsv1.Template{
		Image:      hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: fmt.Sprintf("node:%d", number)}},
		Kubernetes: hostsv1.Kubernetes{Version: "v1.36.3"},
	}
	w.must(w.api.Create(w.t.Context(), v))
	v.Status.Deployed, v.Status.Hash = locked, versions.Hash(&v.Spec.Template)
	w.must(w.api.Status().Update(w.t.Context(), v))
}

func (w *world) reference(name string, number int32) hostsv1.VersionReference {
	w.t.Helper()
	c, v := &hostsv1.MachineConfiguration{}, &hostsv1.MachineConfigurationVersion{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, c))
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: versions.Name(name, number)}, v))
	return hostsv1.VersionReference{Name: hostsv1.ConfigurationName(name), Version: number, UID: string(c.UID), Hash: v.Status.Hash}
}

// machine makes the HostMachine of an instance that runs.
func (w *world) machine(name string) {
	w.t.Helper()
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: hostsv1.HostMachineSpec{
		Provisioner: hostsv1.ProvisionerNstance, Instance: &hostsv1.InstanceReference{Shard: "a", Tenant: testworld.Tenant, Group: "web", ID: hostsv1.InstanceID(name)},
	}}
	w.must(w.api.Create(w.t.Context(), m))
	w.instances()
	w.shard.report(name, &nstancev1.MachineStatus{Stage: nstancev1.MachineStage_MACHINE_STAGE_IDLE})
}

// instances has the shard list the instances of all machines, as they are changed.
func (w *world) instances(change ...func(*nstancev1.InstanceStatus)) {
	w.t.Helper()
	var all hostsv1.HostMachineList
	w.must(w.api.List(w.t.Context(), &all))
	list := inventory.InstanceList{Complete: true, Asked: time.Now()}
	for i := range all.Items {
		in := &nstancev1.InstanceStatus{
			InstanceId: all.Items[i].Name, Tenant: testworld.Tenant, Group: "web", Status: inventory.StatusRunning,
			CreatedAt: pbTime(time.Now()), LastSeen: pbTime(time.Now()), RegisteredAt: pbTime(time.Now()), Machine: &nstancev1.InstanceMachine{Arch: "amd64", Binding: w.binding},
		}
		for _, c := range change {
			c(in)
		}
		list.Instances = append(list.Instances, in)
	}
	now := time.Now()
	w.inv.Update("a", func(s *inventory.Shard) []inventory.Change {
		if !s.State().Synced() {
			s.Connected(1, now)
		}
		list.Asked = now
		return slices.Concat(s.ListedGroups(inventory.GroupList{Groups: []*nstancev1.GroupStatus{{Key: "web", Tenant: testworld.Tenant}}, Asked: now}, now), s.ListedInstances(list, now))
	})
}

func (w *world) get(name string) *hostsv1.HostMachine {
	w.t.Helper()
	m := &hostsv1.HostMachine{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, m))
	return m
}

func (w *world) change(name string, change func(*hostsv1.HostMachine)) {
	w.t.Helper()
	m := w.get(name)
	change(m)
	w.must(w.api.Update(w.t.Context(), m))
}

// choose has the status say what the controller that selects says.
func (w *world) choose(name string) {
	w.t.Helper()
	m := &hostsv1.HostMachine{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, m); err != nil {
		return
	}
	var configurations hostsv1.MachineConfigurationList
	var all hostsv1.MachineConfigurationVersionList
	w.must(w.api.List(w.t.Context(), &configurations))
	w.must(w.api.List(w.t.Context(), &all))
	choice := selection.Choose(m, selection.Cluster{Configurations: selection.Observe(configurations.Items, all.Items)})
	was := m.Status.Configuration
	if was != nil && (was.Desired == nil) == (choice.Desired == nil) && (was.Desired == nil || *was.Desired == *choice.Desired) {
		return
	}
	part := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name, UID: m.UID}}
	part.Status.Configuration = &hostsv1.ConfigurationStatus{Source: choice.Source, Desired: choice.Desired}
	w.must(status.Apply(w.t.Context(), w.api, part, status.FieldManager("hosts-selection")))
}

// pass looks at a machine once.
func (w *world) pass(name string) error {
	if w.fleet == nil {
		w.choose(name)
	}
	result, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	w.last[name] = result
	return err
}

// settle looks at a machine until nothing is written any more.
func (w *world) settle(name string) *hostsv1.HostMachine {
	w.t.Helper()
	for range 30 {
		before, puts := "", len(w.shard.puts)
		m := &hostsv1.HostMachine{}
		if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, m); err == nil {
			before = m.ResourceVersion
		}
		if err := w.pass(name); err != nil && !apierrors.IsConflict(err) {
			w.t.Fatal(err)
		} else if err != nil {
			continue
		}
		if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, m); apierrors.IsNotFound(err) {
			return nil
		}
		if m.ResourceVersion == before && len(w.shard.puts) == puts {
			return m
		}
	}
	w.t.Fatal("there is no end")
	return nil
}

// join has a host build what it was told, and its Node join, in another boot each time.
func (w *world) join(name, uid string) *hostsv1.HostMachine {
	w.t.Helper()
	w.build(name)
	w.node(name, uid, w.boot(name))
	w.settle(name)
	w.shard.host(name).Status.Stage = nstancev1.MachineStage_MACHINE_STAGE_RUNNING
	w.shard.tell(name)
	return w.settle(name)
}

// boot is the boot of the machine that was built for the epoch that is stored.
func (w *world) boot(name string) string {
	return fmt.Sprintf("boot-%d", w.shard.host(name).GetAssignment().GetEpoch())
}

// build has a host build what it was told, up to waiting for its Node.
func (w *world) build(name string) {
	w.t.Helper()
	a := w.shard.host(name).GetAssignment()
	w.shard.report(name, &nstancev1.MachineStatus{
		Epoch: a.GetEpoch(), Stage: nstancev1.MachineStage_MACHINE_STAGE_JOIN,
		Slots: []*nstancev1.MachineSlot{{Name: "a", State: nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING, Configuration: a.GetConfiguration(), Epoch: a.GetEpoch(), BootId: w.boot(name)}},
	})
}

// node has a kubelet register its Node.
func (w *world) node(name, uid, boot string) {
	w.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
	n.Status.NodeInfo.BootID = boot
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	w.must(w.api.Create(w.t.Context(), n))
}

func (w *world) getNode(name string) *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{}
	err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, n)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return n
}

func (w *world) deleteNode(name string) {
	w.t.Helper()
	w.must(w.api.Delete(w.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// miss looks twice for a Node that is gone.
func (w *world) miss(name string) *hostsv1.HostMachine {
	w.t.Helper()
	w.must(w.pass(name))
	w.after(lifecycle.ConfirmAfter)
	return w.settle(name)
}

func (w *world) tell() string {
	all := w.events.All()
	defer func() { w.told = len(all) }()
	return strings.Join(all[w.told:], "\n")
}

func (w *world) want(m *hostsv1.HostMachine, phase hostsv1.HostMachinePhase, conditions ...string) {
	w.t.Helper()
	if m.Status.Phase != phase {
		w.t.Errorf("phase %s, want %s", m.Status.Phase, phase)
	}
	for _, want := range conditions {
		name, rest, _ := strings.Cut(want, "=")
		if c := meta.FindStatusCondition(m.Status.Conditions, name); c == nil || string(c.Status)+"/"+c.Reason != rest {
			w.t.Errorf("%s is %+v, want %s", name, c, rest)
		}
	}
}
