package shardgroup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/shardgroup"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// run lets the controller work for a while as its queue would have it: when its pause is
// over, when it failed, and every second besides, as news wake it.
func (w *world) run(for_ time.Duration) {
	w.t.Helper()
	for range int(for_ / time.Second) {
		_, _ = w.pass() // failures are what is looked for
		w.After(time.Second - time.Millisecond)
	}
}

// A server that fails is asked with growing pauses, whatever else wakes the object up.
func TestO5_AFailingServerIsAskedWithGrowingPauses(t *testing.T) {
	for _, code := range []codes.Code{codes.Internal, codes.Unavailable} {
		t.Run(code.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.a.Break(shardtest.Faults{Refuse: map[string]error{"UpsertGroup": shardtest.Refusal(code, "", "object storage refuses writes")}})
				w.run(10 * time.Minute)
				if n := w.a.Count("UpsertGroup"); n < 5 || n > 14 {
					t.Errorf("%d calls in ten minutes", n)
				}
				w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](3) })
				before := w.a.Count("UpsertGroup")
				w.run(time.Second)
				if n := w.a.Count("UpsertGroup"); n != before+1 {
					t.Errorf("%d calls for a new spec", n-before)
				}
				w.a.Break(shardtest.Faults{})
				w.run(6 * time.Minute)
				if o := w.object(); o.Status.ObservedGeneration != o.Generation || w.a.Group(tenant, "web").GetSize() != 3 {
					t.Errorf("the server works again, and does not know: %+v", o.Status)
				}
			})
		})
	}
}

// The same for the end of a group.
func TestO5_AFailingDeletionIsRepeatedWithGrowingPauses(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.a.Break(shardtest.Faults{Refuse: map[string]error{"DeleteGroup": shardtest.Refusal(codes.Internal, "", "no")}})
		w.Delete(name, &infrav1.NstanceShardGroup{})
		w.run(10 * time.Minute)
		if n := w.a.Count("DeleteGroup"); n < 5 || n > 14 {
			t.Errorf("%d calls in ten minutes", n)
		}
	})
}

// The template is added to the server's configuration after the pool was made: nothing
// changes in Kubernetes, and the group is made all the same.
func TestO5_ARefusedGroupIsTriedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.a.Break(shardtest.Faults{Refuse: map[string]error{"UpsertGroup": shardtest.Refusal(codes.InvalidArgument, "", "no template base")}})
		w.run(4 * time.Minute)
		if n := w.a.Count("UpsertGroup"); n != 1 {
			t.Fatalf("%d calls in four minutes", n)
		}
		valid := meta.FindStatusCondition(w.object().Status.Conditions, infrav1.ConditionConfigValid)
		if valid == nil || valid.Status != metav1.ConditionFalse || valid.Reason != infrav1.ReasonRejected {
			t.Fatalf("%+v", valid)
		}
		w.a.Break(shardtest.Faults{})
		w.run(6 * time.Minute)
		if w.a.Group(tenant, "web").GetSize() != 2 {
			t.Error("the group is not made after the server has learnt its template")
		}
	})
}

// While the API server is away, a shard that comes back is told nothing, as its object was
// last seen: neither a greater size nor a smaller one, and nobody repairs.
func TestF36_S6_AShardIsToldNothingWhileTheAPIServerIsAway(t *testing.T) {
	errAway := errors.New("connection refused")
	for what, change := range map[string]func(w *world){
		"a greater size": func(w *world) { w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](5) }) },
		"a smaller size": func(w *world) { w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](1) }) },
		"a repair": func(w *world) {
			one := int32(1)
			if _, err := w.Connected("a").UpsertGroup(w.t.Context(), &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Size: &one}}); err != nil {
				w.t.Fatal(err)
			}
			w.After(time.Second)
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.mustPass()
				change(w)
				before := w.a.Count("UpsertGroup")
				there := w.r.Live
				w.r.Live = interceptor.NewClient(w.Client, interceptor.Funcs{
					Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
						return errAway
					},
				})
				for range 20 { // the pause does not grow
					if result := w.mustPass(); result.RequeueAfter != 5*time.Second {
						t.Fatalf("looked at again after %v, want 5s", result.RequeueAfter)
					}
				}
				if n := w.a.Count("UpsertGroup") - before; n != 0 {
					t.Errorf("%d calls while the API server is away", n)
				}
				w.r.Live = there
				w.mustPass()
				if n := w.a.Count("UpsertGroup") - before; n != 1 {
					t.Errorf("%d calls since it is back, want 1", n)
				}
			})
		})
	}
}

// The same where the server says that its configuration is another one: at once.
func TestO5_ARefusedGroupIsTriedWhenTheConfigurationChanges(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.a.SetConfigDigest("without the template")
		w.After(20 * time.Second) // a heartbeat
		w.a.Break(shardtest.Faults{Refuse: map[string]error{"UpsertGroup": shardtest.Refusal(codes.InvalidArgument, "INVALID_GROUP", "no template base")}})
		w.run(time.Minute)
		if n := w.a.Count("UpsertGroup"); n != 1 {
			t.Fatalf("%d calls in a minute", n)
		}
		w.a.Break(shardtest.Faults{})
		w.a.SetConfigDigest("with the template")
		w.run(20 * time.Second)
		if w.a.Group(tenant, "web").GetSize() != 2 {
			t.Error("the group is not made within a heartbeat after the server has learnt its template")
		}
		if n := w.a.Count("UpsertGroup"); n != 2 {
			t.Errorf("%d calls", n)
		}
	})
}

// A size above the tenant's quota is said to be that, and not asked for again and again. A
// smaller one is sent at once, and the larger one as soon as the quota is raised.
func TestO5_AGroupAboveTheQuotaOfItsTenant(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.a.SetConfigDigest("2 machines")
		w.After(20 * time.Second)
		full := shardtest.Refusal(codes.ResourceExhausted, "QUOTA_EXCEEDED", "tenant default would have 3 machines, 2 are allowed")
		w.a.Break(shardtest.Faults{Refuse: map[string]error{"UpsertGroup": full}})
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](3) })
		before := w.a.Count("UpsertGroup")
		w.run(4 * time.Minute)
		if n := w.a.Count("UpsertGroup") - before; n != 1 {
			t.Errorf("%d calls in four minutes", n)
		}
		conditions := w.object().Status.Conditions
		for _, kind := range []string{infrav1.ConditionConfigValid, infrav1.ConditionReady} {
			c := meta.FindStatusCondition(conditions, kind)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != infrav1.ReasonQuotaExceeded || !strings.Contains(c.Message, "2 are allowed") {
				t.Errorf("%s: %+v", kind, c)
			}
		}
		w.a.Break(shardtest.Faults{})
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](1) })
		w.run(time.Second)
		if size := w.a.Group(tenant, "web").GetSize(); size != 1 {
			t.Errorf("size %d after it was lowered", size)
		}
		w.a.Break(shardtest.Faults{Refuse: map[string]error{"UpsertGroup": full}})
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](3) })
		w.run(2 * time.Second)
		w.a.Break(shardtest.Faults{})
		w.a.SetConfigDigest("3 machines")
		w.run(20 * time.Second)
		if size := w.a.Group(tenant, "web").GetSize(); size != 3 {
			t.Errorf("size %d after the quota was raised", size)
		}
		if c := meta.FindStatusCondition(w.object().Status.Conditions, infrav1.ConditionConfigValid); c.Status != metav1.ConditionTrue {
			t.Errorf("afterwards: %+v", c)
		}
	})
}

// A shard leaves the configuration between the look at it and the call: nothing is called, and
// the object waits.
func TestO5_AShardThatIsGoneWhenItsGroupIsToEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.Delete(name, &infrav1.NstanceShardGroup{})
		there, looks := w.r.Server, 0
		w.r.Server = func(shard string) (shardgroup.Server, bool) {
			if looks++; looks <= 3 { // from the cache, with the object past it, and all past it
				return there(shard)
			}
			var none *shards.Shard
			return none, false
		}
		w.mustPass()
		if looks != 4 {
			t.Fatalf("looked up %d times", looks)
		}
		if w.a.Count("DeleteGroup") != 0 || !w.Get(name, &infrav1.NstanceShardGroup{}) {
			t.Error("the group was deleted, or the object is gone")
		}
	})
}

// The pool of a static group is deleted: what was set through the API goes, and the group is
// again what the server's configuration says. Its instances stay.
func TestO5_TheEndOfAStaticGroupTakesItsOverridesAlong(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.a.SetStatic(tenant, "web", true)
		w.Settle("a")
		w.mustPass()
		w.Delete(name, &infrav1.NstanceShardGroup{})
		w.a.Break(shardtest.Faults{Refuse: map[string]error{"DeleteGroup": shardtest.Refusal(codes.Unavailable, "", "no")}})
		w.mustPass()
		if !w.Get(name, &infrav1.NstanceShardGroup{}) {
			t.Fatal("it is let go before the server has heard")
		}
		w.a.Break(shardtest.Faults{})
		w.run(5 * time.Second)
		if group := w.a.Group(tenant, "web"); group.GetDeleting() || group.GetDynamic() != nil || w.a.Count("DeleteGroup") != 2 {
			t.Errorf("%d calls, group %v", w.a.Count("DeleteGroup"), group)
		}
		if w.Get(name, &infrav1.NstanceShardGroup{}) || len(w.a.Instances(tenant, "web")) != 2 {
			t.Error("the object stays, or the instances go")
		}
	})
}

// What is done on a shard is in the log, with its reason; a pass that does nothing is not.
func TestDecisionsAreLogged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var lines []string
		ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
		pass := func() {
			t.Helper()
			if _, err := w.r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: testworld.Namespace, Name: name}}); err != nil {
				t.Fatal(err)
			}
			w.After(time.Second)
		}
		pass()
		pass()
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](3) })
		pass()
		want := []string{
			`"level"=0 "msg"="upserted group" "group"="web" "shard"="a" "size"=2 "was"=0 "retiring"=0 "generation"=1 "reason"="the spec has changed"`,
			`"level"=0 "msg"="upserted group" "group"="web" "shard"="a" "size"=3 "was"=2 "retiring"=0 "generation"=2 "reason"="the spec has changed"`,
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Error(diff)
		}
	})
}
