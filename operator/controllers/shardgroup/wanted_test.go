package shardgroup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
)

// wants sets the size that somebody wants of the pool, as kubectl scale does.
func (w *world) wants(replicas int32) {
	w.t.Helper()
	if w.Get("web", &clusterv1.MachinePool{}) {
		pool := &clusterv1.MachinePool{}
		w.Change("web", pool, func() { pool.Spec.Replicas = &replicas })
		return
	}
	pool := &infrav1.NstanceMachinePool{}
	w.Get("web", pool)
	w.Create(capi.MachinePool(pool, "web", testworld.Cluster, replicas))
}

func (w *world) expectSize(want int32) {
	w.t.Helper()
	if size := w.a.Group(tenant, "web").GetSize(); size != want {
		w.t.Errorf("the server has size %d, want %d", size, want)
	}
}

// A pool grows and shrinks again while its shard is out of sight, so the smaller size is not
// written yet: no instance of such a shard is chosen. When the shard is back it is not told the
// greater size first. Neither is it by an operator that has just begun.
func TestS5_AShardIsNotToldASizeThatNobodyWantsAnyMore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.wants(2)
		w.mustPass()
		w.Settle("a")
		w.a.Break(away)
		w.After(time.Minute)
		w.wants(5)
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](5) })
		w.mustPass()
		w.wants(1)
		w.mustPass()
		w.a.Break(shardtest.Faults{})
		w.After(5 * time.Minute)
		w.run(time.Minute)
		w.expectSize(2)
		if again := w.mustPass().RequeueAfter; again != 5*time.Second {
			t.Errorf("looked at again after %v, want 5s", again)
		}

		w.wants(4)
		w.run(time.Second)
		w.expectSize(2) // 4 of the pool's 5 are wanted, and the pool has not written so
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](4) })
		w.mustPass()
		w.expectSize(4)
	})
}

// The first size of a group is no exception.
func TestS5_AGroupIsNotMadeWithASizeThatNobodyWantsAnyMore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.wants(1)
		w.run(time.Minute)
		if n := w.a.Count("UpsertGroup"); n != 0 {
			t.Errorf("%d calls", n)
		}
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](1) })
		w.mustPass()
		w.expectSize(1)
	})
}

// What the pool wants is what the API server has. While that does not answer, no group grows.
func TestS5_F36_NoGroupGrowsWhileNobodySaysWhatIsWanted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.wants(2)
		w.r.Live = interceptor.NewClient(w.Client, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, ok := o.(*clusterv1.MachinePool); ok {
					return errors.New("the API server is away")
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
		if again := w.mustPass().RequeueAfter; again != 5*time.Second {
			t.Errorf("looked at again after %v, want 5s", again)
		}
		if n := w.a.Count("UpsertGroup"); n != 0 {
			t.Errorf("%d calls", n)
		}
		w.r.Live = interceptor.NewClient(w.Client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, all := list.(*clusterv1.MachinePoolList); all {
					t.Error("every MachinePool is read from the API server for the growth of one")
				}
				return c.List(ctx, list, opts...)
			},
		})
		w.mustPass()
		w.expectSize(2)
	})
}

// The cache may be behind: what counts is the size that the API server has.
func TestS5_TheSizeThatIsWantedIsNotThatOfTheCache(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.wants(2)
		behind := &clusterv1.MachinePool{}
		w.Get("web", behind)
		w.r.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				pools, ok := list.(*clusterv1.MachinePoolList)
				if !ok {
					return c.List(ctx, list, o...)
				}
				pools.Items = []clusterv1.MachinePool{*behind}
				return nil
			},
		})
		w.wants(1)
		w.mustPass()
		if n := w.a.Count("UpsertGroup"); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
}

// A cache that does not know yet that the shard is one of the pool's, or that there is the pool, allows no size.
func TestS5_ACacheWithoutTheShardAllowsNoSize(t *testing.T) {
	for name, read := range map[string]func(*infrav1.NstanceMachinePool) error{
		"another shard": func(pool *infrav1.NstanceMachinePool) error { pool.Spec.Shards = []string{"b"}; return nil },
		"no pool": func(pool *infrav1.NstanceMachinePool) error {
			return apierrors.NewNotFound(infrav1.GroupVersion.WithResource("nstancemachinepools").GroupResource(), pool.Name)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.wants(1)
				w.r.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
						if err := c.Get(ctx, key, o, opts...); err != nil {
							return err
						}
						if pool, ok := o.(*infrav1.NstanceMachinePool); ok {
							return read(pool)
						}
						return nil
					},
				})
				w.mustPass()
				if n := w.a.Count("UpsertGroup"); n != 0 {
					t.Errorf("%d calls", n)
				}
			})
		})
	}
}

// What the other shards of the pool have leaves less for this one, once they have it.
func TestS5_TheOtherShardsOfThePoolCount(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pool := &infrav1.NstanceMachinePool{}
		w.Change("web", pool, func() { pool.Spec.Shards = []string{"a", "b"} })
		w.wants(3)
		other := w.object().DeepCopy()
		other.ObjectMeta = metav1.ObjectMeta{Name: "web--b", Labels: other.Labels, OwnerReferences: other.OwnerReferences}
		other.Spec.Shard, other.Spec.Size = "b", ptr.To[int32](2)
		w.Create(other)
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](3) })
		w.mustPass()
		if n := w.a.Count("UpsertGroup"); n != 0 {
			t.Errorf("%d calls, and 2 of 3 are this shard's at most", n)
		}
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](2) })
		w.mustPass()
		w.expectSize(2)
	})
}

// A group without a pool has the size of its spec. The API server is asked for nothing without a name.
func TestO5_AGroupWithoutAPoolGrows(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.edit(func(o *infrav1.NstanceShardGroup) { o.OwnerReferences = nil })
		w.r.Live = interceptor.NewClient(w.Client, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if key.Name == "" {
					return errors.New("resource name may not be empty")
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
		w.mustPass()
		w.expectSize(2)
	})
}
