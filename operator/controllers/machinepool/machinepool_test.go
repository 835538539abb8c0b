package machinepool_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/testworld"
)

// conflict returns condition PoolConflict of the pool.
func (w *world) conflict() metav1.Condition {
	w.t.Helper()
	c := meta.FindStatusCondition(w.object().Status.Conditions, infrav1.ConditionPoolConflict)
	if c == nil {
		w.t.Fatal("there is no condition PoolConflict")
	}
	return *c
}

// Of several MachinePools that name one pool always the same one counts, in whatever order a
// cache lists them, and the others are named.
func TestO4_OfSeveralMachinePoolsTheOldestCounts(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		p := w.object()
		w.Delete("web", &clusterv1.MachinePool{})
		for i, name := range []string{"oldest", "a-younger", "z-younger"} {
			machinePool := capi.MachinePool(p, name, testworld.Cluster, int32(i+1))
			machinePool.CreationTimestamp = metav1.Now()
			w.Create(machinePool)
			w.After(time.Second)
		}
		for _, turn := range []func([]clusterv1.MachinePool){func([]clusterv1.MachinePool) {}, slices.Reverse[[]clusterv1.MachinePool]} {
			w.pool.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					err := c.List(ctx, list, options...)
					if machinePools, ok := list.(*clusterv1.MachinePoolList); ok {
						turn(machinePools.Items)
					}
					return err
				},
			})
			w.settle()
			if n := *w.object().Status.DesiredReplicas; n != 1 {
				t.Errorf("replicas %d of another MachinePool count", n)
			}
			c := w.conflict()
			if c.Reason != infrav1.ReasonSeveralMachinePools || !strings.Contains(c.Message, "oldest decides") || !strings.Contains(c.Message, "a-younger, z-younger") {
				t.Errorf("condition %+v", c)
			}
		}
		w.Delete("a-younger", &clusterv1.MachinePool{})
		w.Delete("z-younger", &clusterv1.MachinePool{})
		w.settle()
		if c := w.conflict(); c.Status != metav1.ConditionFalse {
			t.Errorf("afterwards %+v", c)
		}
	})
}

// Where both names that a MachinePool would get belong to others, somebody has to know.
func TestO4_APoolWhoseMachinePoolCannotBeMadeSaysSo(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.Delete("web", &clusterv1.MachinePool{})
		elsewhere := &infrav1.NstanceMachinePool{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}
		for _, name := range []string{"web", capi.Taken("web")} {
			w.Create(capi.MachinePool(elsewhere, name, testworld.Cluster, 1))
		}
		w.After(time.Minute)
		for range 3 {
			w.round()
		}
		c := w.conflict()
		if c.Status != metav1.ConditionTrue || c.Reason != infrav1.ReasonMachinePoolNameTaken || !strings.Contains(c.Message, "web and "+capi.Taken("web")) {
			t.Errorf("condition %+v", c)
		}
		if n := w.told("PoolConflict: "); n != 1 {
			t.Errorf("%d events", n)
		}
	})
}

// A cache that has not heard of the MachinePool that was just made must not lead to a second.
func TestO4_OneMachinePoolIsMadeAlthoughTheCacheIsBehind(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.Delete("web", &clusterv1.MachinePool{})
		w.After(time.Minute)
		w.pool.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if _, ok := list.(*clusterv1.MachinePoolList); ok {
					return nil // behind
				}
				return c.List(ctx, list, options...)
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if _, ok := o.(*clusterv1.MachinePool); ok {
					return notFound
				}
				return c.Get(ctx, key, o, options...)
			},
		})
		for range 2 {
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
		}
		var list clusterv1.MachinePoolList
		if err := w.Client.List(t.Context(), &list); err != nil || len(list.Items) != 1 {
			t.Errorf("%d MachinePools, %v", len(list.Items), err)
		}
	})
}

// told returns how many events begin with a text.
func (w *world) told(start string) (n int) {
	for _, said := range w.Events.All() {
		if strings.HasPrefix(said, start) {
			n++
		}
	}
	return n
}

var notFound = apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("machinepools").GroupResource(), "web")

// A change of sizes is in the log with its reason, and so is whom it takes; a settled pool is
// silent.
func TestDecisionsAreLogged(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var lines []string
		ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
		pass := func() []string {
			t.Helper()
			lines = nil
			if _, err := w.pool.Reconcile(ctx, key("web")); err != nil {
				t.Fatal(err)
			}
			slices.Sort(lines)
			return lines
		}
		want := []string{
			`"level"=0 "msg"="resized group" "group"="web" "shard"="a" "size"=2 "was"=0 "generation"=0 "reason"="web 0→3: a 0→2, b 0→1"`,
			`"level"=0 "msg"="resized group" "group"="web" "shard"="b" "size"=1 "was"=0 "generation"=0 "reason"="web 0→3: a 0→2, b 0→1"`,
			`"level"=0 "msg"="scaling pool" "group"="web" "machine_pool"="web" "generation"=0 "replicas"=3 "reason"="web 0→3: a 0→2, b 0→1"`,
		}
		if diff := cmp.Diff(want, pass()); diff != "" {
			t.Error(diff)
		}
		w.settle()
		if said := pass(); said != nil {
			t.Errorf("a settled pool: %q", said)
		}
		w.scale(2)
		if said := strings.Join(pass(), "\n"); !strings.Contains(said, `"msg"="selected instance for deletion" "instance"=`) {
			t.Errorf("a pool that gets smaller: %s", said)
		}
	})
}
