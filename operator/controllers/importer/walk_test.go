package importer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/controllers/importer"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = testworld.Tenant

var away = shardtest.Faults{Refuse: map[string]error{"": shardtest.Refusal(codes.Unavailable, "", "nobody there")}}

type world struct {
	*testworld.World
	r        *importer.Reconciler
	t        *testing.T
	settings importer.Settings
}

// inWorld runs a test with group workers on two of three shards: a static one of 3 on a,
// and one of 2 on b.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	names := []string{"a", "b", "c"}
	testworld.Run(t, names, func(t *testing.T, k *testworld.World) {
		w := &world{World: k, t: t, settings: importer.Settings{Enabled: true}}
		w.r = &importer.Reconciler{
			Client: k.Client, Live: k.Client, Namespace: testworld.Namespace, Cluster: testworld.Cluster,
			Settings: func() importer.Settings { return w.settings }, Shards: func() []string { return names },
			Connection: k.Connection,
			Inventory:  k.Inventory, Events: k.Events, Now: time.Now,
		}
		w.Create(&infrav1.NstanceCluster{ObjectMeta: metav1.ObjectMeta{Name: testworld.Cluster}})
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "workers", Size: 3, Static: true})
		w.Shard("b").AddGroup(tenant, shardtest.Group{Key: "workers", Size: 2})
		w.After(time.Minute)
		test(t, w)
	})
}

func (w *world) pass() error {
	w.t.Helper()
	_, err := w.r.Reconcile(context.Background(), ctrl.Request{})
	return err
}

func (w *world) mustPass() {
	w.t.Helper()
	if err := w.pass(); err != nil {
		w.t.Fatal(err)
	}
}

// made says what objects there are, such as "pool workers [a b]", "part workers--a 3".
func (w *world) made() []string {
	w.t.Helper()
	var pools infrav1.NstanceMachinePoolList
	var shardGroups infrav1.NstanceShardGroupList
	var machinePools clusterv1.MachinePoolList
	for _, list := range []client.ObjectList{&pools, &shardGroups, &machinePools} {
		if err := w.Client.List(context.Background(), list); err != nil {
			w.t.Fatal(err)
		}
	}
	var all []string
	for _, o := range pools.Items {
		all = append(all, fmt.Sprintf("pool %s %v %q %s", o.Name, o.Spec.Shards, o.Spec.Template, o.Annotations[infrav1.AnnotationImportedFrom]))
	}
	for _, o := range shardGroups.Items {
		all = append(all, fmt.Sprintf("part %s %d", o.Name, o.Spec.SizeOrZero()))
	}
	for _, o := range machinePools.Items {
		all = append(all, fmt.Sprintf("machinepool %s %d", o.Name, *o.Spec.Replicas))
	}
	return all
}

func (w *world) expectComplete(status metav1.ConditionStatus, reason string) {
	w.t.Helper()
	cluster := &infrav1.NstanceCluster{}
	w.Get(testworld.Cluster, cluster)
	c := meta.FindStatusCondition(cluster.Status.Conditions, infrav1.ConditionImportComplete)
	if c == nil || c.Status != status || c.Reason != reason {
		w.t.Errorf("ImportComplete is %+v, want %s %s", c, status, reason)
	}
}

var imported = []string{`pool workers [a b] "" a=3,b=2`, "part workers--a 3", "part workers--b 2", "machinepool workers 5"}

func TestO3_NothingMovesWhenAGroupIsImported(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.mustPass()
		if diff := cmp.Diff(imported, w.made()); diff != "" {
			t.Error(diff)
		}
		w.expectComplete(metav1.ConditionTrue, infrav1.ReasonComplete)
		want := []string{"PoolImported: NstanceMachinePool: group workers was found with a=3,b=2: 5 replicas"}
		if diff := cmp.Diff(want, w.Told()); diff != "" {
			t.Error(diff)
		}
		shardGroup := &infrav1.NstanceShardGroup{}
		w.Get("workers--a", shardGroup)
		if owner := metav1.GetControllerOf(shardGroup); owner == nil || owner.Name != "workers" || shardGroup.Labels[infrav1.LabelGroup] != "workers" {
			t.Errorf("owner %+v, labels %v", owner, shardGroup.Labels)
		}
	})
}

func TestO3_OneSilentShardKeepsTheGateClosed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("c").Break(away)
		w.After(time.Minute)
		w.mustPass()
		if made := w.made(); made != nil {
			t.Errorf("made %q", made)
		}
		w.expectComplete(metav1.ConditionFalse, infrav1.ReasonWaitingForShards)
		w.Shard("c").Break(shardtest.Faults{})
		w.After(2 * time.Minute)
		w.mustPass()
		if diff := cmp.Diff(imported, w.made()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestO3_ACrashAfterEachStep(t *testing.T) {
	for steps := range 5 {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				healthy := w.r.Client
				left := steps
				w.r.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
					Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
						if left--; left < 0 {
							return errors.New("the operator is killed")
						}
						return c.Create(ctx, object, options...)
					},
				})
				err := w.pass()
				if (err != nil) != (steps < 4) {
					t.Errorf("after %d steps: %v", steps, err)
				}
				// What the server has since does not count any more, once the pool is written.
				w.r.Client = healthy
				w.mustPass()
				if diff := cmp.Diff(imported, w.made()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// Import is over once the MachinePool is there. One that is deleted later comes back with
// the size that the pool has by then, unless a user wants none.
func TestO3_AMachinePoolComesBackAsLargeAsItsPool(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		shardGroup, object := &infrav1.NstanceShardGroup{}, &infrav1.NstanceMachinePool{}
		w.Change("workers--b", shardGroup, func() {
			shardGroup.Spec.Size = ptr.To[int32](7)
			metav1.SetMetaDataAnnotation(&shardGroup.ObjectMeta, infrav1.AnnotationSurge, "2026-01-02T03:04:05Z")
		})
		w.Get("workers", object)
		object.Status.DesiredReplicas = ptr.To(int32(9))
		if err := w.Client.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		w.Delete("workers", &clusterv1.MachinePool{})
		w.mustPass()
		want := []string{`pool workers [a b] "" a=3,b=2`, "part workers--a 3", "part workers--b 7", "machinepool workers 9"}
		if diff := cmp.Diff(want, w.made()); diff != "" {
			t.Error(diff)
		}
		w.Change("workers", object, func() { object.Annotations[infrav1.AnnotationNoMachinePool] = "true" })
		w.Delete("workers", &clusterv1.MachinePool{})
		w.mustPass()
		if diff := cmp.Diff(want[:3], w.made()); diff != "" {
			t.Error("a person wants none:", diff)
		}
	})
}

func TestO3_AGroupThatWasLeftIsNotBroughtBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		cluster := &infrav1.NstanceCluster{}
		left := func() string {
			w.Get(testworld.Cluster, cluster)
			return cluster.Annotations[infrav1.AnnotationOrphanedGroups]
		}
		says := func(text string) {
			w.Change(testworld.Cluster, cluster, func() {
				cluster.Annotations = map[string]string{infrav1.AnnotationOrphanedGroups: text}
			})
		}
		says("gone--c,workers--a,workers--b")
		w.mustPass()
		if made, still := w.made(), left(); made != nil || still != "workers--a,workers--b" {
			t.Errorf("made %q; still left: %q", made, still)
		}
		says("") // a person wants it back
		w.mustPass()
		if diff := cmp.Diff(imported, w.made()); diff != "" {
			t.Error(diff)
		}
	})
}

// The list of what is left and the pools are read one after the other. A pool that leaves
// its groups in between is neither made again nor forgotten.
func TestO3_AGroupThatIsLeftJustNow(t *testing.T) {
	for _, first := range []bool{true, false} { // the pool is seen, or no longer
		inWorld(t, func(t *testing.T, w *world) {
			w.mustPass()
			cluster := &infrav1.NstanceCluster{}
			w.r.Live = interceptor.NewClient(w.Client, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if _, ok := list.(*infrav1.NstanceMachinePoolList); !ok {
						return c.List(ctx, list, options...)
					}
					if first {
						defer w.Change(testworld.Cluster, cluster, func() {
							cluster.Annotations = map[string]string{infrav1.AnnotationOrphanedGroups: "workers--a,workers--b"}
						})
						return c.List(ctx, list, options...)
					}
					w.Change(testworld.Cluster, cluster, func() {
						cluster.Annotations = map[string]string{infrav1.AnnotationOrphanedGroups: "workers--a,workers--b"}
					})
					return nil
				},
			})
			w.r.Client = w.r.Live.(client.Client)
			w.mustPass()
			w.Get(testworld.Cluster, cluster)
			if diff := cmp.Diff(imported, w.made()); diff != "" || cluster.Annotations[infrav1.AnnotationOrphanedGroups] == "" {
				t.Errorf("left: %v; %s", cluster.Annotations, diff)
			}
		})
	}
}

func TestO3_APersonsPoolWins(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Create(&infrav1.NstanceMachinePool{
			ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: infrav1.NstanceMachinePoolSpec{Group: "workers", Shards: []string{"a"}},
		})
		w.mustPass()
		w.mustPass()
		if diff := cmp.Diff([]string{`pool mine [a] "" `}, w.made()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"ShardNotCovered: NstanceMachinePool: group workers is also on b, which no pool lists"}, w.Told()); diff != "" {
			t.Error(diff)
		}
	})
}

// Two things are wrong with the same pool, and each is said once.
func TestO3_AnEditedStaticSizeIsToldOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Create(&infrav1.NstanceMachinePool{
			ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: infrav1.NstanceMachinePoolSpec{Group: "workers", Shards: []string{"a"}},
		})
		told := func(size string) string {
			return "StaticSizeDiffers: NstanceMachinePool: the configuration of the servers gives group workers the size " + size +
				" on a; that is not followed, for the size is the MachinePool's"
		}
		uncovered := "ShardNotCovered: NstanceMachinePool: group workers is also on b, which no pool lists"
		for i, want := range [][]string{{told("7"), uncovered}, {told("8")}} {
			w.Shard("a").SetStaticSize(tenant, "workers", int32(7+i))
			w.After(time.Minute)
			for range 3 {
				w.mustPass()
			}
			if diff := cmp.Diff(want, w.Told()); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestO3_AGroupOnItsWayOutIsNotBroughtBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for _, shard := range []string{"a", "b"} {
			w.Shard(shard).SetStatic(tenant, "workers", false)
			if err := w.Connected(shard).DeleteGroup(t.Context(), &nstancev1.DeleteGroupRequest{Key: "workers"}); err != nil {
				t.Fatal(err)
			}
		}
		w.After(time.Minute)
		w.mustPass()
		if made := w.made(); made != nil {
			t.Errorf("made %q", made)
		}
	})
}

func TestO3_OnePoolForEachShard(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settings.PerShard = true
		w.mustPass()
		want := []string{
			`pool workers--a [a] "" a=3`, `pool workers--b [b] "base" b=2`, "part workers--a 3", "part workers--b 2",
			"machinepool workers--a 3", "machinepool workers--b 2",
		}
		if diff := cmp.Diff(want, w.made()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestO3_ClusterAPIWithoutMachinePools(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.r.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				if _, ok := object.(*clusterv1.MachinePool); ok {
					return errors.New("admission webhook denied the request: can be set only if the MachinePool feature flag is enabled")
				}
				return c.Create(ctx, object, options...)
			},
		})
		if err := w.pass(); err == nil {
			t.Error("a MachinePool that is refused is no error")
		}
		w.expectComplete(metav1.ConditionFalse, infrav1.ReasonMachinePoolFeatureDisabled)
	})
}

// A shard whose stream of groups cannot be had is asked for its groups all the same: one that
// somebody makes there becomes a pool within a poll.
func TestO3_AGroupIsFoundByThePollAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.Told()
		for _, lack := range []shardtest.Faults{
			{Lacks: map[string]bool{"WatchGroups": true}},
			{Refuse: map[string]error{"WatchGroups": shardtest.Refusal(codes.PermissionDenied, "NOT_ADMINISTRATOR", "not for you")}},
		} {
			key := fmt.Sprintf("late-%d", len(w.made()))
			w.Shard("b").Break(lack)
			w.Shard("b").EndStreams()
			w.After(50 * time.Second) // ten after a poll
			w.Shard("b").AddGroup(tenant, shardtest.Group{Key: key, Size: 1})
			w.After(time.Second)
			if known := w.knows("b", key); known {
				t.Fatal("a stream has told of the group")
			}
			w.After(35 * time.Second)
			if known := w.knows("b", key); !known {
				t.Fatalf("%s is not known after a poll", key)
			}
			w.mustPass()
			pool := &infrav1.NstanceMachinePool{}
			if !w.Get(key, pool) || !slices.Equal(pool.Spec.Shards, []string{"b"}) {
				t.Errorf("pool %s: %+v", key, pool.Spec)
			}
		}
	})
}

// knows is whether it is known that a shard has a group.
func (w *world) knows(shard, group string) (known bool) {
	w.Inventory.Read(shard, func(s *inventory.Shard) { known = s.Group(group) != nil })
	return known
}

// Somebody makes a MachinePool of the pool's name after the pool was made and before its own.
func TestO3_AMachinePoolWhoseNameIsTakenMeanwhile(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.r.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				if _, shardGroup := o.(*infrav1.NstanceShardGroup); shardGroup && !w.Get("workers", &clusterv1.MachinePool{}) {
					foreign := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}
					foreign.Spec.Replicas = ptr.To[int32](9)
					w.Create(foreign)
				}
				return c.Create(ctx, o, options...)
			},
		})
		w.mustPass()
		w.mustPass()
		var list clusterv1.MachinePoolList
		if err := w.Client.List(t.Context(), &list); err != nil || len(list.Items) != 2 {
			t.Fatalf("%d MachinePools, %v", len(list.Items), err)
		}
		own := &clusterv1.MachinePool{}
		if !w.Get(capi.Taken("workers"), own) || *own.Spec.Replicas != 5 || own.Spec.Template.Spec.InfrastructureRef.Name != "workers" {
			t.Errorf("MachinePool %+v", own.Spec)
		}
		w.expectComplete(metav1.ConditionTrue, infrav1.ReasonComplete)
	})
}

// A user makes a pool while everything is read: the group gets no second one, under whatever
// name.
func TestO3_APoolThatIsMadeMeanwhile(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		lists := 0
		w.r.Live = interceptor.NewClient(w.Client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				if _, ofPools := list.(*infrav1.NstanceMachinePoolList); ofPools {
					lists++
				}
				if lists == 1 && !w.Get("workers", &infrav1.NstanceMachinePool{}) {
					mine := &infrav1.NstanceMachinePool{
						ObjectMeta: metav1.ObjectMeta{Name: "workers"}, Spec: infrav1.NstanceMachinePoolSpec{Group: "workers", Shards: []string{"a", "b"}},
					}
					w.Create(mine)
					w.Create(capi.MachinePool(mine, "workers", testworld.Cluster, 7))
				}
				return err
			},
		})
		_ = w.pass() // it may find that the name is taken
		w.mustPass()
		if diff := cmp.Diff([]string{`pool workers [a b] "" `, "machinepool workers 7"}, w.made()); diff != "" {
			t.Error(diff)
		}
		w.expectComplete(metav1.ConditionTrue, infrav1.ReasonComplete)
	})
}

// Of two pools that were made at the same time the one that was imported has lost: that is said
// once, stops no other import, and is over when the other one is gone.
func TestO3_AnImportedPoolThatHasLostItsGroup(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		mine := &infrav1.NstanceMachinePool{
			ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: infrav1.NstanceMachinePoolSpec{Group: "workers", Shards: []string{"a", "b"}},
		}
		w.Create(mine)
		shardGroup := &infrav1.NstanceShardGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: testworld.Namespace, Name: "workers--a"},
			Spec:       infrav1.NstanceShardGroupSpec{Group: "workers", Shard: "a", Size: ptr.To[int32](1)},
		}
		if err := controllerutil.SetControllerReference(mine, shardGroup, w.Client.Scheme()); err != nil {
			t.Fatal(err)
		}
		w.Create(shardGroup)
		w.Create(&infrav1.NstanceMachinePool{
			ObjectMeta: metav1.ObjectMeta{Name: "workers", Annotations: map[string]string{infrav1.AnnotationImportedFrom: "a=3,b=2"}},
			Spec:       infrav1.NstanceMachinePoolSpec{Group: "workers", Shards: []string{"a", "b"}},
		})
		w.Shard("c").AddGroup(tenant, shardtest.Group{Key: "batch", Size: 1})
		w.After(time.Minute)
		w.mustPass()
		w.mustPass()
		want := []string{
			`pool batch [c] "base" c=1`, `pool mine [a b] "" `, `pool workers [a b] "" a=3,b=2`, "part batch--c 1", "part workers--a 1", "machinepool batch 1",
		}
		if diff := cmp.Diff(want, w.made()); diff != "" {
			t.Error(diff)
		}
		told := w.Told()
		if n := len(slices.DeleteFunc(told, func(e string) bool {
			return !strings.HasPrefix(e, "ImportBroken: NstanceMachinePool: group workers belongs to pool mine,")
		})); n != 1 {
			t.Errorf("%d events say so, want 1", n)
		}
		w.expectComplete(metav1.ConditionTrue, infrav1.ReasonComplete)
		w.Delete("workers--a", &infrav1.NstanceShardGroup{})
		w.Delete("mine", &infrav1.NstanceMachinePool{})
		w.mustPass()
		if !slices.Contains(w.made(), "machinepool workers 5") {
			t.Errorf("made %q", w.made())
		}
	})
}
