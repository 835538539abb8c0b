package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/inventory"
	machines "nstance.dev/operator/nodes"
	"nstance.dev/operator/testworld"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	shard = "a"
	home  = "nstance/example--default"
)

// world is a cluster of one machine m0, whose Node n0 exists once a test makes it.
type world struct {
	t      *testing.T
	client client.WithWatch
	store  *inventory.Store
	nodes  *Reconciler
	events *testworld.Events

	closed    atomic.Bool // there is no session
	reports   []*demandpb.NodeReport
	frames    []int        // how many reports each message had
	meanwhile func()       // done before the next deletion arrives
	conflicts *int         // deletions that came too late
	stop      func() error // ends the collector
}

func run(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, events: &testworld.Events{}, conflicts: new(int)}
		w.store = inventory.NewStore(testworld.Tenant, nil)
		w.store.Configure([]string{shard})
		b := testworld.NewClientBuilder(t).WithStatusSubresource(&demandv1.UpcomingNode{})
		for field, index := range machines.NodeIndexes() {
			b.WithIndex(&corev1.Node{}, field, index)
		}
		for field, index := range machines.UpcomingIndexes() {
			b.WithIndex(&demandv1.UpcomingNode{}, field, index)
		}
		b.WithIndex(&corev1.Pod{}, "spec.nodeName", machines.PodsByNode)
		w.client = interceptor.NewClient(b.Build(), interceptor.Funcs{Delete: w.delete})
		w.list("10.0.0.7")
		w.upcoming()
		w.restart()
		test(t, w)
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	})
}

// restart begins a new process.
func (w *world) restart() {
	if w.stop != nil {
		_ = w.stop()
	}
	reports := NewReports(func(to string, reports []*demandpb.NodeReport) bool {
		if w.closed.Load() || to != shard {
			return false
		}
		w.frames = append(w.frames, len(reports))
		w.reports = append(w.reports, reports...)
		return true
	})
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error)
	go func() { done <- reports.Start(ctx) }()
	w.stop = func() error {
		cancel()
		return <-done
	}
	w.nodes = New(Options{
		Workload: w.client, Live: w.client, Inventory: w.store, Reports: reports, Home: home, SetProviderID: true,
		Events: w.events, Log: slog.New(slog.DiscardHandler),
	})
}

// delete honours preconditions, which the client of tests does not.
func (w *world) delete(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	if do := w.meanwhile; do != nil {
		w.meanwhile = nil
		do()
	}
	var options client.DeleteOptions
	options.ApplyOptions(opts)
	if node, ok := o.(*corev1.Node); ok && len(opts) > 0 {
		now := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(node), now); err != nil {
			return err
		}
		p := options.Preconditions
		if p == nil || p.UID == nil || p.ResourceVersion == nil {
			return fmt.Errorf("no preconditions")
		}
		if *p.UID != now.UID || *p.ResourceVersion != now.ResourceVersion {
			*w.conflicts++
			return apierrors.NewConflict(corev1.Resource("nodes"), node.Name, fmt.Errorf("changed"))
		}
	}
	return c.Delete(ctx, o)
}

const uri = "nstance://a/m0"

// list has the shard list the machine with an address; empty: it does not exist.
func (w *world) list(address string) {
	var all []*nstancev1.InstanceStatus
	if address != "" {
		all = append(all, &nstancev1.InstanceStatus{
			InstanceId: "m0", Group: "web", Tenant: testworld.Tenant, Status: "running", ProviderUri: uri, Hostname: "n0", Addresses: []string{address},
			CreatedAt: timestamppb.Now(), RegisteredAt: timestamppb.Now(),
		})
	}
	now := time.Now()
	w.store.Update(shard, func(s *inventory.Shard) []inventory.Change { return s.Connected(1, now) })
	w.store.Update(shard, func(s *inventory.Shard) []inventory.Change {
		if address == "" {
			return s.InstanceEvent(&nstancev1.InstanceEvent{InstanceId: "m0", Group: "web", Status: "deleted"}, now)
		}
		return s.ListedInstances(inventory.InstanceList{Instances: all, Complete: true, Asked: now}, now)
	})
}

func (w *world) upcoming(startup ...corev1.Taint) {
	w.t.Helper()
	w.create(&demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: "m0"}, Spec: demandv1.UpcomingNodeSpec{MachineID: "m0", Shard: shard, StartupTaints: startup}})
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) join(change ...func(*corev1.Node)) {
	w.t.Helper()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n0", UID: types.UID("n0-uid"), Labels: map[string]string{infrav1.LabelInstanceID: "m0"}},
		Spec:       corev1.NodeSpec{ProviderID: uri},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("0")},
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(n)
	}
	w.create(n)
}

// node returns the Node; nil: it does not exist.
func (w *world) node() *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: "n0"}, n); err != nil {
		if client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
		return nil
	}
	return n
}

func (w *world) change(change func(*corev1.Node)) {
	w.t.Helper()
	n := w.node()
	change(n)
	status := n.Status
	if err := w.client.Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
	n.Status = status
	if err := w.client.Status().Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(o client.Object) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// look reconciles the machine, and returns what was reported of it since the last call.
func (w *world) look() string {
	w.t.Helper()
	if _, err := w.nodes.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "m0"}}); err != nil && !apierrors.IsConflict(err) {
		w.t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	synctest.Wait()
	var all []string
	for _, r := range w.reports {
		all = append(all, fmt.Sprintf("%s %s ready %t pods %d", r.GetMachineId(), r.GetNodeUid(), r.GetReady(), r.GetEvictablePods()))
	}
	w.reports = nil
	return strings.Join(all, "; ")
}

func (w *world) want(what, want string) {
	w.t.Helper()
	if got := w.look(); got != want {
		w.t.Errorf("%s: reported %q, want %q", what, got, want)
	}
}

func (w *world) pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name}, Spec: corev1.PodSpec{NodeName: "n0"}}
	for _, c := range change {
		c(p)
	}
	w.create(p)
	return p
}

// drained is what the drain engine leaves on a Node.
func drained(phase infrav1.DrainPhase, deadline time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) {
		s := drain.Begin(n, drain.Request{Instance: "m0", Reason: "surplus", Instruction: "rcl-m0-1", Deadline: deadline, Force: drain.Never}, time.Now())
		s.Phase = phase
		*n = *drain.WithState(n, s)
	}
}

func TestReports(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.want("before it has joined", "")
		w.join(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
		w.want("matched", "m0 n0-uid ready false pods 0")
		w.want("nothing new", "")
		w.change(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
		w.want("ready", "m0 n0-uid ready true pods 0")
		w.nodes.RolledUp(shard)
		w.want("after a roll-up while it is empty", "m0 n0-uid ready true pods 0")
		first := w.pod("one")
		w.want("the first Pod", "m0 n0-uid ready true pods 1")
		second := w.pod("two")
		w.want("the second", "")
		w.nodes.RolledUp(shard)
		w.want("after a roll-up while it is not empty", "")
		w.nodes.Resynced("b")
		w.want("another shard's session", "")
		w.nodes.Resynced(shard)
		w.want("a new session", "m0 n0-uid ready true pods 2")
		w.remove(first)
		w.want("one of two goes", "")
		w.remove(second)
		w.want("the last one goes", "m0 n0-uid ready true pods 0")
		w.closed.Store(true)
		w.change(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
		w.want("without a session", "")
		w.closed.Store(false)
		w.want("when there is one", "m0 n0-uid ready false pods 0")
	})
}

func TestWhatAReportSays(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.join()
		w.create(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "ds", UID: "ds"}})
		owned := func(uid types.UID) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ds", UID: uid, Controller: new(true)}}
			}
		}
		w.pod("agent", owned("ds"))
		w.pod("static", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
		w.pod("over", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		w.pod("orphan", owned("deleted"))
		w.pod("web")
		if _, err := w.nodes.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "m0"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(w.reports) != 1 {
			t.Fatalf("%d reports", len(w.reports))
		}
		r := w.reports[0]
		if r.GetEvictablePods() != 2 || r.GetNodeName() != "n0" || r.GetObservedUnixMs() == 0 {
			t.Errorf("%v", r)
		}
		if got := fmt.Sprint(r.GetAllocatable()[0].GetAmount(), r.GetAllocatable()[1].GetAmount(), len(r.GetAllocatable())); got != "1500 1073741824 2" {
			t.Errorf("allocatable %s", got)
		}
		u := &demandv1.UpcomingNode{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m0"}, u); err != nil {
			t.Fatal(err)
		}
		if u.Status.NodeRef == nil || *u.Status.NodeRef != (demandv1.NodeReference{Name: "n0", UID: "n0-uid"}) {
			t.Errorf("nodeRef %v", u.Status.NodeRef)
		}
		n := w.node()
		if n.Labels[infrav1.LabelShard] != shard || n.Annotations[infrav1.AnnotationDemandMachine] != "m0" || n.Annotations[infrav1.AnnotationCluster] != home {
			t.Errorf("the Node says %v %v", n.Labels, n.Annotations)
		}
	})
}

// A Node counts as ready once what it waits for is there, however ready its kubelet is.
func TestStartupTaints(t *testing.T) {
	cni := corev1.Taint{Key: "cni.example/agent-not-ready", Effect: corev1.TaintEffectNoExecute}
	run(t, func(t *testing.T, w *world) {
		w.remove(&demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: "m0"}})
		w.upcoming(cni)
		w.join(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{
				{Key: cni.Key, Value: "true", Effect: cni.Effect}, {Key: taintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule},
				{Key: "gpu", Effect: corev1.TaintEffectNoSchedule},
			}
		})
		w.want("both taints", "m0 n0-uid ready false pods 0")
		w.change(func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:2] })
		w.want("no change", "")
		w.change(func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:1] })
		w.want("initialised", "")
		w.change(func(n *corev1.Node) { n.Spec.Taints[0].Effect = corev1.TaintEffectNoSchedule })
		w.want("a taint of that key with another effect", "m0 n0-uid ready true pods 0")
		w.change(func(n *corev1.Node) { n.Spec.Taints[0].Effect = cni.Effect })
		w.want("and as it was", "m0 n0-uid ready false pods 0")
		w.change(func(n *corev1.Node) { n.Spec.Taints = nil })
		w.want("the agent runs", "m0 n0-uid ready true pods 0")
	})
}

// A report says which startup taint is left, or what the kubelet waits for, in few words; that this changes is news.
func TestWhyANodeIsNotReady(t *testing.T) {
	cni := corev1.Taint{Key: "cni.example/agent-not-ready", Effect: corev1.TaintEffectNoExecute}
	run(t, func(t *testing.T, w *world) {
		w.remove(&demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: "m0"}})
		w.upcoming(cni)
		why := func(what, want string) {
			t.Helper()
			w.reports = nil
			if _, err := w.nodes.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "m0"}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if len(w.reports) != 1 || w.reports[0].GetNotReadyReason() != want || w.reports[0].GetReady() != (want == "") {
				t.Errorf("%s: reports %v, want the reason %q", what, w.reports, want)
			}
		}
		w.join(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: taintUninitialized, Effect: corev1.TaintEffectNoSchedule}, cni}
		})
		why("no cloud controller has seen it", "its taint node.cloudprovider.kubernetes.io/uninitialized:NoSchedule is left")
		w.change(func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] })
		why("its network does not run", "its taint cni.example/agent-not-ready:NoExecute is left")
		w.change(func(n *corev1.Node) {
			n.Spec.Taints = nil
			n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionFalse, "KubeletNotReady"
		})
		why("its kubelet waits", "its condition Ready is False: KubeletNotReady")
		w.change(func(n *corev1.Node) { n.Status.Conditions[0].Reason = strings.Repeat("é", 500) })
		why("a long reason", "its condition Ready is False: "+strings.Repeat("é", 113))
		w.change(func(n *corev1.Node) { n.Status.Conditions = nil })
		why("it says nothing", "it has no condition Ready")
		w.change(func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		})
		why("it is ready", "")
	})
}

// What a kubelet says of itself counts only together with an address that the server knows.
func TestForgedLabel(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.join(func(n *corev1.Node) {
			n.Spec.ProviderID, n.Status.Addresses[0].Address = "", "10.0.0.99"
			n.Annotations = map[string]string{infrav1.AnnotationDemandMachine: "m0"}
		})
		w.want("a label alone", "")
		if n := w.node(); n.Labels[infrav1.LabelShard] != "" || n.Spec.ProviderID != "" {
			t.Errorf("somebody else's Node is marked: %v", n)
		}
		w.remove(w.node())
		w.join(func(n *corev1.Node) { n.Spec.ProviderID = "" })
		w.want("with the address", "m0 n0-uid ready true pods 0")
		if id := w.node().Spec.ProviderID; id != uri {
			t.Errorf("provider id %q", id)
		}
		w.remove(w.node())
		w.join(func(n *corev1.Node) { n.Spec.ProviderID = "nstance://a/m1" })
		w.want("the provider id of another machine", "")
		if told := w.events.All(); len(told) != 1 || !strings.HasPrefix(told[0], "ProviderIDMismatch: Node") {
			t.Errorf("events %q", told)
		}
	})
}

func TestDeletion(t *testing.T) {
	for _, tt := range []struct {
		name    string
		restart bool
		prepare func(w *world)
		gone    bool
	}{
		{"an UpcomingNode that somebody deletes", false, func(*world) {}, false},
		{"a machine that is drained and has left", false, func(w *world) { w.change(drained(infrav1.DrainDone, time.Now().Add(time.Hour))) }, true},
		{"the same, and the process is a new one", true, func(w *world) { w.change(drained(infrav1.DrainDone, time.Now().Add(time.Hour))) }, true},
		{"a machine that is being drained", false, func(w *world) { w.change(drained(infrav1.DrainEvicting, time.Now().Add(time.Hour))) }, false},
		{"a machine that has left with what was on it", false, func(w *world) { w.change(drained(infrav1.DrainEvicting, time.Now().Add(-time.Second))) }, true},
		{"a machine that is deleted", false, func(w *world) { w.list("") }, true},
		{"the same, and the process is a new one", true, func(w *world) { w.list("") }, true},
		{"a Node that is matched to no machine", false, func(w *world) {
			w.list("")
			w.change(func(n *corev1.Node) { delete(n.Annotations, infrav1.AnnotationDemandMachine) })
		}, false},
		{"the Node of another Cluster", false, func(w *world) {
			w.list("")
			w.change(func(n *corev1.Node) { n.Annotations[infrav1.AnnotationCluster] = "other/cluster" })
		}, false},
		{"a Node that has the provider id of another machine by now", false, func(w *world) {
			w.list("")
			w.change(func(n *corev1.Node) { n.Spec.ProviderID = "nstance://a/m1" })
		}, false},
		{"a Node that changes meanwhile", false, func(w *world) {
			w.list("")
			w.meanwhile = func() { w.change(func(n *corev1.Node) { n.Labels["x"] = "y" }) }
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run(t, func(t *testing.T, w *world) {
				w.join()
				w.look()
				w.remove(&demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: "m0"}})
				tt.prepare(w)
				if tt.restart {
					w.restart()
				}
				w.want("of a machine that has left", "")
				if gone := w.node() == nil; gone != tt.gone {
					t.Errorf("deleted: %t, %d came too late", gone, *w.conflicts)
				}
				if *w.conflicts > 0 {
					w.look()
					if w.node() != nil {
						t.Error("it is not tried again")
					}
				}
			})
		})
	}
}

// The machine joins again, as another Node, which is not cordoned and is reported as any other.
func TestReusedMachine(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.join()
		w.look()
		w.change(drained(infrav1.DrainDone, time.Now().Add(time.Hour)))
		w.remove(&demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: "m0"}})
		w.want("it has left", "")
		w.upcoming()
		w.join(func(n *corev1.Node) { n.UID = "n0-second" })
		w.want("it joins again", "m0 n0-second ready true pods 0")
		if n := w.node(); n.Spec.Unschedulable {
			t.Errorf("%v", n)
		}
	})
}

func TestManyReportsGoTogether(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		for i := range 450 {
			w.nodes.opts.Reports.add(shard, &demandpb.NodeReport{MachineId: fmt.Sprintf("m%03d", i), NodeName: "before"})
			w.nodes.opts.Reports.add(shard, &demandpb.NodeReport{MachineId: fmt.Sprintf("m%03d", i)})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.Equal(w.frames, []int{200, 200, 50}) {
			t.Errorf("messages of %v reports", w.frames)
		}
		if slices.ContainsFunc(w.reports, func(r *demandpb.NodeReport) bool { return r.GetNodeName() != "" }) {
			t.Error("one of them is out of date")
		}
	})
}
