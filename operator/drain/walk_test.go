package drain_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a group of instances with a Node, a machine and two Pods each.
type world struct {
	*testworld.ShardWorld
	t       *testing.T
	client  client.WithWatch
	faults  *testworld.Faults
	blocked bool // a budget lets no Pod go
	still   bool // the shard does nothing by itself
	noNodes bool // the cache has no Node, and the API server has
	evicted []string
	ended   []string // as the observer hears of it
	answers []string // of the shard, to acknowledgements
	waited  time.Duration
	sources []drain.Source // nil: the usual ones
	drains  *drain.Reconciler
	due     map[string]time.Time
	ids     []string
}

func inWorld(t *testing.T, instances int32, walk func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, faults: &testworld.Faults{}, due: map[string]time.Time{}}
		w.ShardWorld = testworld.NewShardWorld(t, func(c *shardtest.Cluster) {
			c.Shard("a").AddGroup(testworld.Tenant, shardtest.Group{Key: "web", Size: instances, DrainTimeout: 5 * time.Minute})
		}, "a")
		w.client = w.newClient()
		w.restart()
		walk(t, w)
	})
}

func (w *world) newClient() client.WithWatch {
	b := testworld.NewClientBuilder(w.t)
	for field, index := range nodes.NodeIndexes() {
		b.WithIndex(&corev1.Node{}, field, index)
	}
	for field, index := range nodes.MachineIndexes() {
		b.WithIndex(&infrav1.NstanceMachine{}, field, index)
	}
	b.WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	for i, in := range w.Shard("a").Instances(testworld.Tenant, "web") {
		w.ids = append(w.ids, in.GetInstanceId())
		node := fmt.Sprintf("node-%d", i)
		b.WithObjects(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID(node)}, Spec: corev1.NodeSpec{ProviderID: in.GetProviderUri()}},
			&infrav1.NstanceMachine{
				ObjectMeta: metav1.ObjectMeta{Namespace: testworld.Namespace, Name: in.GetInstanceId(), UID: types.UID(in.GetInstanceId())},
				Spec: infrav1.NstanceMachineSpec{
					MachineSettings: infrav1.MachineSettings{GroupRef: infrav1.GroupReference{Name: "web"}, Shard: "a"}, Mode: infrav1.MachineManaged,
					InstanceID: in.GetInstanceId(), ProviderID: in.GetProviderUri(),
				},
			},
		)
		for _, pod := range []string{"one", "two"} {
			name := node + "-" + pod
			b.WithObjects(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "apps", Name: name, UID: types.UID(name),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)}},
			}, Spec: corev1.PodSpec{NodeName: node}})
		}
	}
	return interceptor.NewClient(b.Build(), interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, body client.Object, _ ...client.SubResourceCreateOption) error {
			eviction, ok := body.(*policyv1.Eviction)
			switch {
			case !ok || eviction.DeleteOptions.Preconditions == nil || *eviction.DeleteOptions.Preconditions.UID != o.GetUID():
				return errors.New("no precondition")
			case w.blocked:
				return apierrors.NewTooManyRequests("the budget says no", 0)
			}
			w.evicted = append(w.evicted, o.GetName())
			return c.Delete(ctx, o)
		},
	})
}

// restart makes the process begin again: it remembers nothing but what is written.
func (w *world) restart() {
	through := w.faults.Through(w.client)
	workload := interceptor.NewClient(through, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, of := list.(*corev1.NodeList); of && w.noNodes {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	w.drains = drain.New(drain.Options{
		Client: through, Namespace: testworld.Namespace, Workload: workload, Live: w.client, Inventory: w.Inventory, Sources: w.sources,
		Events: w.Events, MachineEvents: w.Events,
		Server: func(name string) (drain.Server, bool) {
			s, ok := w.Set.Shard(name)
			return s, ok
		},
		Evictions: rate.NewLimiter(20, 20), Concurrency: 3,
		Observer: drain.Observer{
			Drained: func(e drain.Ended) {
				w.ended = append(w.ended, fmt.Sprintf("%s, forced %t, in time %t", e.Reason, e.Forced, e.Slack != nil && *e.Slack > 0))
			},
			Acknowledged: func(code codes.Code) { w.answers = append(w.answers, code.String()) },
			Blocked:      func(longest time.Duration) { w.waited = longest },
		},
	})
	clear(w.due)
	if err := w.drains.Turns().Start(w.t.Context(), wakes{w: w}); err != nil {
		w.t.Fatal(err)
	}
}

// wakes makes drains due whose turn has come.
type wakes struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	w *world
}

func (q wakes) Add(request reconcile.Request) { delete(q.w.due, request.Name) }

// live lets the drains work by their times.
func (w *world) live(for_ time.Duration) {
	w.t.Helper()
	for range int(for_ / time.Second) {
		for _, id := range w.ids {
			w.work(id)
		}
		if !w.still {
			w.Shard("a").Step()
		}
		w.After(time.Second)
	}
}

// work takes one drain on as long as it wants to go on at once.
func (w *world) work(id string) {
	w.t.Helper()
	for range 20 {
		if at, ok := w.due[id]; ok && time.Now().Before(at) {
			return
		}
		result, err := w.drains.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: id}})
		synctest.Wait()
		again := cmp.Or(result.RequeueAfter, time.Second)
		if err != nil {
			again = 0
		}
		w.due[id] = time.Now().Add(again)
		if again > 10*time.Millisecond {
			return
		}
		w.After(again)
	}
	w.t.Fatal("it never comes to rest")
}

func (w *world) node(i int) *corev1.Node {
	w.t.Helper()
	node := &corev1.Node{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: fmt.Sprintf("node-%d", i)}, node); err != nil {
		w.t.Fatal(err)
	}
	return node
}

func (w *world) pods() int {
	w.t.Helper()
	var pods corev1.PodList
	if err := w.client.List(w.t.Context(), &pods); err != nil {
		w.t.Fatal(err)
	}
	return len(pods.Items)
}

func (w *world) condemn(i int, window time.Duration) {
	w.Shard("a").Condemn(w.ids[i], "expired", window)
	w.After(time.Second)
}

// gone reports whether the shard has ended an instance.
func (w *world) gone(i int) bool {
	for _, in := range w.Shard("a").Instances(testworld.Tenant, "web") {
		if in.GetInstanceId() == w.ids[i] {
			return false
		}
	}
	return true
}

func (w *world) said(reason string) bool {
	return slices.ContainsFunc(w.Events.All(), func(s string) bool { return strings.HasPrefix(s, reason+":") })
}

// A feature that wants an instance drained adds a source, and the engine does the rest.
func TestO10_TheEngineDrainsForASourceOfItsOwn(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.sources = append(drain.Sources(), func(s drain.Target, _ time.Time) (drain.Request, bool) {
			return drain.Request{Instance: w.ids[0], Reason: "rollout"}, s.Machine.Spec.InstanceID == w.ids[0]
		})
		w.restart()
		w.live(10 * time.Second)
		if n := w.node(0); n.Annotations[infrav1.AnnotationDrainReason] != "rollout" || n.Annotations[infrav1.AnnotationDrainPhase] != string(infrav1.DrainDone) {
			t.Errorf("the node of the source: %v", n.Annotations)
		}
		if w.node(1).Spec.Unschedulable || w.pods() != 2 {
			t.Errorf("the other node: cordoned %t, %d pods are left of 4", w.node(1).Spec.Unschedulable, w.pods())
		}
		if len(w.answers) > 0 || w.gone(0) {
			t.Errorf("the shard was told: %v", w.answers)
		}
	})
}

// However many Pods there are, and whatever listing them costs: the Node is cordoned first.
func TestO10_ANodeIsCordonedBeforeItsPodsAreListed(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.condemn(0, 5*time.Minute)
		w.drains.Live = interceptor.NewClient(w.client, interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return errors.New("too many")
			},
		})
		if _, err := w.drains.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: w.ids[0]}}); err != nil {
			t.Fatal(err)
		}
		if n := w.node(0); !n.Spec.Unschedulable || n.Annotations[infrav1.AnnotationDrainInstance] != w.ids[0] {
			t.Errorf("the node is not cordoned: %+v", n)
		}
	})
}

func TestO10_ACondemnedInstanceIsEmptiedAndAcknowledged(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.condemn(0, 5*time.Minute)
		w.work(w.ids[0])
		if n := w.node(0); !n.Spec.Unschedulable || n.Annotations[infrav1.AnnotationDrainInstance] != w.ids[0] {
			t.Fatalf("the node is not cordoned at once: %+v", n)
		}
		w.live(10 * time.Second)
		if w.pods() != 0 || !w.gone(0) || w.Shard("a").Count("AcknowledgeDrained") != 1 {
			t.Errorf("%d pods, gone: %t, told %d times", w.pods(), w.gone(0), w.Shard("a").Count("AcknowledgeDrained"))
		}
		if fmt.Sprint(w.ended) != "[expired, forced false, in time true]" {
			t.Errorf("%v", w.ended)
		}
		if !slices.Equal(w.answers, []string{"OK"}) || w.waited != 0 {
			t.Errorf("answers %v, waited %v", w.answers, w.waited)
		}
		m := &infrav1.NstanceMachine{}
		if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: testworld.Namespace, Name: w.ids[0]}, m); err != nil {
			t.Fatal(err)
		}
		if m.Status.Drain == nil || m.Status.Drain.Reason != "expired" || *m.Status.Drain.RemainingPods != 0 {
			t.Errorf("%+v", m.Status)
		}
	})
}

// The news that an instance is to go may come before the listing that says which Node it is.
func TestS20_AnInstanceThatIsNotDescribedYetIsNotAcknowledged(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		machine := &infrav1.NstanceMachine{ObjectMeta: metav1.ObjectMeta{Namespace: testworld.Namespace, Name: w.ids[0]}}
		if err := w.client.Delete(t.Context(), machine); err != nil {
			t.Fatal(err)
		}
		w.Inventory = inventory.NewStore(testworld.Tenant, nil)
		w.Inventory.Configure([]string{"a"})
		w.Inventory.Update("a", func(s *inventory.Shard) []inventory.Change { return s.Connected(1, time.Now()) })
		w.restart()
		w.condemn(0, 5*time.Minute)
		condemned := w.Shard("a").Instances(testworld.Tenant, "web")
		w.Inventory.Update("a", func(s *inventory.Shard) []inventory.Change {
			return s.InstanceEvent(&nstancev1.InstanceEvent{InstanceId: w.ids[0], Group: "web", Status: "pending_deletion", Reason: "expired"}, time.Now())
		})
		w.still = true
		w.live(10 * time.Second)
		if n := w.Shard("a").Count("AcknowledgeDrained"); n != 0 || w.pods() != 2 {
			t.Fatalf("acknowledged %d times with %d pods", n, w.pods())
		}
		w.Inventory.Update("a", func(s *inventory.Shard) []inventory.Change {
			return s.ListedInstances(inventory.InstanceList{Instances: condemned, Complete: true, Asked: time.Now()}, time.Now())
		})
		w.live(20 * time.Second)
		if n := w.Shard("a").Count("AcknowledgeDrained"); n == 0 || w.pods() != 0 {
			t.Errorf("acknowledged %d times with %d pods", n, w.pods())
		}
	})
}

func TestO10_ABudgetIsWaitedForAndThenThereIsNoTime(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.blocked = true
		w.condemn(0, 5*time.Minute)
		w.live(3 * time.Minute)
		if w.pods() != 2 || w.Shard("a").Count("AcknowledgeDrained") != 0 {
			t.Fatalf("a budget is not respected: %d pods", w.pods())
		}
		if w.waited < 170*time.Second || w.waited > 180*time.Second {
			t.Errorf("after three minutes it has waited for %v", w.waited)
		}
		w.live(90 * time.Second) // past the force point
		if w.pods() != 0 || !w.said("DrainForced") || !w.gone(0) {
			t.Errorf("%d pods; %v", w.pods(), w.Events.All())
		}
		if w.waited != 0 {
			t.Errorf("it is over and has waited for %v", w.waited)
		}
	})
}

func TestO10_ABudgetThatAllowsItLater(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.blocked = true
		w.condemn(0, 5*time.Minute)
		w.live(60 * time.Second)
		w.blocked = false
		w.live(20 * time.Second)
		if !w.gone(0) || w.said("DrainForced") {
			t.Error("it is not drained in order")
		}
	})
}

// Whatever write is refused, or is the last one of a process: the work leaves and the shard
// hears of it.
func TestO10_ACrashInEveryPhase(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "node-0", errors.New("changed"))
	for n := 1; n <= 8; n++ {
		for _, crash := range []bool{false, true} { // with a crash the write has taken effect
			t.Run(fmt.Sprintf("write %d, crash %t", n, crash), func(t *testing.T) {
				inWorld(t, 1, func(t *testing.T, w *world) {
					w.condemn(0, 5*time.Minute)
					w.faults.FailWrite(n, crash, conflict)
					for range 20 {
						was := w.faults.Writes()
						w.live(time.Second)
						if crash && was < n && w.faults.Writes() >= n {
							w.restart()
						}
					}
					if w.pods() != 0 || !w.gone(0) {
						t.Errorf("%d pods, gone: %t", w.pods(), w.gone(0))
					}
				})
			})
		}
	}
}

func TestO10_ALostAcknowledgementIsRepeated(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"AcknowledgeDrained": shardtest.Refusal(14, "NOT_LEADER", "no leader")}})
		w.condemn(0, 5*time.Minute)
		w.live(30 * time.Second)
		if w.gone(0) {
			t.Fatal("gone before anybody heard")
		}
		if len(w.answers) < 2 || slices.ContainsFunc(w.answers, func(code string) bool { return code != "Unavailable" }) {
			t.Errorf("answers %v", w.answers)
		}
		w.Shard("a").Break(shardtest.Faults{})
		w.live(60 * time.Second)
		if !w.gone(0) {
			t.Error("never told again")
		}
	})
}

func TestO10_ADrainThatIsCancelledLeavesTheNodeAsItWas(t *testing.T) {
	for _, human := range []bool{false, true} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			if human {
				n := w.node(0)
				n.Spec.Unschedulable = true
				if err := w.client.Update(w.t.Context(), n); err != nil {
					t.Fatal(err)
				}
			}
			w.blocked, w.still = true, true
			w.condemn(0, 5*time.Minute)
			w.live(10 * time.Second)
			w.Shard("a").Pardon(w.ids[0])
			w.live(60 * time.Second) // a listing shows that it is to live
			n := w.node(0)
			if n.Spec.Unschedulable != human || len(n.Spec.Taints) != 0 || n.Annotations[infrav1.AnnotationDrainInstance] != "" || !w.said("DrainCancelled") {
				t.Errorf("cordoned by a person: %t: %+v %v", human, n, w.Events.All())
			}
			m := &infrav1.NstanceMachine{}
			if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: testworld.Namespace, Name: w.ids[0]}, m); err != nil {
				t.Fatal(err)
			}
			if m.Status.Drain != nil {
				t.Errorf("%+v", m.Status)
			}
		})
	}
}

func TestO10_ManyAtOnce(t *testing.T) {
	inWorld(t, 6, func(t *testing.T, w *world) {
		w.blocked = true
		for i := range 6 {
			w.condemn(i, time.Duration(60-i)*time.Minute)
		}
		w.live(5 * time.Second)
		var going []string
		for i := range 6 {
			n := w.node(i)
			if !n.Spec.Unschedulable {
				t.Errorf("%s is not cordoned", n.Name)
			}
			if n.Annotations[infrav1.AnnotationDrainPhase] == string(infrav1.DrainEvicting) {
				going = append(going, n.Name)
			}
		}
		if !slices.Equal(going, []string{"node-3", "node-4", "node-5"}) {
			t.Errorf("those go on: %v", going)
		}
		w.blocked = false
		w.live(40 * time.Second)
		if w.pods() != 0 {
			t.Errorf("%d pods are left", w.pods())
		}
	})
}

func TestO10_EvictionsAreLimited(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.drains.Evictions.SetBurst(1)
		w.drains.Evictions.SetLimit(1)
		for i := range 3 {
			w.condemn(i, 5*time.Minute)
		}
		w.live(3 * time.Second)
		if n := len(w.evicted); n > 4 {
			t.Errorf("%d evictions in 3 seconds", n)
		}
		w.live(60 * time.Second)
		if w.pods() != 0 {
			t.Errorf("%d pods are left", w.pods())
		}
	})
}
