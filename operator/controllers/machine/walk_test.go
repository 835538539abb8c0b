package machine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machine"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
	"nstance.dev/operator/unsent"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var name = client.ObjectKey{Namespace: testworld.Namespace, Name: "m"}

// world is a machine with its Machine, and shards a and b with the group web.
type world struct {
	*testworld.ShardWorld
	t       *testing.T
	client  client.WithWatch
	faults  *testworld.Faults
	coolOff *inventory.CoolOffs
	machine *machine.Reconciler
}

func inWorld(t *testing.T, walk func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, faults: &testworld.Faults{}, coolOff: &inventory.CoolOffs{}}
		w.ShardWorld = testworld.NewShardWorld(t, func(c *shardtest.Cluster) {
			c.Shard("a").AddGroup(testworld.Tenant, shardtest.Group{Key: "web"})
			c.Shard("b").AddGroup(testworld.Tenant, shardtest.Group{Key: "web"})
		}, "a", "b")
		b := testworld.NewClientBuilder(t).WithObjects(objects()...)
		for field, index := range nodes.NodeIndexes() {
			b.WithIndex(&corev1.Node{}, field, index)
		}
		for field, index := range nodes.MachineIndexes() {
			b.WithIndex(&infrav1.NstanceMachine{}, field, index)
		}
		w.client = b.Build()
		w.restart()
		walk(t, w)
	})
}

func objects() []client.Object {
	labels := map[string]string{clusterv1.ClusterNameLabel: "c"}
	ready, none := true, ""
	owner := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: "m", UID: "owner", Labels: labels, Finalizers: []string{"core"}},
		Spec:       clusterv1.MachineSpec{ClusterName: "c", Bootstrap: clusterv1.Bootstrap{DataSecretName: &none}},
	}
	return []client.Object{
		&clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: "c"},
			Spec:       clusterv1.ClusterSpec{ControlPlaneRef: clusterv1.ContractVersionedObjectReference{Kind: "NstanceControlPlane", Name: "c", APIGroup: "controlplane.cluster.x-k8s.io"}},
			Status:     clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: &ready}},
		},
		owner,
		&infrav1.NstanceMachine{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: name.Namespace, Name: "m", UID: "machine", Labels: labels, CreationTimestamp: metav1.Now(),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine"))},
			},
			Spec: infrav1.NstanceMachineSpec{Mode: infrav1.MachineOnDemand, MachineSettings: infrav1.MachineSettings{GroupRef: infrav1.GroupReference{Name: "web"}}},
		},
	}
}

// restart makes the process begin again: it remembers nothing but what is written.
func (w *world) restart() {
	through := w.faults.Through(w.client)
	w.machine = machine.New(machine.Options{
		Client: through, Live: w.client, Nodes: through, LiveNodes: w.client, Inventory: w.Inventory, CoolOff: w.coolOff, Events: w.Events, ProvisionTimeout: 15 * time.Minute,
		Shards: func() []machine.Named {
			var all []machine.Named
			for _, s := range w.Set.Shards() {
				all = append(all, machine.Named{Name: s.Name(), Server: s})
			}
			return all
		},
	})
}

// work reconciles until the machine comes to rest, or a call fails.
func (w *world) work() error {
	w.t.Helper()
	for range 50 {
		before := w.version()
		result, err := w.machine.Reconcile(log.IntoContext(w.t.Context(), logr.FromSlogHandler(w.Log.Logger().Handler())), ctrl.Request{NamespacedName: name})
		synctest.Wait()
		if err != nil {
			return err
		}
		if w.version() == before && (result.RequeueAfter == 0 || result.RequeueAfter > machine.AtOnce) {
			return nil
		}
	}
	w.t.Fatal("it never comes to rest")
	return nil
}

// live works on, whatever fails, while the shards make and end their machines.
func (w *world) live(for_ time.Duration) {
	w.t.Helper()
	for range int(for_ / time.Second) {
		_ = w.work() // repeated
		w.Shard("a").Step()
		w.Shard("b").Step()
		w.After(time.Second)
	}
}

func (w *world) version() string {
	m := w.get()
	owner := &clusterv1.Machine{}
	_ = w.client.Get(w.t.Context(), name, owner)
	if m == nil {
		return owner.ResourceVersion
	}
	return m.ResourceVersion + "/" + owner.ResourceVersion
}

// get returns the machine, nil if it is gone.
func (w *world) get() *infrav1.NstanceMachine {
	w.t.Helper()
	m := &infrav1.NstanceMachine{}
	err := w.client.Get(w.t.Context(), name, m)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) instances(shard string) []*nstancev1.InstanceStatus {
	return w.Shard(shard).Instances(testworld.Tenant, "web")
}

// mustRun checks that the machine has exactly one instance, which runs.
func (w *world) mustRun(shard string) {
	w.t.Helper()
	m, all := w.get(), append(w.instances("a"), w.instances("b")...)
	if len(all) != 1 || all[0].GetInstanceId() != m.Spec.InstanceID || all[0].GetStatus() != "running" {
		w.t.Fatalf("instances: %v", all)
	}
	if !m.Status.Ready || !m.Status.Initialization.Provisioned || m.Spec.Shard != shard || m.Spec.ProviderID != all[0].GetProviderUri() {
		w.t.Fatalf("%+v %+v", m.Spec, m.Status)
	}
}

func TestO12_AnOnDemandMachineGetsOneInstance(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.live(10 * time.Second)
		w.mustRun("a")
		for _, call := range w.Shard("a").Calls() {
			if r, ok := call.Request.(*nstancev1.CreateInstanceRequest); ok && r.GetInstanceId() != w.get().Spec.InstanceID {
				t.Errorf("asked for %s", r.GetInstanceId())
			}
		}
	})
}

// A status waits for the sizes of pools, and an instance does not.
func TestO12_AStatusWaitsForSizes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		sizes := unsent.NewSizes(time.Now)
		size := unsent.ShardGroup(name)
		w.machine.Unsent = sizes
		for generation := range int64(5) {
			sizes.Add(size, generation)
			w.live(time.Second)
		}
		if n := len(w.instances("a")); n != 1 {
			t.Errorf("%d instances, want 1", n)
		}
		if w.get().Status.Ready {
			t.Error("the status is written while a size is on its way")
		}
		sizes.Done(size, 5)
		w.live(2 * time.Second)
		w.mustRun("a")
		ready := 0
		for _, event := range w.Events.All() {
			if strings.HasPrefix(event, "InstanceRunning") {
				ready++
			}
		}
		if ready != 1 {
			t.Errorf("%d events say that it runs, want 1", ready)
		}
	})
}

// Whatever write is refused, or is the last one of a process: there is one instance in the
// end.
func TestO12_ACrashAtAnyWriteMakesNoSecondInstance(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nstancemachines"}, "m", errors.New("changed"))
	for n := 1; n <= 8; n++ {
		for _, crash := range []bool{false, true} { // with a crash the write has taken effect
			t.Run(fmt.Sprintf("write %d, crash %t", n, crash), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					w.faults.FailWrite(n, crash, conflict)
					if err := w.work(); err != nil && crash {
						w.restart()
					}
					w.live(10 * time.Second)
					w.mustRun("a")
				})
			})
		}
	}
}

func TestO12_ALostAnswerMakesNoSecondInstance(t *testing.T) {
	for _, crash := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			w.Shard("a").Break(shardtest.Faults{LoseAnswers: map[string]int{"CreateInstance": 2}})
			if err := w.work(); err != nil {
				t.Fatal(err)
			}
			if crash {
				w.restart()
			}
			w.live(10 * time.Second)
			w.mustRun("a")
		})
	}
}

func TestO12_AShardWithoutRoomIsLeft(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		w.After(time.Second)
		w.Shard("a").Condemn(w.get().Spec.InstanceID, "abandoned", 0)
		w.live(10 * time.Second)
		w.mustRun("b")
	})
}

// The shard refuses at once, so there is no instance that could end.
func TestO12_L8_AShardThatMakesNothingIsLeft(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		full := shardtest.Refusal(codes.Unavailable, "NO_CAPACITY", "no machine can be made")
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"CreateInstance": full}})
		w.live(10 * time.Second)
		w.mustRun("b")
	})
}

// The answer is lost, and when the shard is asked again the instance has ended already.
func TestO12_AnInstanceThatEndedBeforeItWasSeen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{LoseAnswers: map[string]int{"CreateInstance": 1}})
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		w.Shard("a").Condemn(w.get().Spec.InstanceID, "abandoned", 0)
		w.Shard("a").Settle()
		w.live(10 * time.Second)
		w.mustRun("b")
		made := 0
		for _, event := range w.Events.All() {
			if strings.HasPrefix(event, "InstanceCreated:") {
				made++
			}
		}
		if made != 1 {
			t.Errorf("%d instances are said to be made, of one: %q", made, w.Events.All())
		}
	})
}

// ended is a shard that calls each instance ended that it is asked about.
type ended struct{ machine.Server }

func (ended) GetInstanceStatus(_ context.Context, id string) (*nstancev1.InstanceStatus, error) {
	return &nstancev1.InstanceStatus{InstanceId: id, Status: inventory.StatusTerminated, CreatedAt: timestamppb.Now()}, nil
}

func TestO11_AnAnswerThatItHasEndedIsItsEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Brief() // else there is nothing to ask for
		shards := w.machine.Shards
		w.machine.Shards = func() []machine.Named {
			all := shards()
			for i := range all {
				all[i].Server = ended{all[i].Server}
			}
			return all
		}
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		id := w.get().Spec.InstanceID
		for range 2 { // its provider has a machine for it: there is something to ask
			w.Shard("a").Step()
		}
		w.After(time.Millisecond)
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		w.Inventory.Read("a", func(s *inventory.Shard) {
			if p := s.Presence(id); p != inventory.Gone {
				t.Errorf("it is %s", p)
			}
		})
	})
}

func TestO16_AMachineThatIsMovedKeepsItsInstance(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.live(10 * time.Second)
		m := w.get()
		m.Annotations = map[string]string{infrav1.AnnotationDeleteForMove: ""}
		for _, err := range []error{w.client.Update(w.t.Context(), m), w.client.Delete(w.t.Context(), m)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		w.live(10 * time.Second)
		if w.get() == nil || w.Shard("a").Count("DeleteInstance") != 0 {
			t.Error("the instance ends, or its machine is let go")
		}
	})
}

// The group of a machine of a pool gets smaller with it, whatever the cache has heard.
func TestO6_AStaleCacheReplacesNoVictim(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").AddGroup(testworld.Tenant, shardtest.Group{Key: "web", Size: 2})
		w.After(time.Minute)
		id := w.instances("a")[0].GetInstanceId()
		shardGroup := &infrav1.NstanceShardGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: "web--a"},
			Spec:       infrav1.NstanceShardGroupSpec{Group: "web", Shard: "a", Size: ptr.To[int32](1), Retiring: []string{id}},
		}
		m := w.get()
		m.Spec.Mode, m.Spec.Shard, m.Spec.InstanceID, m.Finalizers = infrav1.MachineManaged, "a", id, []string{infrav1.FinalizerMachine}
		for _, err := range []error{w.client.Create(w.t.Context(), shardGroup), w.client.Update(w.t.Context(), m), w.client.Delete(w.t.Context(), m)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		w.machine.Client = interceptor.NewClient(w.client, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
				err := c.Get(ctx, key, into, options...)
				if shardGroup, ok := into.(*infrav1.NstanceShardGroup); ok {
					shardGroup.Spec.Retiring = nil
				}
				return err
			},
		})
		w.live(10 * time.Second)
		if size, n := w.Shard("a").Group(testworld.Tenant, "web").GetSize(), len(w.instances("a")); size != 1 || n != 1 {
			t.Errorf("size %d with %d instances, want 1", size, n)
		}
	})
}

// The machine of an instance that stays, because its pool becomes a demand pool, goes without it; whether or not it
// still has a pool that could say so.
func TestDemand_AHiddenInstanceStays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").AddGroup(testworld.Tenant, shardtest.Group{Key: "web", Size: 1})
		w.After(time.Minute)
		id := w.instances("a")[0].GetInstanceId()
		m := w.get()
		m.Spec.Mode, m.Spec.Shard, m.Spec.InstanceID, m.Finalizers = infrav1.MachineManaged, "a", id, []string{infrav1.FinalizerMachine}
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, infrav1.AnnotationRetiredByPool, "true")
		for _, err := range []error{w.client.Update(w.t.Context(), m), w.client.Delete(w.t.Context(), m)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		w.live(10 * time.Second)
		if w.get() != nil || w.Shard("a").Count("DeleteInstance") != 0 || len(w.instances("a")) != 1 {
			t.Errorf("left: %v, and %d instances after %d calls", w.get(), len(w.instances("a")), w.Shard("a").Count("DeleteInstance"))
		}
	})
}

func TestO6_DeletionEndsTheInstance(t *testing.T) {
	for _, lose := range []int{0, 1} {
		inWorld(t, func(t *testing.T, w *world) {
			w.live(10 * time.Second)
			w.Shard("a").Break(shardtest.Faults{LoseAnswers: map[string]int{"DeleteInstance": lose}})
			if err := w.client.Delete(w.t.Context(), w.get()); err != nil {
				t.Fatal(err)
			}
			if err := w.work(); err != nil && lose == 0 {
				t.Fatal(err)
			}
			if w.get() == nil {
				t.Fatal("it is gone before its instance")
			}
			w.live(10 * time.Second)
			if w.get() != nil || len(w.instances("a")) != 0 {
				t.Errorf("left: %v, %v", w.get(), w.instances("a"))
			}
		})
	}
}

func TestO11_AnEndedInstanceTakesItsMachineWithIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.live(10 * time.Second)
		w.Shard("a").Condemn(w.get().Spec.InstanceID, "expired", 0)
		w.live(10 * time.Second)
		owner := &clusterv1.Machine{}
		if err := w.client.Get(w.t.Context(), name, owner); err != nil {
			t.Fatal(err)
		}
		if owner.DeletionTimestamp.IsZero() || owner.Annotations[clusterv1.ExcludeNodeDrainingAnnotation] == "" {
			t.Errorf("the Machine: %+v", owner.ObjectMeta)
		}
		if m := w.get(); m == nil || !m.DeletionTimestamp.IsZero() || m.Status.Ready {
			t.Errorf("the machine is Cluster API's to delete: %+v", m)
		}
		if err := w.client.Delete(w.t.Context(), w.get()); err != nil { // as Cluster API does
			t.Fatal(err)
		}
		calls := w.Shard("a").Count("DeleteInstance")
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		if w.get() != nil || w.Shard("a").Count("DeleteInstance") != calls {
			t.Error("what is gone is not deleted again")
		}
	})
}

// The work leaves the Node first, unless Cluster API has seen to that: also where it has joined
// a moment ago and nobody has written down yet that it is the instance's, or a cache is behind.
func TestO6_S20_ADeletedMachineIsDrainedFirst(t *testing.T) {
	for name, joins := range map[string]func(m *infrav1.NstanceMachine, node *corev1.Node){
		"a Node that was written down": func(m *infrav1.NstanceMachine, _ *corev1.Node) {
			m.Status.NodeRef = &infrav1.NodeReference{Name: "n", UID: "n"}
		},
		"a Node that is recognised": func(m *infrav1.NstanceMachine, node *corev1.Node) {
			node.Spec.ProviderID = m.Spec.ProviderID
		},
		"one that came back under its name": func(m *infrav1.NstanceMachine, node *corev1.Node) {
			node.Spec.ProviderID = m.Spec.ProviderID
			m.Status.NodeRef = &infrav1.NodeReference{Name: "n", UID: "before"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.live(10 * time.Second)
				m := w.get()
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
				joins(m, node)
				for _, err := range []error{w.client.Create(w.t.Context(), node), w.client.Status().Update(w.t.Context(), m), w.client.Delete(w.t.Context(), m)} {
					if err != nil {
						t.Fatal(err)
					}
				}
				w.live(10 * time.Second)
				if w.get() == nil || w.Shard("a").Count("DeleteInstance") != 0 {
					t.Fatal("the instance ends before its work has left")
				}
				node.Annotations = map[string]string{
					infrav1.AnnotationDrainInstance: m.Spec.InstanceID, infrav1.AnnotationDrainPhase: string(infrav1.DrainDone), infrav1.AnnotationDrainStartedAt: "2026-01-02T03:04:05Z",
				}
				if err := w.client.Update(w.t.Context(), node); err != nil {
					t.Fatal(err)
				}
				w.live(10 * time.Second)
				if w.get() != nil || len(w.instances("a")) != 0 {
					t.Errorf("left: %v, %v", w.get(), w.instances("a"))
				}
			})
		})
	}
}

// lagging is a cache of Nodes that has none yet.
type lagging struct{ client.Reader }

func (l lagging) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if _, ofNodes := list.(*corev1.NodeList); ofNodes {
		return nil
	}
	return l.Reader.List(ctx, list, o...)
}

// A Node has joined, and the cache of Nodes does not have it yet: the API server is asked before
// the end of an instance without a Node, and one that it has is drained first.
func TestO6_S20_ANodeThatTheCacheDoesNotHaveYetIsDrainedFirst(t *testing.T) {
	for name, joins := range map[string]func(m *infrav1.NstanceMachine, node *corev1.Node){
		"a Node that is recognised": func(m *infrav1.NstanceMachine, node *corev1.Node) { node.Spec.ProviderID = m.Spec.ProviderID },
		"a Node in doubt":           func(*infrav1.NstanceMachine, *corev1.Node) {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.live(10 * time.Second)
				m := w.get()
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: map[string]string{infrav1.LabelInstanceID: m.Spec.InstanceID}}}
				joins(m, node)
				w.machine.Nodes = lagging{w.client}
				for _, err := range []error{w.client.Create(w.t.Context(), node), w.client.Delete(w.t.Context(), m)} {
					if err != nil {
						t.Fatal(err)
					}
				}
				w.live(9 * time.Minute)
				if w.get() == nil || w.Shard("a").Count("DeleteInstance") != 0 {
					t.Fatal("the instance ends before its work has left")
				}
				if err := w.client.Delete(w.t.Context(), node); err != nil {
					t.Fatal(err)
				}
				w.live(time.Minute)
				if w.get() != nil || len(w.instances("a")) != 0 {
					t.Errorf("left: %v, %v", w.get(), w.instances("a"))
				}
			})
		})
	}
}

// The API server of the Nodes may be gone for good, as when its cluster is torn down: an
// instance without a Node keeps its time to be drained, and ends then.
func TestO6_L1_NodesThatCannotBeReadHoldNoInstanceForEver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.live(10 * time.Second)
		w.machine.LiveNodes = interceptor.NewClient(w.client, interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return errors.New("connection refused")
			},
		})
		if err := w.client.Delete(t.Context(), w.get()); err != nil {
			t.Fatal(err)
		}
		w.live(9 * time.Minute)
		if w.get() == nil || w.Shard("a").Count("DeleteInstance") != 0 {
			t.Fatal("the instance ends while a Node of it may have work")
		}
		if c := meta.FindStatusCondition(w.get().Status.Conditions, infrav1.ConditionDeleting); c == nil || !strings.Contains(c.Message, "connection refused") {
			t.Errorf("condition %+v, want why it waits", c)
		}
		w.live(2 * time.Minute)
		if w.get() != nil || len(w.instances("a")) != 0 {
			t.Errorf("left: %v, %v", w.get(), w.instances("a"))
		}
	})
}

// The log of the leader alone says what was done about an instance, where and why.
func TestWhatIsDoneIsLogged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.live(10 * time.Second)
		if err := w.client.Delete(t.Context(), w.get()); err != nil {
			t.Fatal(err)
		}
		w.live(10 * time.Second)
		lines := w.Log.Take()
		for _, done := range []string{"created instance", "set provider id", "deleted instance"} {
			i := strings.Index(lines, `level=INFO msg="`+done+`"`)
			if i < 0 {
				t.Errorf("%q is not in the log:\n%s", done, lines)
				continue
			}
			line, _, _ := strings.Cut(lines[i:], "\n")
			for _, key := range []string{" instance=", " shard=a", " generation=", ` reason="`} {
				if !strings.Contains(line, key) {
					t.Errorf("no%s in %s", key, line)
				}
			}
		}
	})
}

// expectPause works until the machine comes to rest, and says when it is looked at again.
func (w *world) expectPause(want time.Duration) {
	w.t.Helper()
	if err := w.work(); err != nil {
		w.t.Fatal(err)
	}
	result, err := w.machine.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: name})
	if err != nil || result.RequeueAfter != want {
		w.t.Errorf("looked at again after %v, %v; want %v", result.RequeueAfter, err, want)
	}
}

// While the API server is away, shards are asked neither for an instance nor for its end.
func TestF36_S6_NothingIsAskedWhileTheAPIServerIsAway(t *testing.T) {
	errAway := errors.New("connection refused")
	away := func(w *world) {
		w.machine.Live = interceptor.NewClient(w.client, interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return errAway
			},
		})
	}
	t.Run("an instance", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			away(w)
			w.expectPause(5 * time.Second)
			w.expectPause(5 * time.Second)
			if w.get().Spec.InstanceID == "" || w.Shard("a").Count("CreateInstance") != 0 {
				t.Errorf("instance %q, %d calls", w.get().Spec.InstanceID, w.Shard("a").Count("CreateInstance"))
			}
			w.machine.Live = w.client
			w.live(10 * time.Second)
			if w.Shard("a").Count("CreateInstance") != 1 {
				t.Errorf("%d calls since it is back, want 1", w.Shard("a").Count("CreateInstance"))
			}
		})
	})
	t.Run("its end", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.live(10 * time.Second)
			if err := w.client.Delete(t.Context(), w.get()); err != nil {
				t.Fatal(err)
			}
			away(w)
			w.expectPause(5 * time.Second)
			w.expectPause(5 * time.Second)
			if n := w.Shard("a").Count("DeleteInstance"); n != 0 {
				t.Errorf("%d calls while the API server is away", n)
			}
			w.machine.Live = w.client
			w.live(10 * time.Second)
			if w.get() != nil {
				t.Error("the machine stays although the API server is back")
			}
		})
	})
}

// Two Nodes with the provider id of one instance: which of them has its work is not known, so
// the instance of a deleted machine goes when its time is over, and not before.
func TestF37_ADeletedMachineWithTwoNodesKeepsItsInstanceUntilTheDeadline(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.live(10 * time.Second)
		m := w.get()
		for _, name := range []string{"new", "stale"} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID}}
			if err := w.client.Create(t.Context(), node); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.client.Delete(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		w.live(9 * time.Minute)
		m = w.get()
		if m == nil || w.Shard("a").Count("DeleteInstance") != 0 {
			t.Fatal("the instance ends although one of two nodes may be its own")
		}
		if c := meta.FindStatusCondition(m.Status.Conditions, infrav1.ConditionDeleting); c == nil || c.Reason != infrav1.ReasonNodeUncertain || !strings.Contains(c.Message, "new, stale") {
			t.Errorf("%+v", c)
		}
		w.live(2 * time.Minute)
		if w.get() != nil || len(w.instances("a")) != 0 {
			t.Errorf("left after the deadline: %v, %v", w.get(), w.instances("a"))
		}
	})
}

// The machine goes at once, without the operator having seen that it was condemned: the
// reason comes with the event that says it is deleted.
func TestO11_TheReasonOfADeletionArrives(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.live(10 * time.Second)
		m := w.get()
		w.Shard("a").Send(testworld.Tenant, &nstancev1.InstanceEvent{
			InstanceId: m.Spec.InstanceID, Tenant: testworld.Tenant, Group: "web", Status: "deleted", Reason: "spot-termination", Revision: 1 << 40,
		})
		w.After(time.Second)
		_ = w.work()
		c := meta.FindStatusCondition(w.get().Status.Conditions, infrav1.ConditionServerDeleted)
		if c == nil || !strings.HasSuffix(c.Message, ": spot-termination") {
			t.Errorf("%+v", c)
		}
		if all := w.Events.All(); !slices.ContainsFunc(all, func(s string) bool {
			return strings.HasPrefix(s, "ServerDeleted:") && strings.HasSuffix(s, "spot-termination")
		}) {
			t.Errorf("events %q", all)
		}
	})
}

func TestO16_APausedClusterChangesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		cluster, paused := &clusterv1.Cluster{}, true
		if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: name.Namespace, Name: "c"}, cluster); err != nil {
			t.Fatal(err)
		}
		cluster.Spec.Paused = &paused
		if err := w.client.Update(w.t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		w.live(10 * time.Second)
		if m := w.get(); m.Spec.InstanceID != "" || len(m.Finalizers) != 0 || len(w.instances("a")) != 0 {
			t.Errorf("%+v", m)
		}
	})
}

// What was there before this process began, and is missing from the first listing together
// with much else, has to be missing from a second one.
func TestS8_WhatMachinesStandForIsRemembered(t *testing.T) {
	const shard = "a"
	store := inventory.NewStore(testworld.Tenant, nil)
	store.Configure([]string{shard})
	b := testworld.NewClientBuilder(t)
	known := func(name, instance string, state infrav1.InstanceState) {
		m := &infrav1.NstanceMachine{ObjectMeta: metav1.ObjectMeta{Namespace: testworld.Namespace, Name: name}}
		m.Spec.Shard, m.Spec.InstanceID, m.Spec.GroupRef.Name = shard, name, "web"
		m.Status.InstanceID, m.Status.InstanceState = instance, state
		b.WithObjects(m)
	}
	for i := range 4 {
		name := fmt.Sprintf("i%d", i)
		known(name, name, infrav1.InstanceRunning)
	}
	known("asked-for", "", "")
	moved := &infrav1.NstanceMachine{ObjectMeta: metav1.ObjectMeta{Namespace: testworld.Namespace, Name: "moved"}}
	moved.Spec = infrav1.NstanceMachineSpec{Mode: infrav1.MachineManaged, InstanceID: "moved", MachineSettings: infrav1.MachineSettings{Shard: shard}}
	b.WithObjects(moved) // with its spec alone
	known("ended", "ended", infrav1.InstanceTerminated)
	client := b.Build()
	if err := machine.Remember(t.Context(), client, store, testworld.Namespace, []string{"another"}); err != nil {
		t.Fatal(err)
	}
	store.Read(shard, func(s *inventory.Shard) {
		if p := s.Presence("i0"); p != inventory.Unknown {
			t.Errorf("an instance of a shard that was not named is %s", p)
		}
	})
	if err := machine.Remember(t.Context(), client, store, testworld.Namespace, []string{"another", shard}); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	store.Update(shard, func(s *inventory.Shard) []inventory.Change {
		s.Connected(1, now)
		return s.ListedInstances(inventory.InstanceList{Complete: true, Asked: now.Add(time.Second)}, now.Add(time.Second))
	})
	store.Read(shard, func(s *inventory.Shard) {
		for _, id := range []string{"i0", "i3", "moved"} {
			if s.Presence(id) != inventory.Present {
				t.Errorf("%s is %s after one listing", id, s.Presence(id))
			}
		}
		for _, id := range []string{"asked-for", "ended"} {
			if s.Presence(id) != inventory.Gone {
				t.Errorf("%s is %s, and was never there", id, s.Presence(id))
			}
		}
	})
}
