package shardgroup_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/shardgroup"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenant = testworld.Tenant
	name   = "web--a"
)

// away is a shard that nobody reaches.
var away = shardtest.Faults{Refuse: map[string]error{"": shardtest.Refusal(codes.Unavailable, "", "nobody there")}}

// world is a controller that looks after shard group web--a of pool web.
type world struct {
	*testworld.World
	r *shardgroup.Reconciler
	t *testing.T
	a *shardtest.Shard
}

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	testworld.Run(t, []string{"a"}, func(t *testing.T, w *testworld.World) {
		pool := &infrav1.NstanceMachinePool{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Finalizers: []string{"example.com/test"}},
			Spec:       infrav1.NstanceMachinePoolSpec{Group: "web", Shards: []string{"a"}},
		}
		w.Create(pool)
		controller := true
		w.Create(&infrav1.NstanceShardGroup{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Generation: 1,
				Labels: map[string]string{
					infrav1.LabelGroup: "web", infrav1.LabelShard: "a", infrav1.LabelPool: "web", clusterv1.ClusterNameLabel: testworld.Cluster,
				},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: infrav1.GroupVersion.String(), Kind: infrav1.KindMachinePool, Name: "web", UID: pool.UID, Controller: &controller,
				}},
			},
			Spec: infrav1.NstanceShardGroupSpec{Group: "web", Shard: "a", Size: ptr.To[int32](2), Template: "base"},
		})
		test(t, &world{World: w, t: t, a: w.Shard("a"), r: &shardgroup.Reconciler{
			Client: w.Client, Live: w.Client, Inventory: w.Inventory, CoolOff: &inventory.CoolOffs{}, Events: w.Events, Now: time.Now,
			Server: func(shard string) (shardgroup.Server, bool) {
				s, ok := w.Set.Shard(shard)
				return s, ok
			},
		}})
	})
}

// pass makes one pass of the controller.
func (w *world) pass() (ctrl.Result, error) {
	w.t.Helper()
	result, err := w.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: testworld.Namespace, Name: name}})
	w.After(time.Millisecond)
	return result, err
}

// mustPass makes one pass, which has to succeed.
func (w *world) mustPass() ctrl.Result {
	w.t.Helper()
	result, err := w.pass()
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *world) object() *infrav1.NstanceShardGroup {
	w.t.Helper()
	object := &infrav1.NstanceShardGroup{}
	if !w.Get(name, object) {
		w.t.Fatal("the object is gone")
	}
	return object
}

// edit changes the spec, as the pool's controller does.
func (w *world) edit(change func(*infrav1.NstanceShardGroup)) {
	w.t.Helper()
	object := &infrav1.NstanceShardGroup{}
	w.Change(name, object, func() {
		object.Generation++ // an API server does that
		change(object)
	})
}

func (w *world) expectReady(status metav1.ConditionStatus, reason string) {
	w.t.Helper()
	ready := meta.FindStatusCondition(w.object().Status.Conditions, infrav1.ConditionReady)
	if ready == nil || ready.Status != status || ready.Reason != reason {
		w.t.Errorf("Ready is %+v, want %s %s", ready, status, reason)
	}
}

// reasons are those of the events since the last call.
func (w *world) reasons() []string {
	var reasons []string
	for _, event := range w.Told() {
		reason, _, _ := strings.Cut(event, ":")
		reasons = append(reasons, reason)
	}
	return reasons
}

func TestO5_APartIsSentOnceAndFollowed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.mustPass()
		if n := w.a.Count("UpsertGroup"); n != 1 {
			t.Errorf("%d upserts of one spec, want 1", n)
		}
		w.expectReady(metav1.ConditionFalse, infrav1.ReasonScaling)

		w.Settle("a")
		w.mustPass()
		w.expectReady(metav1.ConditionTrue, infrav1.ReasonReady)
		status := w.object().Status
		if status.ObservedGeneration != 1 || status.Replicas != 2 || *status.ServerSize != 2 || len(status.ProviderIDs) != 2 {
			t.Errorf("status %+v", status)
		}
		if diff := cmp.Diff([]string{"GroupUpserted"}, w.reasons()); diff != "" {
			t.Error(diff)
		}

		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](3) })
		w.mustPass()
		if size := w.a.Group(tenant, "web").GetSize(); size != 3 {
			t.Errorf("the server has size %d, want 3", size)
		}
	})
}

func TestO7_AnOutageCostsNoProviderID(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.Settle("a")
		w.mustPass()
		before := w.object().Status.ProviderIDs

		w.a.Break(away)
		w.After(5 * time.Minute)
		w.mustPass()
		w.expectReady(metav1.ConditionFalse, infrav1.ReasonUnreachable)

		w.a.Break(shardtest.Faults{})
		w.a.Restart() // and the new leader knows nothing yet
		w.After(time.Minute)
		w.mustPass()
		if diff := cmp.Diff(before, w.object().Status.ProviderIDs); diff != "" || len(before) != 2 {
			t.Error(diff)
		}

		w.a.Rebuilt()
		w.After(2 * time.Minute)
		w.mustPass()
		w.expectReady(metav1.ConditionTrue, infrav1.ReasonReady)
		if diff := cmp.Diff(before, w.object().Status.ProviderIDs); diff != "" {
			t.Error(diff)
		}
		if reasons := w.reasons(); !slices.Contains(reasons, "ShardUnreachable") || !slices.Contains(reasons, "ShardRecovered") {
			t.Errorf("events %q", reasons)
		}
	})
}

func TestO5_AStaticGroupIsFollowedBothWays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.a.SetStatic(tenant, "web", true)
		// Whether the stream has brought it yet or not: if not, the server refuses, and is asked
		// again without what is locked; if it does so just now, a second later.
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size, o.Spec.Template = ptr.To[int32](4), "other" })
		w.mustPass()
		w.After(time.Second)
		w.mustPass()
		if o := w.object(); !o.Status.IsStatic || o.Status.ObservedGeneration != o.Generation || w.a.Group(tenant, "web").GetSize() != 4 {
			t.Errorf("after the flip: %+v", o.Status)
		}
		if template := w.a.Group(tenant, "web").GetTemplate(); template != "base" {
			t.Errorf("the template of the static group is %q", template)
		}

		w.a.SetStatic(tenant, "web", false)
		w.Settle("a")
		w.mustPass()
		if template := w.a.Group(tenant, "web").GetTemplate(); template != "other" || w.object().Status.IsStatic {
			t.Errorf("after the flip back the template is %q, static: %v", template, w.object().Status.IsStatic)
		}
	})
}

func TestO5_AFightEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		other := w.Connected("a")
		for range 10 {
			five := int32(5)
			_, err := other.UpsertGroup(t.Context(), &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Size: &five}})
			if err != nil {
				t.Fatal(err)
			}
			w.After(time.Minute)
			w.mustPass()
		}
		valid := meta.FindStatusCondition(w.object().Status.Conditions, infrav1.ConditionConfigValid)
		if valid.Status != metav1.ConditionFalse || valid.Reason != infrav1.ReasonFoughtOver {
			t.Errorf("ConfigValid is %+v", valid)
		}
		if size := w.a.Group(tenant, "web").GetSize(); size != 5 {
			t.Errorf("the other one is not given way to: size %d", size)
		}
		w.After(shardgroup.RepairSpan)
		w.mustPass()
		if size := w.a.Group(tenant, "web").GetSize(); size != 2 {
			t.Errorf("after the pause the size is %d, want 2", size)
		}
	})
}

func TestO5_ARefusalStandsUntilSomethingChanges(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Template = "" }) // a new group needs one
		w.mustPass()
		w.mustPass()
		w.expectReady(metav1.ConditionFalse, infrav1.ReasonRejected)
		if n := w.a.Count("UpsertGroup"); n != 1 {
			t.Errorf("%d calls for one refusal", n)
		}
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Template = "base" })
		w.mustPass()
		w.expectReady(metav1.ConditionFalse, infrav1.ReasonScaling)
		if diff := cmp.Diff([]string{"GroupRejected", "GroupUpserted"}, w.reasons()); diff != "" {
			t.Error(diff)
		}
	})
}

// The reply is lost after the server has done it, and the status cannot be written after
// that: the next pass does both again, and the server changes nothing.
func TestO5_ACrashBetweenServerAndStatus(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		healthy := w.r.Client
		w.r.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
				return errors.New("the API server is away")
			},
		})
		if _, err := w.pass(); err == nil {
			t.Error("a status that cannot be written is no error")
		}
		etag := w.a.Group(tenant, "web").GetEtag()
		w.r.Client = healthy
		w.mustPass()
		if o := w.object(); o.Status.ObservedGeneration != o.Generation || w.a.Group(tenant, "web").GetEtag() != etag {
			t.Errorf("generation %d acknowledged %d, etag %s then %s", o.Generation, o.Status.ObservedGeneration, etag, w.a.Group(tenant, "web").GetEtag())
		}
	})
}

func TestO5_DeletionWaitsForTheInstances(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.Settle("a")
		w.Delete(name, &infrav1.NstanceShardGroup{})
		w.mustPass()
		if group := w.a.Group(tenant, "web"); !group.GetDeleting() {
			t.Errorf("the group is not deleted: %v", group)
		}
		w.mustPass()
		if n := w.a.Count("DeleteGroup"); n != 1 || !w.Get(name, &infrav1.NstanceShardGroup{}) {
			t.Errorf("%d calls; the object has to wait", n)
		}
		w.Settle("a")
		w.mustPass()
		if w.Get(name, &infrav1.NstanceShardGroup{}) {
			t.Error("the object outlives its group")
		}
	})
}

func TestO5_ForceRemoveAsksNobody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.a.Break(away)
		w.After(5 * time.Minute)
		w.Delete(name, &infrav1.NstanceShardGroup{})
		if result := w.mustPass(); result.RequeueAfter == 0 || !w.Get(name, &infrav1.NstanceShardGroup{}) {
			t.Error("an object whose shard does not answer has to wait")
		}
		w.edit(func(o *infrav1.NstanceShardGroup) {
			metav1.SetMetaDataAnnotation(&o.ObjectMeta, infrav1.AnnotationForceRemove, "true")
		})
		w.mustPass()
		if w.Get(name, &infrav1.NstanceShardGroup{}) || w.a.Count("DeleteGroup") != 0 {
			t.Error("force is not enough, or somebody was asked")
		}
	})
}

func TestO5_AnOrphanedGroupStays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		pool := &infrav1.NstanceMachinePool{}
		w.Change("web", pool, func() { pool.Spec.DeletionPolicy = infrav1.DeletionOrphan })
		w.Delete("web", &infrav1.NstanceMachinePool{})
		w.Delete(name, &infrav1.NstanceShardGroup{})
		w.mustPass()
		if w.Get(name, &infrav1.NstanceShardGroup{}) || w.a.Group(tenant, "web").GetDeleting() {
			t.Error("the object is still there, or the group is not")
		}
	})
}

func TestO16_APartThatIsMovedKeepsItsGroup(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.edit(func(o *infrav1.NstanceShardGroup) {
			o.Annotations = map[string]string{infrav1.AnnotationDeleteForMove: ""}
		})
		w.Delete(name, &infrav1.NstanceShardGroup{})
		w.mustPass()
		if w.a.Count("DeleteGroup") != 0 || len(w.object().Finalizers) == 0 {
			t.Error("the group is deleted, or its object is let go")
		}
	})
}

// behind is a cache that has not heard of the last changes of these objects.
func behind(c client.WithWatch, objects ...client.Object) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			for _, old := range objects {
				if reflect.TypeOf(old) == reflect.TypeOf(into) && old.GetName() == key.Name {
					reflect.ValueOf(into).Elem().Set(reflect.ValueOf(old.DeepCopyObject()).Elem())
					return nil
				}
			}
			return c.Get(ctx, key, into, options...)
		},
	})
}

// A cache that is behind ends no instance: the server has what was told it since.
func TestF36_AStaleSpecIsNotSent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		old := w.object()
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](5) })
		w.mustPass()
		w.Settle("a")
		w.r.Client = behind(w.Client, old)
		w.mustPass()
		if size := w.a.Group(tenant, "web").GetSize(); size != 5 {
			t.Errorf("the server is told %d, want 5", size)
		}
	})
}

func TestF36_AGroupIsNotDeletedByAStaleCache(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		pool := &infrav1.NstanceMachinePool{}
		w.Get("web", pool)
		old := pool.DeepCopy()
		w.Change("web", pool, func() { pool.Spec.DeletionPolicy = infrav1.DeletionOrphan })
		w.Delete("web", &infrav1.NstanceMachinePool{})
		w.Delete(name, &infrav1.NstanceShardGroup{})
		w.r.Client = behind(w.Client, old)
		w.mustPass()
		if n := w.a.Count("DeleteGroup"); n != 0 {
			t.Error("the group of a pool that leaves it is deleted")
		}
	})
}
