package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/hosts/rollout"
	"nstance.dev/operator/hosts/versions"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// world is a reconciler at an API server, with machines that are repaved when their Nodes are gone, and somebody who
// drains Nodes as the engine does.
type world struct {
	t        *testing.T
	after    func(time.Duration)
	api      client.WithWatch
	faults   testworld.Faults
	inv      *inventory.Store
	requests *Requests
	holds    shardHolds
	r        *Reconciler
	events   testworld.Events
	counts   []string
	rev      int64

	stuck  map[string]bool      // machines whose Pods do not leave
	bad    map[int32]bool       // versions that fail on every machine
	joins  map[string]time.Time // by machine: when its next Node joins
	builds map[string]int32     // by machine: the version that is built
	most   int                  // machines that were unavailable or begun at once
}

// shardHolds are the holds at a shard.
type shardHolds struct {
	refuses map[string]error // by machine
	set     map[string]time.Time
	sets    int
}

func (h *shardHolds) Set(_ context.Context, m *hostsv1.HostMachine, reason string, until time.Time) (time.Time, error) {
	if err := h.refuses[m.Name]; err != nil {
		return time.Time{}, err
	}
	if reason != hostsv1.HoldRollout {
		return time.Time{}, fmt.Errorf("hold for %s", reason)
	}
	if h.set == nil {
		h.set = map[string]time.Time{}
	}
	h.set[m.Name] = until
	h.sets++
	return until, nil
}

func (h *shardHolds) Clear(_ context.Context, m *hostsv1.HostMachine, _ string) error {
	delete(h.set, m.Name)
	return nil
}

// took is how long a machine takes to be repaved.
const took = 40 * time.Second

func run(t *testing.T, test func(w *world)) {
	t.Helper()
	testworld.Run(t, nil, func(t *testing.T, tw *testworld.World) {
		w := &world{
			t: t, after: tw.After, inv: inventory.NewStore(testworld.Tenant, nil), stuck: map[string]bool{}, bad: map[int32]bool{},
			joins: map[string]time.Time{}, builds: map[string]int32{},
		}
		w.api = testworld.NewClientBuilder(t).
			WithIndex(&hostsv1.HostMachine{}, byNodeName, func(o client.Object) []string { return []string{o.(*hostsv1.HostMachine).NodeName()} }).
			Build()
		w.inv.Configure([]string{"a"})
		w.inv.Update("a", func(s *inventory.Shard) []inventory.Change {
			return append(s.Connected(1, time.Now()), s.ListedGroups(inventory.GroupList{Asked: time.Now()}, time.Now())...)
		})
		w.restart()
		test(w)
	})
}

// restart makes a new reconciler, as a new process does.
func (w *world) restart() {
	w.requests = &Requests{}
	writer := w.faults.Through(w.api)
	w.r = New(Options{
		Client: writer, Live: w.api, Nodes: writer, Inventory: w.inv, Holds: &w.holds, Requests: w.requests, Wake: func(...string) {},
		Lock: func(ctx context.Context, configuration string, number int32, _ string) (hostsv1.VersionReference, error) {
			v := &hostsv1.MachineConfigurationVersion{}
			if err := w.api.Get(ctx, client.ObjectKey{Name: versions.Name(configuration, number)}, v); err != nil {
				return hostsv1.VersionReference{}, err
			}
			v.Status.Deployed = true
			return w.reference(number), w.api.Status().Update(ctx, v)
		},
		Events: &w.events, Log: (&testworld.Log{}).Logger(), Now: time.Now,
		Count: func(a rollout.Action) { w.counts = append(w.counts, string(a)) },
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) configuration() *hostsv1.MachineConfiguration {
	w.t.Helper()
	c := &hostsv1.MachineConfiguration{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: "gpu"}, c))
	return c
}

func template(n int32) hostsv1.Template {
	return hostsv1.Template{Kubernetes: hostsv1.Kubernetes{Version: fmt.Sprintf("v1.36.%d", n)}}
}

func (w *world) reference(n int32) hostsv1.VersionReference {
	of := template(n)
	return hostsv1.VersionReference{Name: "gpu", Version: n, UID: string(w.configuration().UID), Hash: versions.Hash(&of)}
}

// configure makes a configuration whose newest version is 2, and machines that run version 1.
func (w *world) configure(machines int, change func(*hostsv1.RollingUpdate)) {
	w.t.Helper()
	c := &hostsv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "gpu-uid"}, Spec: hostsv1.MachineConfigurationSpec{Template: template(1)}}
	two, ready, failures := intstr.FromInt32(2), int32(30), int32(1)
	c.Spec.UpdateStrategy = &hostsv1.UpdateStrategy{Type: hostsv1.UpdateRolling, RollingUpdate: &hostsv1.RollingUpdate{
		MaxUnavailable: &two, DrainTimeout: "5m", MinReadySeconds: &ready, MaxFailures: &failures,
	}}
	change(c.Spec.UpdateStrategy.RollingUpdate)
	w.must(w.api.Create(w.t.Context(), c))
	w.version(1)
	var listed []*nstancev1.InstanceStatus
	for i := range machines {
		name := fmt.Sprintf("m%02d", i)
		w.machine(name)
		listed = append(listed, &nstancev1.InstanceStatus{InstanceId: name, Tenant: testworld.Tenant, Group: "web", Status: inventory.StatusRunning, Revision: 1})
	}
	w.inv.Update("a", func(s *inventory.Shard) []inventory.Change {
		return s.ListedInstances(inventory.InstanceList{Instances: listed, Complete: true, Asked: time.Now()}, time.Now())
	})
	w.version(2)
}

// version makes the next version, and the template that it holds.
func (w *world) version(n int32) {
	w.t.Helper()
	c := w.configuration()
	c.Spec.Template = template(n)
	w.must(w.api.Update(w.t.Context(), c))
	v := &hostsv1.MachineConfigurationVersion{
		ObjectMeta: metav1.ObjectMeta{
			Name: versions.Name("gpu", n), Labels: map[string]string{hostsv1.LabelConfiguration: "gpu"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, hostsv1.GroupVersion.WithKind(hostsv1.KindMachineConfiguration))},
		},
		Spec: hostsv1.MachineConfigurationVersionSpec{ConfigurationName: "gpu", Version: n, Template: template(n)},
	}
	w.must(w.api.Create(w.t.Context(), v))
	v.Status.Hash = versions.Hash(&v.Spec.Template)
	w.must(w.api.Status().Update(w.t.Context(), v))
}

// machine makes one that runs version 1.
func (w *world) machine(name string) {
	w.t.Helper()
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Spec: hostsv1.HostMachineSpec{
		Provisioner: hostsv1.ProvisionerNstance, Instance: &hostsv1.InstanceReference{Shard: "a", Tenant: testworld.Tenant, Group: "web", ID: hostsv1.InstanceID(name)},
	}}
	w.must(w.api.Create(w.t.Context(), m))
	w.joined(m, 1, 1)
}

// joined has the Node of a machine join that was built from a version.
func (w *world) joined(m *hostsv1.HostMachine, n int32, boot int) {
	w.t.Helper()
	ref := w.reference(n)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name, UID: types.UID(fmt.Sprintf("%s-%d", m.Name, time.Now().UnixNano()+int64(boot)))}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.must(w.api.Create(w.t.Context(), node))
	at := metav1.NewTime(time.Now().Truncate(time.Second))
	s := &m.Status
	s.NodeRef = &hostsv1.NodeReference{Name: m.Name, UID: string(node.UID)}
	if s.Configuration == nil {
		s.Configuration = &hostsv1.ConfigurationStatus{Source: hostsv1.SourceSelector, Desired: &ref, Assigned: &hostsv1.AssignedVersion{VersionReference: ref, Epoch: 1}}
	}
	s.Configuration.Applied = &hostsv1.AppliedVersion{VersionReference: ref, At: &at}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: hostsv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "NodeReady", LastTransitionTime: at})
	w.must(w.api.Status().Update(w.t.Context(), m))
}

func (w *world) machines() []hostsv1.HostMachine {
	w.t.Helper()
	var list hostsv1.HostMachineList
	w.must(w.api.List(w.t.Context(), &list))
	return list.Items
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{}
	err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, n)
	w.must(client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	return n
}

// drains does what the engine would: it empties the Nodes that are asked for, and undoes what is withdrawn.
func (w *world) drains() {
	w.t.Helper()
	source := w.requests.Source(drain.Sources()...)
	for _, m := range w.machines() {
		n := w.node(m.Name)
		if n == nil {
			continue
		}
		state, _, err := drain.ParseState(n.Annotations)
		w.must(err)
		target := drain.Target{Instance: m.Name, Node: n.UID, State: state, Presence: inventory.Present}
		w.inv.Read("a", func(s *inventory.Shard) { target.Reported = s.Instance(m.Name) })
		r, asked := source(target, time.Now())
		switch {
		case asked && r.Withdrawn:
			w.must(w.api.Update(w.t.Context(), drain.WithoutState(n)))
		case asked && r.Force != drain.Never:
			w.t.Errorf("the drain of %s may be forced", m.Name)
		case asked && state.Phase == drain.None:
			w.must(w.api.Update(w.t.Context(), drain.WithState(n, drain.Begin(n, r, time.Now()))))
		case asked && !w.stuck[m.Name] && state.Phase != infrav1.DrainDone:
			state.Phase = infrav1.DrainDone
			w.must(w.api.Update(w.t.Context(), drain.WithState(n, state)))
		}
	}
}

// repaves does what hosts and their controller would: a machine whose Node is gone is built again.
func (w *world) repaves() {
	w.t.Helper()
	away := 0
	for _, m := range w.machines() {
		n := w.node(m.Name)
		if n == nil || m.Status.Rollout != nil && m.Status.Rollout.Stage.Begun() {
			away++
		}
		switch at, building := w.joins[m.Name]; {
		case n != nil:
		case !building:
			to := w.configuration().Status.LatestVersion
			if m.Status.Rollout != nil {
				to = m.Status.Rollout.Version
			}
			ref := w.reference(to)
			m.Status.NodeRef.UID = ""
			m.Status.Configuration.Assigned = &hostsv1.AssignedVersion{VersionReference: ref, Epoch: m.Status.Configuration.Assigned.Epoch + 1}
			meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: hostsv1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Gone"})
			meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: hostsv1.ConditionRepaveFailed, Status: metav1.ConditionFalse, Reason: "NotFailed"})
			w.must(w.api.Status().Update(w.t.Context(), &m))
			w.joins[m.Name], w.builds[m.Name] = time.Now().Add(took), to
		case !time.Now().Before(at):
			delete(w.joins, m.Name)
			to := w.builds[m.Name]
			if w.bad[to] {
				meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: hostsv1.ConditionRepaveFailed, Status: metav1.ConditionTrue, Reason: hostsv1.ReasonReverted})
				to = m.Status.Configuration.Applied.Version
			}
			w.joined(&m, to, 2)
		}
	}
	w.most = max(w.most, away)
}

func (w *world) reconcile() ctrl.Result {
	w.t.Helper()
	result, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "gpu"}})
	w.must(err)
	return result
}

// pass lets a time pass in which everybody works.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for range int(d / (5 * time.Second)) {
		w.after(5 * time.Second)
		w.reconcile()
		w.drains()
		w.repaves()
	}
	w.reconcile()
}

// runs returns how many machines run a version.
func (w *world) runs(n int32) (count int) {
	for _, m := range w.machines() {
		if m.Status.Configuration.Applied.Version == n {
			count++
		}
	}
	return count
}

// says returns a condition of the configuration, as "True Reason"; empty: it has none.
func (w *world) says(of string) string {
	c := meta.FindStatusCondition(w.configuration().Status.Conditions, of)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// told returns the events with a reason.
func (w *world) told(reason string) (all []string) {
	for _, e := range w.events.All() {
		if strings.HasPrefix(e, reason+":") {
			all = append(all, e)
		}
	}
	return all
}

// counted is how often something was done with machines.
func (w *world) counted(a rollout.Action) (n int) {
	for _, c := range w.counts {
		if c == string(a) {
			n++
		}
	}
	return n
}

// touched are the machines whose Nodes are cordoned, or of which anything was begun.
func (w *world) touched() (names []string) {
	for _, m := range w.machines() {
		if n := w.node(m.Name); n != nil && n.Spec.Unschedulable || m.Status.Rollout != nil {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}
