package machinepool_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/testworld"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestO6_FiveInstancesAreFiveMachines(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		w.settle()
		if a, b := w.shardGroup("a").Spec.SizeOrZero(), w.shardGroup("b").Spec.SizeOrZero(); a != 3 || b != 2 {
			t.Errorf("sizes %d and %d, want 3 and 2", a, b)
		}
		for _, id := range w.instances() {
			infraMachine := &infrav1.NstanceMachine{}
			if !w.Get(id, infraMachine) {
				t.Fatalf("instance %s has no NstanceMachine", id)
			}
			if infraMachine.Labels[clusterv1.MachinePoolNameLabel] != "web" || metav1.GetControllerOf(infraMachine) != nil {
				t.Errorf("labels %v, owners %v: Cluster API would not take it", infraMachine.Labels, infraMachine.OwnerReferences)
			}
			if !slices.Contains(infraMachine.Finalizers, infrav1.FinalizerMachine) {
				t.Errorf("NstanceMachine %s can be deleted before anybody has ended its instance (S6)", id)
			}
		}
		p := w.object()
		if !p.Status.Ready || !p.Status.Initialization.Provisioned || p.Status.Replicas != 5 || len(p.Spec.ProviderIDList) != 5 {
			t.Errorf("status %+v, list %v", p.Status, p.Spec.ProviderIDList)
		}
		if p.Spec.ProviderID != "nstance://example/default/web" || p.Status.InfrastructureMachineKind != "NstanceMachine" {
			t.Errorf("provider id %q, kind %q", p.Spec.ProviderID, p.Status.InfrastructureMachineKind)
		}
		for _, want := range []struct {
			condition string
			status    metav1.ConditionStatus
		}{
			{infrav1.ConditionReady, metav1.ConditionTrue}, {infrav1.ConditionScaling, metav1.ConditionFalse},
			{infrav1.ConditionNodesJoined, metav1.ConditionTrue}, {infrav1.ConditionProviderIDsUnique, metav1.ConditionTrue},
		} {
			if c := meta.FindStatusCondition(p.Status.Conditions, want.condition); c == nil || c.Status != want.status {
				t.Errorf("%s is %+v, want %s", want.condition, c, want.status)
			}
		}
	})
}

func TestO6_TheNamedInstanceGoesAndNoOther(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		p := &infrav1.NstanceMachinePool{}
		w.Change("web", p, func() { p.Spec.Rebalance = infrav1.RebalanceNever })
		w.settle()
		before := w.instances()
		victim := w.Shard("b").Instances(tenant, "web")[1].GetInstanceId() // the youngest of b
		w.mark(victim)
		w.scale(4)
		w.settle()
		want := slices.DeleteFunc(slices.Clone(before), func(id string) bool { return id == victim })
		if diff := cmp.Diff(want, w.instances()); diff != "" {
			t.Error(diff)
		}
		if a, b := w.shardGroup("a").Spec, w.shardGroup("b").Spec; a.SizeOrZero() != 3 || b.SizeOrZero() != 1 || len(b.Retiring) != 0 {
			t.Errorf("parts %+v and %+v", a, b)
		}
		if a, b := w.Shard("a").Group(tenant, "web").GetSize(), w.Shard("b").Group(tenant, "web").GetSize(); a != 3 || b != 1 {
			t.Errorf("the servers have sizes %d and %d", a, b)
		}
	})
}

// The autoscaler marks a Machine and lowers the size at once; the cache has only heard of
// the size.
func TestO6_AMarkThatTheCacheHasNotHeardOf(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.settle()
		var stale clusterv1.MachineList
		if err := w.Client.List(t.Context(), &stale); err != nil {
			t.Fatal(err)
		}
		w.pool.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if machines, ok := list.(*clusterv1.MachineList); ok {
					*machines = *stale.DeepCopy()
					return nil
				}
				return c.List(ctx, list, options...)
			},
		})
		victim := w.Shard("a").Instances(tenant, "web")[1].GetInstanceId()
		w.mark(victim)
		w.scale(3)
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{victim}, w.shardGroup("a").Spec.Retiring); diff != "" {
			t.Error(diff)
		}
	})
}

func TestO6_ACrashBetweenThePartAndTheMachine(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.settle()
		healthy := w.pool.Client
		w.pool.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				return errors.New("the operator is killed")
			},
		})
		w.scale(3)
		if _, err := w.pass(); err == nil {
			t.Fatal("nothing was deleted, and that is no error")
		}
		retiring := slices.Concat(w.shardGroup("a").Spec.Retiring, w.shardGroup("b").Spec.Retiring)
		if len(retiring) != 1 {
			t.Fatalf("retiring %v", retiring)
		}
		w.pool.Client = healthy
		w.settle()
		if ids := w.instances(); len(ids) != 3 || slices.Contains(ids, retiring[0]) {
			t.Errorf("%v are left, %v was to go", ids, retiring)
		}
	})
}

func TestO6_AConflictIsPlannedAnew(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.settle()
		healthy := w.pool.Client
		failed := false
		w.pool.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if _, ok := object.(*infrav1.NstanceShardGroup); ok && !failed {
					failed = true
					return apierrors.NewConflict(infrav1.GroupVersion.WithResource("nstanceshardgroups").GroupResource(), object.GetName(), nil)
				}
				return c.Patch(ctx, object, patch, options...)
			},
		})
		w.scale(3)
		if _, err := w.pass(); !apierrors.IsConflict(err) { // so that it is planned again
			t.Errorf("got %v, want a conflict", err)
		}
		w.pool.Client = healthy
		w.settle()
		if n := len(w.instances()); n != 3 {
			t.Errorf("%d instances, want 3", n)
		}
	})
}

// A cache that is behind does not say that an instance is gone: with its provider id its
// Node would go. That of the pool may be behind as well as that of its shard groups, and as far.
func TestO7_AStaleCacheCostsNoNode(t *testing.T) {
	for name, c := range map[string]struct{ shardGroup, pool int }{
		"the parts had none":                       {0, 2},
		"the parts had none, nor had the pool":     {0, 0},
		"the parts had one, and the pool had none": {1, 0},
		"both had one":                             {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(t *testing.T, w *world) {
				w.settle()
				w.pool.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
					List: func(ctx context.Context, k client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
						err := k.List(ctx, list, options...)
						if shardGroups, ok := list.(*infrav1.NstanceShardGroupList); ok {
							for i := c.shardGroup; i < len(shardGroups.Items); i++ { // each has one
								shardGroups.Items[i].Status.ProviderIDs = nil
							}
						}
						return err
					},
					Get: func(ctx context.Context, k client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
						err := k.Get(ctx, key, object, options...)
						if pool, ok := object.(*infrav1.NstanceMachinePool); ok {
							pool.Spec.ProviderIDList = pool.Spec.ProviderIDList[:c.pool]
						}
						return err
					},
				})
				if _, err := w.pass(); err != nil {
					t.Fatal(err)
				}
				if n := len(w.object().Spec.ProviderIDList); n != 2 {
					t.Errorf("%d provider ids are left of 2", n)
				}
			})
		})
	}
}

func TestO9_AFailedHealthCheckReplacesOne(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.settle()
		before := w.instances()
		for _, id := range before { // all at once
			machine := &clusterv1.Machine{}
			w.Get(id, machine)
			for _, c := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
				meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionFalse, Reason: "X"})
			}
			if err := w.Client.Status().Update(t.Context(), machine); err != nil {
				t.Fatal(err)
			}
		}
		w.round()
		w.core()
		w.Settle("a", "b")
		left := slices.DeleteFunc(w.instances(), func(id string) bool { return !slices.Contains(before, id) })
		if len(left) != 3 || len(w.instances()) != 4 {
			t.Errorf("%v are left of %v; now there are %v", left, before, w.instances())
		}
	})
}

// A cache that has not heard of the end of the first machine does not end another one.
func TestO9_ACacheThatIsBehindReplacesNoMore(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.settle()
		w.pool.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				if machines, ok := list.(*clusterv1.MachineList); ok {
					for i := range machines.Items {
						machines.Items[i].DeletionTimestamp = nil
					}
				}
				return err
			},
		})
		for _, id := range slices.Backward(w.instances()) { // the later one comes first in order
			machine := &clusterv1.Machine{}
			w.Get(id, machine)
			machine.Finalizers = []string{clusterv1.MachineFinalizer} // Cluster API takes its time
			if err := w.Client.Update(t.Context(), machine); err != nil {
				t.Fatal(err)
			}
			for _, c := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
				meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionFalse, Reason: "X"})
			}
			if err := w.Client.Status().Update(t.Context(), machine); err != nil {
				t.Fatal(err)
			}
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
		}
		var machines clusterv1.MachineList
		if err := w.Client.List(t.Context(), &machines); err != nil {
			t.Fatal(err)
		}
		deleting := slices.DeleteFunc(slices.Clone(machines.Items), func(m clusterv1.Machine) bool { return m.DeletionTimestamp.IsZero() })
		if len(deleting) != 1 {
			t.Errorf("%d of %d machines are being deleted, want 1", len(deleting), len(machines.Items))
		}
	})
}

// An on-demand instance looks like one of the group until a listing tells what it is.
func TestO6_AnInstanceThatNoListingHasToldOfIsLeftAlone(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.settle()
		id, err := identity.NewID("wrk")
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Connected("a").CreateInstance(t.Context(), &nstancev1.CreateInstanceRequest{
			InstanceId: ptr.To(id.String()), Config: &nstancev1.InstanceConfig{Group: "web"},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.After(time.Millisecond) // the event is there, and no listing
		w.scale(1)
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		w.partsPass()
		if w.Get(id.String(), &infrav1.NstanceMachine{}) {
			t.Error("it is shown as a machine of the pool")
		}
		if shardGroup := w.shardGroup("a"); len(shardGroup.Spec.Retiring) > 0 || shardGroup.Status.Pending != 0 {
			t.Errorf("retiring %v, %d pending", shardGroup.Spec.Retiring, shardGroup.Status.Pending)
		}
		w.Settle("a", "b")
		w.settle()
		if ids := w.instances(); len(ids) != 2 || !slices.Contains(ids, id.String()) {
			t.Errorf("%v are there, want one of the group and %s", ids, id)
		}
	})
}

// A shard that was away since this process began has said nothing yet. The machines say
// what it has.
func TestO6_ANamedInstanceOfAShardThatHasSaidNothing(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.settle()
		store := inventory.NewStore(tenant, nil)
		store.Configure([]string{"a", "b"})
		store.Update("a", func(s *inventory.Shard) []inventory.Change {
			s.Connected(1, time.Now())
			s.ListedGroups(inventory.GroupList{Groups: []*nstancev1.GroupStatus{w.Shard("a").Group(tenant, "web")}, Asked: time.Now()}, time.Now())
			return s.ListedInstances(inventory.InstanceList{Instances: w.Shard("a").Instances(tenant, "web"), Complete: true, Asked: time.Now()}, time.Now())
		})
		w.pool.Inventory = store
		w.pool.Connection = func(shard string) (shards.Status, bool) {
			if shard == "b" {
				return shards.Status{State: shards.Connecting}, true
			}
			return w.Connection(shard)
		}
		victim := w.Shard("b").Instances(tenant, "web")[1].GetInstanceId()
		w.mark(victim)
		w.scale(3)
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		if a, b := w.shardGroup("a").Spec.Retiring, w.shardGroup("b").Spec.Retiring; len(a) > 0 || !slices.Equal(b, []string{victim}) {
			t.Errorf("%v and %v go, want %s", a, b, victim)
		}
	})
}

func TestAPoolGetsAMachinePool(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.settle()
		machinePool := &clusterv1.MachinePool{}
		w.Delete("web", machinePool)
		w.After(time.Minute)
		w.settle()
		if !w.Get("web", machinePool) || *machinePool.Spec.Replicas != 3 || machinePool.Spec.Template.Spec.Bootstrap.DataSecretName == nil {
			t.Errorf("MachinePool %+v", machinePool.Spec)
		}
	})
}

func TestAPoolWaitsForTheOneThatWasFirst(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.settle()
		second := &infrav1.NstanceMachinePool{
			ObjectMeta: metav1.ObjectMeta{Name: "again", UID: "again-uid", CreationTimestamp: metav1.Now()},
			Spec:       infrav1.NstanceMachinePoolSpec{Group: "web", Shards: []string{"b"}},
		}
		w.Create(second)
		w.Create(capi.MachinePool(second, "again", testworld.Cluster, 9))
		if _, err := w.pool.Reconcile(t.Context(), key("again")); err != nil {
			t.Fatal(err)
		}
		w.Get("again", second)
		if !meta.IsStatusConditionTrue(second.Status.Conditions, infrav1.ConditionPoolConflict) || w.shardGroup("b").Spec.SizeOrZero() != 1 {
			t.Errorf("conditions %v, size %d", second.Status.Conditions, w.shardGroup("b").Spec.SizeOrZero())
		}
	})
}
