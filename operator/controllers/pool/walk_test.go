package pool_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/controltest"
	"nstance.dev/operator/controllers/pool"
	"nstance.dev/operator/controllers/shardgroup"
	"nstance.dev/operator/controllers/walktest"
	"nstance.dev/operator/cooloff"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = walktest.Tenant

// world has the controllers of pools and of their parts, and does what Cluster API and the
// controller of machines do with what these make.
type world struct {
	*controltest.World
	pool  *pool.Reconciler
	parts *shardgroup.Reconciler
	t     *testing.T
}

// inWorld runs a test with a pool web on shards a and b and its MachinePool.
func inWorld(t *testing.T, replicas int32, test func(t *testing.T, w *world)) {
	t.Helper()
	controltest.Run(t, []string{"a", "b"}, func(t *testing.T, k *controltest.World) {
		coolOff := &cooloff.Store{}
		w := &world{World: k, t: t}
		w.pool = &pool.Reconciler{
			Client: k.Client, Live: k.Client, Inventory: k.Inventory, CoolOff: coolOff, Events: k.Events, Now: time.Now,
			Cluster: controltest.Cluster, ClusterID: "example", Tenant: tenant, AsMachines: true, RedirectAfter: time.Minute,
			Connection: k.Connection,
		}
		w.parts = &shardgroup.Reconciler{
			Client: k.Client, Live: k.Client, Inventory: k.Inventory, CoolOff: coolOff, Events: k.Events, Now: time.Now,
			Server: func(shard string) (shardgroup.Server, bool) {
				s, ok := k.Set.Shard(shard)
				return s, ok
			},
		}
		p := &infrav1.NstanceMachinePool{
			ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web-uid", Generation: 1, CreationTimestamp: metav1.Now()},
			Spec:       infrav1.NstanceMachinePoolSpec{Group: "web", Shards: []string{"a", "b"}, Template: "base"},
		}
		w.Create(p)
		w.Create(pool.MachinePool(p, "web", controltest.Cluster, replicas))
		test(t, w)
	})
}

func key(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: walktest.Namespace, Name: name}}
}

// pass makes one pass of the pool's controller.
func (w *world) pass() (ctrl.Result, error) {
	w.t.Helper()
	return w.pool.Reconcile(context.Background(), key("web"))
}

// round lets everybody do what there is to do.
func (w *world) round() {
	w.t.Helper()
	if _, err := w.pass(); err != nil {
		w.t.Fatal(err)
	}
	w.partsPass()
	w.core()
	w.Settle("a", "b")
}

// settle makes rounds until nothing can be left to do.
func (w *world) settle() {
	w.t.Helper()
	for range 3 {
		w.round()
	}
}

func (w *world) partsPass() {
	w.t.Helper()
	var list infrav1.NstanceShardGroupList
	if err := w.Client.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}
	for _, part := range list.Items {
		part.Generation++ // the server in memory does not count; one call more does no harm
		if err := w.Client.Update(context.Background(), &part); err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.parts.Reconcile(context.Background(), key(part.Name)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.After(time.Millisecond)
}

// core makes a Machine for each NstanceMachine, whose Node is ready at once, and ends the
// instances of those that are deleted.
func (w *world) core() {
	w.t.Helper()
	var mirrors infrav1.NstanceMachineList
	if err := w.Client.List(context.Background(), &mirrors); err != nil {
		w.t.Fatal(err)
	}
	for _, mirror := range mirrors.Items {
		machine := &clusterv1.Machine{}
		if w.Get(mirror.Name, machine) {
			if !machine.DeletionTimestamp.IsZero() {
				w.ended(machine, &mirror)
			}
			continue
		}
		machine = &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Name: mirror.Name, Labels: maps.Clone(mirror.Labels), Finalizers: []string{clusterv1.MachineFinalizer}},
			Spec:       clusterv1.MachineSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{Name: mirror.Name}},
		}
		w.Create(machine)
		machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "node-" + mirror.Name}
		machine.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "NodeReady", LastTransitionTime: metav1.Now(),
		}}
		if err := w.Client.Status().Update(context.Background(), machine); err != nil {
			w.t.Fatal(err)
		}
	}
}

// ended is what becomes of a Machine that was deleted, once its Node is empty.
func (w *world) ended(machine *clusterv1.Machine, mirror *infrav1.NstanceMachine) {
	w.t.Helper()
	part := &infrav1.NstanceShardGroup{}
	w.Get("web--"+mirror.Spec.Shard, part)
	_, err := w.Connected(mirror.Spec.Shard).DeleteInstance(context.Background(), "web", &nstancev1.DeleteInstanceRequest{
		InstanceId: mirror.Name, DecrementSize: slices.Contains(part.Spec.Retiring, mirror.Name), SkipDrain: true,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.Client.Delete(context.Background(), mirror); err != nil {
		w.t.Fatal(err)
	}
	machine.Finalizers = nil
	if err := w.Client.Update(context.Background(), machine); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) scale(n int32) {
	w.t.Helper()
	machinePool := &clusterv1.MachinePool{}
	w.Change("web", machinePool, func() { machinePool.Spec.Replicas = ptr.To(n) })
}

// names returns the ids of all running instances, sorted.
func (w *world) instances() []string {
	var ids []string
	for _, shard := range []string{"a", "b"} {
		for _, in := range w.Shard(shard).Instances(tenant, "web") {
			ids = append(ids, in.GetInstanceId())
		}
	}
	slices.Sort(ids)
	return ids
}

func (w *world) object() *infrav1.NstanceMachinePool {
	w.t.Helper()
	p := &infrav1.NstanceMachinePool{}
	if !w.Get("web", p) {
		w.t.Fatal("the pool is gone")
	}
	return p
}

func (w *world) part(shard string) *infrav1.NstanceShardGroup {
	w.t.Helper()
	part := &infrav1.NstanceShardGroup{}
	if !w.Get("web--"+shard, part) {
		w.t.Fatalf("there is no part on %s", shard)
	}
	return part
}

// mark names a Machine as the one that is to go, as the autoscaler does.
func (w *world) mark(id string) {
	w.t.Helper()
	machine := &clusterv1.Machine{}
	w.Change(id, machine, func() {
		metav1.SetMetaDataAnnotation(&machine.ObjectMeta, clusterv1.DeleteMachineAnnotation, time.Now().String())
	})
}

func TestO6_FiveInstancesAreFiveMachines(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		w.settle()
		if a, b := w.part("a").Spec.Size, w.part("b").Spec.Size; a != 3 || b != 2 {
			t.Errorf("sizes %d and %d, want 3 and 2", a, b)
		}
		for _, id := range w.instances() {
			mirror := &infrav1.NstanceMachine{}
			if !w.Get(id, mirror) {
				t.Fatalf("instance %s has no NstanceMachine", id)
			}
			if mirror.Labels[clusterv1.MachinePoolNameLabel] != "web" || metav1.GetControllerOf(mirror) != nil {
				t.Errorf("labels %v, owners %v: Cluster API would not take it", mirror.Labels, mirror.OwnerReferences)
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
		if a, b := w.part("a").Spec, w.part("b").Spec; a.Size != 3 || b.Size != 1 || len(b.Retiring) != 0 {
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
		if diff := cmp.Diff([]string{victim}, w.part("a").Spec.Retiring); diff != "" {
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
		retiring := slices.Concat(w.part("a").Spec.Retiring, w.part("b").Spec.Retiring)
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
		result, err := w.pass()
		if err != nil || result.RequeueAfter != time.Millisecond {
			t.Errorf("%+v, %v; want another pass at once", result, err)
		}
		w.pool.Client = healthy
		w.settle()
		if n := len(w.instances()); n != 3 {
			t.Errorf("%d instances, want 3", n)
		}
	})
}

// A cache that is behind does not say that an instance is gone: with its provider id its
// Node would go.
func TestO7_AStaleCacheCostsNoNode(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.settle()
		w.pool.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				if parts, ok := list.(*infrav1.NstanceShardGroupList); ok {
					for i := range parts.Items {
						parts.Items[i].Status.ProviderIDs = nil
					}
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
		leaving := slices.DeleteFunc(slices.Clone(machines.Items), func(m clusterv1.Machine) bool { return m.DeletionTimestamp.IsZero() })
		if len(leaving) != 1 {
			t.Errorf("%d of %d machines are leaving, want 1", len(leaving), len(machines.Items))
		}
	})
}

func TestO5_APoolEndsWithItsInstances(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.settle()
		w.Told()
		w.Delete("web", &infrav1.NstanceMachinePool{})
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		if events := w.Told(); !slices.Contains(events, "DeletingInstances: NstanceMachinePool: 3 instances end with the pool") {
			t.Errorf("events %q", events)
		}
		for range 4 {
			w.partsPass()
			w.Settle("a", "b")
			for _, id := range w.mirrors() { // the servers have deleted the instances
				if err := w.Client.Delete(t.Context(), &infrav1.NstanceMachine{ObjectMeta: metav1.ObjectMeta{Namespace: walktest.Namespace, Name: id}}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
		}
		if w.Get("web", &infrav1.NstanceMachinePool{}) || w.Shard("a").Group(tenant, "web") != nil || w.Shard("b").Group(tenant, "web") != nil {
			t.Error("the pool, or a group of it, is still there")
		}
	})
}

func (w *world) mirrors() []string {
	w.t.Helper()
	var list infrav1.NstanceMachineList
	if err := w.Client.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, mirror := range list.Items {
		names = append(names, mirror.Name)
	}
	return names
}

func TestO5_AnOrphanedPoolLeavesItsInstances(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.settle()
		before := w.instances()
		p := &infrav1.NstanceMachinePool{}
		w.Change("web", p, func() { p.Spec.DeletionPolicy = infrav1.DeletionOrphan })
		w.Delete("web", p)
		ended := map[string]map[string]string{} // annotations of Machines when they were deleted
		w.pool.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				if machine := (&clusterv1.Machine{}); w.Get(object.GetName(), machine) && machine.DeletionTimestamp.IsZero() {
					if _, ok := object.(*clusterv1.Machine); ok {
						ended[machine.Name] = machine.Annotations
					}
				}
				return c.Delete(ctx, object, options...)
			},
		})
		for range 4 {
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			w.partsPass()
		}
		if w.Get("web", p) || len(w.mirrors()) > 0 {
			t.Error("the pool, or what showed its instances, is still there")
		}
		for _, id := range before { // Cluster API would have emptied and deleted their Nodes
			if w.Get(id, &clusterv1.Machine{}) {
				t.Errorf("Machine %s is still there", id)
			}
		}
		for id, was := range ended {
			if _, paused := was[clusterv1.PausedAnnotation]; !paused {
				t.Errorf("Machine %s was deleted for Cluster API to see", id)
			}
		}
		if diff := cmp.Diff(before, w.instances()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestO3_WhatAPoolLeavesIsWrittenDownFirst(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.settle()
		cluster := &infrav1.NstanceCluster{ObjectMeta: metav1.ObjectMeta{
			Name: controltest.Cluster, Annotations: map[string]string{infrav1.AnnotationLeftGroups: "api--a"},
		}}
		w.Create(cluster)
		p := &infrav1.NstanceMachinePool{}
		w.Change("web", p, func() { p.Spec.DeletionPolicy = infrav1.DeletionOrphan })
		w.Delete("web", p)
		healthy := w.pool.Client
		w.pool.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if _, ok := object.(*infrav1.NstanceCluster); ok {
					return apierrors.NewConflict(infrav1.GroupVersion.WithResource("nstanceclusters").GroupResource(), object.GetName(), nil)
				}
				return c.Patch(ctx, object, patch, options...)
			},
		})
		if result, err := w.pass(); err != nil || result.RequeueAfter != time.Millisecond || !w.part("a").DeletionTimestamp.IsZero() {
			t.Errorf("%+v, %v, %+v: nothing ends before that is written", result, err, w.part("a").DeletionTimestamp)
		}
		w.pool.Client = healthy
		for range 3 {
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			w.partsPass()
		}
		w.Get(controltest.Cluster, cluster)
		if left := cluster.Annotations[infrav1.AnnotationLeftGroups]; w.Get("web", p) || left != "api--a,web--a,web--b" {
			t.Errorf("left %q, and the pool may be still there", left)
		}
	})
}

// What is moved to another management cluster is deleted here, with all its annotations
// replaced and with nobody paused any more; its instances are not.
func TestO16_APoolThatIsMovedLosesNothing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.settle()
		before := w.instances()
		move := func(name string, object client.Object) {
			w.Change(name, object, func() { object.SetAnnotations(map[string]string{infrav1.AnnotationDeleteForMove: ""}) })
			w.Delete(name, object)
		}
		move("web", &infrav1.NstanceMachinePool{})
		move("web--a", &infrav1.NstanceShardGroup{})
		move("web--b", &infrav1.NstanceShardGroup{})
		for range 2 {
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			w.partsPass()
			w.Settle("a", "b")
		}
		if diff := cmp.Diff(before, w.instances()); diff != "" || w.Shard("a").Group(tenant, "web").GetDeleting() {
			t.Error("instances, or their group, are gone", diff)
		}
		if len(w.object().Finalizers) == 0 || len(w.part("a").Finalizers) == 0 {
			t.Error("whoever moves takes the finalizers off")
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
		if part := w.part("a"); len(part.Spec.Retiring) > 0 || part.Status.Pending != 0 {
			t.Errorf("retiring %v, %d pending", part.Spec.Retiring, part.Status.Pending)
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
		if a, b := w.part("a").Spec.Retiring, w.part("b").Spec.Retiring; len(a) > 0 || !slices.Equal(b, []string{victim}) {
			t.Errorf("%v and %v go, want %s", a, b, victim)
		}
	})
}

// The API server locks the template of a pool as long as its status says that it is
// static.
func TestO5_AReleasedPoolGetsItsTemplate(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		for _, shard := range []string{"a", "b"} {
			w.Shard(shard).AddGroup(tenant, shardtest.Group{Key: "web", Template: "theirs", Static: true})
		}
		w.Settle("a", "b")
		p := &infrav1.NstanceMachinePool{}
		w.Change("web", p, func() { p.Spec.Template = "" })
		w.settle()
		if !w.object().Status.IsStatic {
			t.Fatal("the pool is not static")
		}
		w.pool.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if next, ok := object.(*infrav1.NstanceMachinePool); ok && next.Spec.Template != "" && w.object().Status.IsStatic {
					return apierrors.NewInvalid(infrav1.GroupVersion.WithKind(infrav1.KindMachinePool).GroupKind(), "web", nil)
				}
				return c.Patch(ctx, object, patch, options...)
			},
		})
		for _, shard := range []string{"a", "b"} {
			w.Shard(shard).SetStatic(tenant, "web", false)
		}
		w.Settle("a", "b")
		w.settle()
		if p := w.object(); p.Spec.Template != "theirs" || p.Status.IsStatic || p.Annotations[infrav1.AnnotationReleasedTemplate] != "" {
			t.Errorf("template %q, static %v, annotations %v", p.Spec.Template, p.Status.IsStatic, p.Annotations)
		}
	})
}

func TestO16_APausedPoolChangesNothing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.settle()
		cluster := &clusterv1.Cluster{}
		w.Change(controltest.Cluster, cluster, func() { cluster.Spec.Paused = ptr.To(true) })
		w.scale(0)
		w.Delete("web", &infrav1.NstanceMachinePool{})
		w.settle()
		if n := len(w.instances()); n != 3 {
			t.Errorf("%d instances, want 3", n)
		}
		if p := w.object(); len(p.Spec.ProviderIDList) != 3 {
			t.Errorf("the list of a paused pool is %v", p.Spec.ProviderIDList)
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
		w.Create(pool.MachinePool(second, "again", controltest.Cluster, 9))
		if _, err := w.pool.Reconcile(t.Context(), key("again")); err != nil {
			t.Fatal(err)
		}
		w.Get("again", second)
		if !meta.IsStatusConditionTrue(second.Status.Conditions, infrav1.ConditionPoolConflict) || w.part("b").Spec.Size != 1 {
			t.Errorf("conditions %v, size %d", second.Status.Conditions, w.part("b").Spec.Size)
		}
	})
}
