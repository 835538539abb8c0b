package machinepool_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

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
			for _, id := range w.infraMachines() { // the servers have deleted the instances
				w.drop(id)
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
			w.release()
			w.partsPass()
		}
		if w.Get("web", p) || len(w.infraMachines()) > 0 {
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
			Name: testworld.Cluster, Annotations: map[string]string{infrav1.AnnotationOrphanedGroups: "api--a"},
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
		if _, err := w.pass(); !apierrors.IsConflict(err) || !w.shardGroup("a").DeletionTimestamp.IsZero() {
			t.Errorf("%v, %+v: nothing ends before that is written", err, w.shardGroup("a").DeletionTimestamp)
		}
		w.pool.Client = healthy
		for range 3 {
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			w.release()
			w.partsPass()
		}
		w.Get(testworld.Cluster, cluster)
		if left := cluster.Annotations[infrav1.AnnotationOrphanedGroups]; w.Get("web", p) || left != "api--a,web--a,web--b" {
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
		if len(w.object().Finalizers) == 0 || len(w.shardGroup("a").Finalizers) == 0 {
			t.Error("whoever moves takes the finalizers off")
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

// Fields of the spec that a static group ignores are said. When the group leaves the server's
// configuration they are replaced by what the servers use, so that no machine is replaced;
// from then on the pool's word counts.
func TestO5_IgnoredFieldsOfAStaticGroupNeverRotateIt(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		var sent []string
		w.settle()
		w.Told()
		for _, shard := range []string{"a", "b"} {
			w.Shard(shard).AddGroup(tenant, shardtest.Group{Key: "web", Template: "theirs", Static: true})
		}
		w.Settle("a", "b")
		w.settle()
		w.settle()
		c := meta.FindStatusCondition(w.object().Status.Conditions, infrav1.ConditionSpecIgnored)
		if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "spec.template") {
			t.Fatalf("%+v", c)
		}
		if told := w.Told(); !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, "SpecIgnored:") }) {
			t.Errorf("events %q", told)
		}
		for _, shard := range []string{"a", "b"} {
			w.Shard(shard).OnCall(func(c shardtest.Call) {
				if r, ok := c.Request.(*nstancev1.UpsertGroupRequest); ok && r.GetConfig().Template != nil {
					sent = append(sent, r.GetConfig().GetTemplate())
				}
			})
		}
		for _, shard := range []string{"a", "b"} {
			w.Shard(shard).SetStatic(tenant, "web", false)
		}
		w.Settle("a", "b")
		for range 4 {
			w.settle()
		}
		for _, template := range sent {
			if template != "theirs" {
				t.Errorf("template %q is sent, and every machine replaced", template)
			}
		}
		if p := w.object(); p.Spec.Template != "theirs" || meta.IsStatusConditionTrue(p.Status.Conditions, infrav1.ConditionSpecIgnored) {
			t.Errorf("template %q, conditions %+v", p.Spec.Template, p.Status.Conditions)
		}
		p := &infrav1.NstanceMachinePool{}
		w.Change("web", p, func() { p.Spec.Template = "next" })
		w.settle()
		w.settle()
		if template := w.Shard("a").Group(tenant, "web").GetTemplate(); template != "next" {
			t.Errorf("the pool says another template, and the group has %q", template)
		}
	})
}

func TestO16_APausedPoolChangesNothing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.settle()
		cluster := &clusterv1.Cluster{}
		w.Change(testworld.Cluster, cluster, func() { cluster.Spec.Paused = ptr.To(true) })
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

// Of a pool that is paused nothing is written but that it is: neither its provider ids nor
// what its instances do meanwhile, nor events.
func TestO16_OfAPausedPoolOnlyThatIsWritten(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.settle()
		before := w.object()
		cluster := &clusterv1.Cluster{}
		w.Change(testworld.Cluster, cluster, func() { cluster.Spec.Paused = ptr.To(true) })
		w.Told()
		w.Shard("a").Vanish(w.instances()[0])
		w.settle()
		after := w.object()
		if c := meta.FindStatusCondition(after.Status.Conditions, infrav1.ConditionPaused); c == nil || c.Status != metav1.ConditionTrue {
			t.Errorf("%+v", c)
		}
		unpaused := func(p *infrav1.NstanceMachinePool) *infrav1.NstanceMachinePool {
			p = p.DeepCopy()
			p.ResourceVersion, p.ManagedFields = "", nil
			meta.RemoveStatusCondition(&p.Status.Conditions, infrav1.ConditionPaused)
			return p
		}
		if diff := cmp.Diff(unpaused(before), unpaused(after)); diff != "" {
			t.Error(diff)
		}
		if told := w.Told(); len(told) != 0 {
			t.Errorf("events %q", told)
		}
	})
}
