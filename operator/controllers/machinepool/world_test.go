package machinepool_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/controllers/machinepool"
	"nstance.dev/operator/controllers/shardgroup"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = testworld.Tenant

// world has the controllers of pools and of their shard groups, and does what Cluster API and the
// controller of machines do with what these make.
type world struct {
	*testworld.World
	pool        *machinepool.Reconciler
	shardGroups *shardgroup.Reconciler
	t           *testing.T
}

// inWorld runs a test with a pool web on shards a and b and its MachinePool.
func inWorld(t *testing.T, replicas int32, test func(t *testing.T, w *world)) {
	t.Helper()
	testworld.Run(t, []string{"a", "b"}, func(t *testing.T, k *testworld.World) {
		coolOff := &inventory.CoolOffs{}
		w := &world{World: k, t: t}
		w.pool = &machinepool.Reconciler{
			Client: k.Client, Live: k.Client, Inventory: k.Inventory, CoolOff: coolOff, Events: k.Events, Now: time.Now,
			Names: machinepool.Names{Cluster: testworld.Cluster, ClusterID: "example", Tenant: tenant}, AsMachines: true, RedirectAfter: time.Minute,
			Connection: k.Connection,
		}
		w.shardGroups = &shardgroup.Reconciler{
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
		w.Create(capi.MachinePool(p, "web", testworld.Cluster, replicas))
		test(t, w)
	})
}

func key(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: testworld.Namespace, Name: name}}
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
	for _, shardGroup := range list.Items {
		shardGroup.Generation++ // the server in memory does not count; one call more does no harm
		if err := w.Client.Update(context.Background(), &shardGroup); err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.shardGroups.Reconcile(context.Background(), key(shardGroup.Name)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.After(time.Millisecond)
}

// core makes a Machine for each NstanceMachine, whose Node is ready at once, and ends the
// instances of those that are deleted.
func (w *world) core() {
	w.t.Helper()
	var infraMachines infrav1.NstanceMachineList
	if err := w.Client.List(context.Background(), &infraMachines); err != nil {
		w.t.Fatal(err)
	}
	for _, infraMachine := range infraMachines.Items {
		machine := &clusterv1.Machine{}
		if w.Get(infraMachine.Name, machine) {
			if !machine.DeletionTimestamp.IsZero() {
				w.ended(machine, &infraMachine)
			}
			continue
		}
		machine = &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Name: infraMachine.Name, Labels: maps.Clone(infraMachine.Labels), Finalizers: []string{clusterv1.MachineFinalizer}},
			Spec:       clusterv1.MachineSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{Name: infraMachine.Name}},
		}
		w.Create(machine)
		machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "node-" + infraMachine.Name}
		machine.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "NodeReady", LastTransitionTime: metav1.Now(),
		}}
		if err := w.Client.Status().Update(context.Background(), machine); err != nil {
			w.t.Fatal(err)
		}
	}
}

// ended is what becomes of a Machine that was deleted, once its Node is empty.
func (w *world) ended(machine *clusterv1.Machine, infraMachine *infrav1.NstanceMachine) {
	w.t.Helper()
	shardGroup := &infrav1.NstanceShardGroup{}
	w.Get("web--"+infraMachine.Spec.Shard, shardGroup)
	_, err := w.Connected(infraMachine.Spec.Shard).DeleteInstance(context.Background(), "web", &nstancev1.DeleteInstanceRequest{
		InstanceId: infraMachine.Name, DecrementSize: slices.Contains(shardGroup.Spec.Retiring, infraMachine.Name), SkipDrain: true,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.drop(infraMachine.Name)
	machine.Finalizers = nil
	if err := w.Client.Update(context.Background(), machine); err != nil {
		w.t.Fatal(err)
	}
}

// drop deletes the NstanceMachine of an instance, and the controller of machines lets it go.
func (w *world) drop(id string) {
	w.t.Helper()
	w.Delete(id, &infrav1.NstanceMachine{})
	w.release()
}

// release lets all NstanceMachines go that are being deleted, as the controller of machines
// does when their instances have ended, or stay behind.
func (w *world) release() {
	w.t.Helper()
	var list infrav1.NstanceMachineList
	if err := w.Client.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}
	for _, infraMachine := range list.Items {
		if infraMachine.DeletionTimestamp.IsZero() {
			continue
		}
		infraMachine.Finalizers = nil
		if err := w.Client.Update(context.Background(), &infraMachine); err != nil {
			w.t.Fatal(err)
		}
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

func (w *world) shardGroup(shard string) *infrav1.NstanceShardGroup {
	w.t.Helper()
	shardGroup := &infrav1.NstanceShardGroup{}
	if !w.Get("web--"+shard, shardGroup) {
		w.t.Fatalf("there is no part on %s", shard)
	}
	return shardGroup
}

// mark names a Machine as the one that is to go, as the autoscaler does.
func (w *world) mark(id string) {
	w.t.Helper()
	machine := &clusterv1.Machine{}
	w.Change(id, machine, func() {
		metav1.SetMetaDataAnnotation(&machine.ObjectMeta, clusterv1.DeleteMachineAnnotation, time.Now().String())
	})
}

func (w *world) infraMachines() []string {
	w.t.Helper()
	var list infrav1.NstanceMachineList
	if err := w.Client.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, infraMachine := range list.Items {
		names = append(names, infraMachine.Name)
	}
	return names
}
