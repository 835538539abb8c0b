package reclaim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/demand/fit"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/testworld"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const shard = "a"

// world is a cluster of machines m0, m1 … of one shard, whose Nodes n0, n1 … have room for two Pods
// each, with the drain engine. Nothing happens by itself: see live.
type world struct {
	t        *testing.T
	client   client.WithWatch
	store    *inventory.Store
	requests *Requests
	reclaim  *Reconciler
	drains   *drain.Reconciler
	events   *testworld.Events
	machines []string

	options fit.Options
	blocked bool  // a budget lets no Pod go
	broken  error // what patches of Nodes fail with
	silent  bool  // there is no session
	reports []string
	acked   []string // instances whose drains the server was told of
	evicted int
	mu      sync.Mutex
	counted []Outcome // guarded by mu: instructions may come at once
}

func run(t *testing.T, machines int, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, events: &testworld.Events{}, options: fit.Options{ForeignAnnotations: true}}
		w.store = inventory.NewStore(testworld.Tenant, nil)
		w.store.Configure([]string{shard})
		b := testworld.NewClientBuilder(t).WithStatusSubresource(&demandv1.UpcomingNode{})
		for field, index := range nodes.NodeIndexes() {
			b.WithIndex(&corev1.Node{}, field, index)
		}
		for field, index := range nodes.MachineIndexes() {
			b.WithIndex(&infrav1.NstanceMachine{}, field, index)
		}
		for field, index := range nodes.UpcomingIndexes() {
			b.WithIndex(&demandv1.UpcomingNode{}, field, index)
		}
		b.WithIndex(&corev1.Pod{}, "spec.nodeName", nodes.PodsByNode)
		w.client = interceptor.NewClient(b.Build(), interceptor.Funcs{SubResourceCreate: w.evict, Patch: w.patch})
		for i := range machines {
			w.machines = append(w.machines, fmt.Sprintf("m%d", i))
			w.create(w.newNode(i, "first"))
			w.create(&demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: w.machines[i]}, Spec: demandv1.UpcomingNodeSpec{MachineID: w.machines[i], Shard: shard}})
			w.phase(i, demandv1.UpcomingNodeReady)
		}
		w.list(nil)
		w.restart()
		test(t, w)
	})
}

func uri(i int) string { return fmt.Sprintf("nstance://%s/m%d", shard, i) }

func (w *world) newNode(i int, uid string) *corev1.Node {
	name := fmt.Sprintf("n%d", i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-" + uid), Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{ProviderID: uri(i)},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("2"), "pods": resource.MustParse("10")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// list has the shard list its machines; those of condemned are to go by then.
func (w *world) list(condemned map[string]time.Time) {
	var all []*nstancev1.InstanceStatus
	for i, id := range w.machines {
		in := &nstancev1.InstanceStatus{
			InstanceId: id, Group: "web", Tenant: testworld.Tenant, Status: "running", ProviderUri: uri(i),
			CreatedAt: timestamppb.Now(), RegisteredAt: timestamppb.Now(),
		}
		if at, ok := condemned[id]; ok {
			in.Status, in.Condemned = inventory.StatusDraining, &nstancev1.Condemned{Reason: "expired", DeleteAt: timestamppb.New(at)}
		}
		all = append(all, in)
	}
	now := time.Now()
	w.store.Update(shard, func(s *inventory.Shard) []inventory.Change { return s.Connected(1, now) })
	w.store.Update(shard, func(s *inventory.Shard) []inventory.Change {
		return s.ListedInstances(inventory.InstanceList{Instances: all, Complete: true, Asked: now}, now)
	})
}

// restart begins a new process, which knows what stands on the Nodes.
func (w *world) restart() {
	w.requests = &Requests{}
	log := slog.New(slog.DiscardHandler)
	w.reclaim = New(w.requests, Options{
		Workload: w.client, Live: w.client, Machines: w.client, Namespace: testworld.Namespace, Inventory: w.store,
		Report: w.report, Wake: func(...string) {}, Fit: w.options, Grace: 30 * time.Second, Count: w.count, Events: w.events, Log: log,
	})
	w.drains = drain.New(drain.Options{
		Client: w.client, Namespace: testworld.Namespace, Workload: w.client, Live: w.client, Inventory: w.store,
		Sources: append(drain.Sources(), w.requests.Source), Server: func(string) (drain.Server, bool) { return w, true },
		Events: w.events, MachineEvents: w.events, Evictions: rate.NewLimiter(20, 20), Concurrency: 2, Force: drain.AtDeadline,
	})
}

func (w *world) count(o Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted = append(w.counted, o)
}

// AcknowledgeDrained implements drain.Server.
func (w *world) AcknowledgeDrained(_ context.Context, r *nstancev1.AcknowledgeDrainedRequest) error {
	w.acked = append(w.acked, r.GetInstanceId())
	return nil
}

func (w *world) report(to string, reports []*demandpb.NodeReport) bool {
	if w.silent {
		return false
	}
	for _, r := range reports {
		said := fmt.Sprintf("%s %s", r.GetMachineId(), r.GetInstructionId())
		switch {
		case to != shard:
			said += " to " + to
		case r.GetDrained():
			said += " drained"
		default:
			said += fmt.Sprintf(" failed with %d left", r.GetRemainingPods())
		}
		w.reports = append(w.reports, said)
	}
	return true
}

func (w *world) evict(ctx context.Context, c client.Client, _ string, o, body client.Object, _ ...client.SubResourceCreateOption) error {
	if _, ok := body.(*policyv1.Eviction); !ok {
		return errors.New("not an eviction")
	}
	if w.blocked {
		return apierrors.NewTooManyRequests("the budget says no", 0)
	}
	w.evicted++
	return c.Delete(ctx, o)
}

func (w *world) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if _, node := o.(*corev1.Node); node && w.broken != nil {
		return w.broken
	}
	return c.Patch(ctx, o, p, opts...)
}

// live lets controller and engine work by their times.
func (w *world) live(for_ time.Duration) {
	w.t.Helper()
	for range int(for_ / time.Second) {
		w.work()
		time.Sleep(time.Second)
	}
}

// work lets both look at every machine until there is nothing to do at once.
func (w *world) work() {
	w.t.Helper()
	for _, id := range w.machines {
		request := ctrl.Request{NamespacedName: client.ObjectKey{Name: id}}
		for again := time.Millisecond; again > 0 && again < 10*time.Millisecond; {
			result, err := w.drains.Reconcile(w.t.Context(), request)
			if err != nil {
				w.t.Fatal(err)
			}
			again = result.RequeueAfter
			time.Sleep(again % (10 * time.Millisecond))
		}
		if _, err := w.reclaim.Reconcile(w.t.Context(), request); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// pod makes a Pod of a ReplicaSet that takes a processor.
func (w *world) pod(name, node string, change ...func(*corev1.Pod)) {
	w.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)},
		}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		}}},
	}
	for _, c := range change {
		c(p)
	}
	w.create(p)
}

func (w *world) node(i int) *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: fmt.Sprintf("n%d", i)}, n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) change(i int, change func(*corev1.Node)) {
	w.t.Helper()
	n := w.node(i)
	change(n)
	if err := w.client.Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) upcoming(i int) *demandv1.UpcomingNode {
	w.t.Helper()
	u := &demandv1.UpcomingNode{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: w.machines[i]}, u); err != nil {
		w.t.Fatal(err)
	}
	return u
}

// phase is what the session writes of a machine.
func (w *world) phase(i int, phase demandv1.UpcomingNodePhase) {
	w.t.Helper()
	u := w.upcoming(i)
	u.Status.Phase = phase
	if err := w.client.Status().Update(w.t.Context(), u); err != nil {
		w.t.Fatal(err)
	}
}

// instruct has the shard ask for a machine, and returns the answer in words.
func (w *world) instruct(i int, voluntary bool, grace time.Duration, change ...func(*demandpb.ReclaimInstruction)) string {
	w.t.Helper()
	in := &demandpb.ReclaimInstruction{
		InstructionId: fmt.Sprintf("rcl-m%d-1", i), Targets: []*demandpb.Target{{MachineId: w.machines[i]}}, Voluntary: voluntary,
		GracePeriodSeconds: int32(grace / time.Second), Reason: "surplus",
	}
	for _, c := range change {
		c(in)
	}
	ack := w.reclaim.Reclaim(w.t.Context(), shard, in)
	if ack == nil {
		return "no answer"
	}
	if ack.GetInstructionId() != in.GetInstructionId() {
		w.t.Errorf("the answer is to %q", ack.GetInstructionId())
	}
	said := fmt.Sprintf("%d started", ack.GetNodesStarted())
	for _, refused := range ack.GetNodesRefused() {
		said += ", " + refused.GetMachineId() + " " + refused.GetReason()
	}
	return said
}

func cancels(in *demandpb.ReclaimInstruction) { in.Cancel = true }

func (w *world) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// told takes what was reported since the last call.
func (w *world) told() string {
	all := strings.Join(slices.Compact(w.reports), "; ")
	w.reports = nil
	return all
}
