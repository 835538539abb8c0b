package machinepool_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld"
)

// clusterAPI does with the MachinePool what Cluster API does: it owns the pool and deletes it with itself,
// unless it is paused, which it says. What a MachinePool that is gone owned is deleted.
func (w *world) clusterAPI() {
	w.t.Helper()
	pool, machinePool := &infrav1.NstanceMachinePool{}, &clusterv1.MachinePool{}
	if !w.Get("web", pool) {
		return
	}
	there := w.Get("web", machinePool)
	if !there {
		for _, owner := range pool.OwnerReferences {
			if owner.Kind == "Cluster" {
				continue
			}
			w.t.Errorf("the pool is deleted with its owner %s", owner.Name)
		}
		return
	}
	if _, paused := machinePool.Annotations[clusterv1.PausedAnnotation]; paused {
		meta.SetStatusCondition(&machinePool.Status.Conditions, metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: "Paused"})
		if err := w.Client.Status().Update(context.Background(), machinePool); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	if !machinePool.DeletionTimestamp.IsZero() {
		w.t.Error("Cluster API deletes the pool with its MachinePool")
	}
	if controllerutil.AddFinalizer(machinePool, clusterv1.MachinePoolFinalizer) {
		if err := w.Client.Update(context.Background(), machinePool); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := controllerutil.SetControllerReference(machinePool, pool, w.Client.Scheme()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Client.Update(context.Background(), pool); err != nil {
		w.t.Fatal(err)
	}
}

// demandRounds lets everybody do what there is to do, Cluster API and the controller of machines too.
func (w *world) demandRounds(n int) {
	w.t.Helper()
	for range n {
		w.clusterAPI()
		w.round()
		w.release()
	}
}

func (w *world) edit(change func(*infrav1.NstanceMachinePool)) {
	w.t.Helper()
	p := &infrav1.NstanceMachinePool{}
	w.Change("web", p, func() { change(p) })
}

func (w *world) expect(conditionType string, want metav1.ConditionStatus, reason string) {
	w.t.Helper()
	c := meta.FindStatusCondition(w.object().Status.Conditions, conditionType)
	if c == nil || c.Status != want || c.Reason != reason {
		w.t.Errorf("%s is %+v, want %s because of %s", conditionType, c, want, reason)
	}
}

func (w *world) untouched() {
	w.t.Helper()
	for _, shard := range []string{"a", "b"} {
		if n := w.Shard(shard).Count("DeleteInstance") + w.Shard(shard).Count("DeleteGroup"); n > 0 {
			w.t.Errorf("shard %s was asked %d times to end something", shard, n)
		}
	}
}

func maxOf(shardGroup *infrav1.NstanceShardGroup) int32 {
	if shardGroup.Spec.Demand == nil {
		return -1
	}
	return ptr.Deref(shardGroup.Spec.Demand.Max, -1)
}

// A pool of fixed size becomes a demand pool and one of fixed size again. No machine notices.
func TestDemand_ASwitchTouchesNoMachine(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		w.demandRounds(3)
		before := w.instances()

		w.edit(func(p *infrav1.NstanceMachinePool) {
			p.Spec.Demand, p.Spec.Rebalance = &infrav1.DemandSettings{Max: ptr.To[int32](8)}, infrav1.RebalanceNever
		})
		w.demandRounds(2)
		w.expect(infrav1.ConditionDemandAllowed, metav1.ConditionFalse, infrav1.ReasonMachinePoolExists)
		if size := w.shardGroup("a").Spec.SizeOrZero(); size != 3 || w.object().Status.Mode != infrav1.PoolFixed {
			t.Errorf("size %d, mode %s: nothing may change before it may", size, w.object().Status.Mode)
		}

		machinePool := &clusterv1.MachinePool{}
		w.Change("web", machinePool, func() {
			metav1.SetMetaDataAnnotation(&machinePool.ObjectMeta, "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "9")
		})
		w.edit(func(p *infrav1.NstanceMachinePool) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, infrav1.AnnotationNoMachinePool, "true")
		})
		w.demandRounds(2)
		w.expect(infrav1.ConditionDemandAllowed, metav1.ConditionFalse, infrav1.ReasonAutoscalerAnnotations)
		if told := w.Told(); !slices.ContainsFunc(told, func(text string) bool {
			return strings.HasPrefix(text, "DemandNotAllowed: NstanceMachinePool: MachinePool web")
		}) {
			t.Errorf("nobody is told why: %q", told)
		}
		w.Change("web", machinePool, func() { machinePool.Annotations = nil })

		w.demandRounds(6)
		w.expect(infrav1.ConditionDemandAllowed, metav1.ConditionTrue, infrav1.ReasonAllowed)
		w.expect(infrav1.ConditionReady, metav1.ConditionTrue, infrav1.ReasonReady)
		if w.Get("web", &clusterv1.MachinePool{}) || len(w.infraMachines()) > 0 {
			t.Errorf("the MachinePool or NstanceMachines %v are left", w.infraMachines())
		}
		if a, b := maxOf(w.shardGroup("a")), maxOf(w.shardGroup("b")); a != 4 || b != 4 || w.shardGroup("a").Spec.Size != nil {
			t.Errorf("shares %d and %d, want 4 each and no size", a, b)
		}
		if mode := w.Shard("a").Group(tenant, "web").GetMode(); mode != "demand" || w.object().Status.Mode != infrav1.PoolDemand {
			t.Errorf("mode %q on the server, %s in the status", mode, w.object().Status.Mode)
		}
		if diff := cmp.Diff(before, w.instances()); diff != "" {
			t.Errorf("machines were touched:\n%s", diff)
		}
		var machines clusterv1.MachineList
		if err := w.Client.List(t.Context(), &machines); err != nil || len(machines.Items) > 0 {
			t.Errorf("Machines %v are left, %v", machines.Items, err)
		}
		w.untouched()

		w.Shard("a").Buy(tenant, "web", 5) // its share has room for one
		w.demandRounds(2)
		if d := w.object().Status.Demand; d == nil || d.Machines != 6 || d.HourlySpend.String() != "600m" {
			t.Errorf("status %+v", d)
		}
		bought := w.instances()

		w.edit(func(p *infrav1.NstanceMachinePool) { p.Spec.Demand = nil })
		w.demandRounds(4)
		if a, b := w.shardGroup("a").Spec, w.shardGroup("b").Spec; a.SizeOrZero() != 4 || b.SizeOrZero() != 2 || a.Demand != nil {
			t.Errorf("parts %+v and %+v, want the 4 and 2 machines that there are", a, b)
		}
		if w.Get("web", &clusterv1.MachinePool{}) {
			t.Error("there is a MachinePool though the annotation says none")
		}
		w.edit(func(p *infrav1.NstanceMachinePool) { delete(p.Annotations, infrav1.AnnotationNoMachinePool) })
		w.After(time.Minute)
		w.demandRounds(3)
		if !w.Get("web", machinePool) || *machinePool.Spec.Replicas != 6 || len(w.infraMachines()) != 6 {
			t.Errorf("MachinePool %+v with NstanceMachines %v", machinePool.Spec.Replicas, w.infraMachines())
		}
		if diff := cmp.Diff(bought, w.instances()); diff != "" {
			t.Errorf("machines were touched:\n%s", diff)
		}
		w.untouched()
	})
}

// A demand pool that is made as one has no MachinePool; its bounds are divided, changed without a sum
// above them, and its deletion waits for its machines.
func TestDemand_MadeChangedAndDeleted(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		w.Delete("web", &clusterv1.MachinePool{})
		w.edit(func(p *infrav1.NstanceMachinePool) {
			p.Spec.Demand = &infrav1.DemandSettings{
				Min: ptr.To[int32](1), Max: ptr.To[int32](6), Limits: &infrav1.DemandLimits{VCPU: ptr.To[infrav1.LimitAmount](9)},
			}
			p.Spec.InstanceRequirements = &infrav1.InstanceRequirements{VCPU: &infrav1.AmountRange{Min: ptr.To[int64](2)}}
		})
		w.After(time.Minute)
		w.demandRounds(3)
		if w.Get("web", &clusterv1.MachinePool{}) {
			t.Error("a MachinePool was made")
		}
		group := w.Shard("a").Group(tenant, "web")
		if d := group.GetDemand(); group.GetMode() != "demand" || d.GetMin() != 1 || d.GetMax() != 3 || d.GetLimits().GetVcpu() != 5 || group.GetInstanceRequirements().GetVcpu().GetMin() != 2 {
			t.Errorf("shard a has %v", group)
		}
		if d := w.Shard("b").Group(tenant, "web").GetDemand(); d.GetMin() != 0 || d.GetMax() != 3 || d.GetLimits().GetVcpu() != 4 {
			t.Errorf("shard b has %v", d)
		}
		w.expect(infrav1.ConditionReady, metav1.ConditionTrue, infrav1.ReasonReady)

		p := w.object()
		if owner := p.OwnerReferences; p.Labels[clusterv1.ClusterNameLabel] != testworld.Cluster || len(owner) != 1 || owner[0].Kind != "Cluster" || metav1.GetControllerOf(p) != nil {
			t.Errorf("labels %v, owners %v: it is not paused, moved and deleted with its Cluster", p.Labels, p.OwnerReferences)
		}

		w.Shard("a").Buy(tenant, "web", 3)
		w.edit(func(p *infrav1.NstanceMachinePool) { p.Spec.Demand.Max = ptr.To[int32](4) })
		if _, err := w.pass(); err != nil || w.object().Status.Mode != infrav1.PoolDemand {
			t.Errorf("mode %s while a share is on its way, %v", w.object().Status.Mode, err)
		}
		w.demandRounds(4)
		if a, b := maxOf(w.shardGroup("a")), maxOf(w.shardGroup("b")); a != 2 || b != 1 {
			t.Errorf("shares %d and %d: a has 3 machines, so b gets what they leave", a, b)
		}
		w.Shard("b").Buy(tenant, "web", 5)
		w.demandRounds(2)
		w.expect(infrav1.ConditionLimitReached, metav1.ConditionTrue, infrav1.ReasonMaxReached)
		if n := len(w.instances()); n != 4 {
			t.Errorf("%d machines, max is 4", n)
		}
		w.untouched()

		calls := w.Shard("a").Count("UpsertGroup")
		w.demandRounds(2)
		if now := w.Shard("a").Count("UpsertGroup"); now > calls+2 { // partsPass claims a change each time
			t.Errorf("%d calls where nothing changes", now-calls)
		}

		w.edit(func(p *infrav1.NstanceMachinePool) { p.Spec.InstanceRequirements = nil })
		w.demandRounds(2)
		if r := w.Shard("a").Group(tenant, "web").GetInstanceRequirements(); r != nil {
			t.Errorf("requirements %v are left", r)
		}

		w.Delete("web", &infrav1.NstanceMachinePool{})
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		if !w.Get("web", &infrav1.NstanceMachinePool{}) {
			t.Fatal("the pool is gone before its machines")
		}
		for range 6 {
			w.partsPass()
			w.Settle("a", "b")
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
		}
		if w.Get("web", &infrav1.NstanceMachinePool{}) || len(w.instances()) > 0 {
			t.Errorf("the pool or its machines %v are left", w.instances())
		}
	})
}

// Before every shard has accepted its share nothing is taken off, and a pool that goes back then is as before.
func TestDemand_AShardThatIsAwayHoldsTheSwitchBack(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.demandRounds(3)
		before := w.infraMachines()
		w.edit(func(p *infrav1.NstanceMachinePool) {
			p.Spec.Demand = &infrav1.DemandSettings{}
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, infrav1.AnnotationNoMachinePool, "true")
		})
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		for range 3 { // the shard groups are written, and no shard is told
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			w.clusterAPI()
		}
		machinePool := &clusterv1.MachinePool{}
		if !w.Get("web", machinePool) || machinePool.Annotations[infrav1.AnnotationRetiredByPool] != "" {
			t.Fatalf("the MachinePool is taken off before a shard has accepted anything: %v", machinePool.Annotations)
		}
		if w.object().Status.Mode != infrav1.PoolSwitching {
			t.Errorf("mode %s", w.object().Status.Mode)
		}
		w.edit(func(p *infrav1.NstanceMachinePool) { p.Spec.Demand, p.Annotations = nil, nil })
		w.demandRounds(3)
		if size := w.shardGroup("a").Spec.SizeOrZero(); size != 2 || w.object().Status.Mode != infrav1.PoolFixed {
			t.Errorf("size %d, mode %s", size, w.object().Status.Mode)
		}
		if diff := cmp.Diff(before, w.infraMachines()); diff != "" {
			t.Error(diff)
		}
		w.untouched()
	})
}

// A pool that goes back after its servers had bought something keeps it: its MachinePool, whose replicas are
// those of before, goes, and another one is made with what there is.
func TestDemand_AbandonedHalfway(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.demandRounds(3)
		first := &clusterv1.MachinePool{}
		w.Get("web", first)
		w.edit(func(p *infrav1.NstanceMachinePool) {
			p.Spec.Demand = &infrav1.DemandSettings{}
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, infrav1.AnnotationNoMachinePool, "true")
		})
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		w.partsPass()
		w.Shard("a").Buy(tenant, "web", 1)
		w.edit(func(p *infrav1.NstanceMachinePool) { p.Spec.Demand, p.Annotations = nil, nil })
		w.After(time.Minute)
		w.demandRounds(8)
		machinePool := &clusterv1.MachinePool{}
		if !w.Get("web", machinePool) || machinePool.UID == first.UID || *machinePool.Spec.Replicas != 5 {
			t.Fatalf("MachinePool %+v", machinePool.Spec.Replicas)
		}
		if n := len(w.instances()); n != 5 || len(w.infraMachines()) != 5 {
			t.Errorf("%d instances, %d NstanceMachines, want 5 of each", n, len(w.infraMachines()))
		}
		w.untouched()
	})
}

// What was decided stands in the log, with its reason.
func TestDemand_EventsTellTheStory(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.demandRounds(3)
		w.Told()
		w.edit(func(p *infrav1.NstanceMachinePool) {
			p.Spec.Demand = &infrav1.DemandSettings{Max: ptr.To[int32](3)}
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, infrav1.AnnotationNoMachinePool, "true")
		})
		w.demandRounds(6)
		told := w.Told()
		for _, want := range []string{
			"DemandDivided: NstanceMachinePool: web: a max 2, b max 1",
			"MachinePoolRemoved: NstanceMachinePool: MachinePool web is removed, and no machine with it: every shard has the group in mode demand",
		} {
			if !slices.ContainsFunc(told, func(text string) bool { return strings.HasPrefix(text, want) }) {
				t.Errorf("no event %q in %q", want, told)
			}
		}
	})
}
