package metrics

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

func TestGrowthIsTimed(t *testing.T) {
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	type look struct {
		after time.Duration
		pools map[string]extent
	}
	tests := []struct {
		name  string
		looks []look
		want  []time.Duration
	}{
		{"one growth", []look{
			{0, map[string]extent{"web": {2, 2}}}, {10 * time.Second, map[string]extent{"web": {3, 2}}},
			{70 * time.Second, map[string]extent{"web": {3, 3}}}, {80 * time.Second, map[string]extent{"web": {3, 3}}},
		}, []time.Duration{time.Minute}},
		{"what had begun before is not timed", []look{
			{0, map[string]extent{"web": {3, 2}}}, {time.Minute, map[string]extent{"web": {3, 3}}},
		}, nil},
		{"a pool that is made is one that grows", []look{
			{0, map[string]extent{}}, {10 * time.Second, map[string]extent{"web": {2, 0}}}, {40 * time.Second, map[string]extent{"web": {2, 2}}},
		}, []time.Duration{30 * time.Second}},
		{"a pool that is imported has its Nodes", []look{
			{0, map[string]extent{}}, {10 * time.Second, map[string]extent{"web": {2, 2}}}, {20 * time.Second, map[string]extent{"web": {2, 2}}},
		}, nil},
		{"two growths, one after the other", []look{
			{0, map[string]extent{"web": {1, 1}}}, {10 * time.Second, map[string]extent{"web": {2, 1}}}, {20 * time.Second, map[string]extent{"web": {4, 1}}},
			{60 * time.Second, map[string]extent{"web": {4, 2}}}, {90 * time.Second, map[string]extent{"web": {4, 4}}},
		}, []time.Duration{50 * time.Second, 70 * time.Second}},
		{"a growth that is taken back", []look{
			{0, map[string]extent{"web": {1, 1}}}, {10 * time.Second, map[string]extent{"web": {3, 1}}}, {20 * time.Second, map[string]extent{"web": {2, 1}}},
			{30 * time.Second, map[string]extent{"web": {2, 3}}},
		}, nil},
		{"a Node that fails is no growth", []look{
			{0, map[string]extent{"web": {2, 2}}}, {10 * time.Second, map[string]extent{"web": {2, 1}}}, {20 * time.Second, map[string]extent{"web": {2, 2}}},
		}, nil},
		{"a pool that goes is forgotten", []look{
			{0, map[string]extent{"web": {1, 1}}}, {10 * time.Second, map[string]extent{"web": {2, 1}}}, {20 * time.Second, map[string]extent{}},
			{30 * time.Second, map[string]extent{"web": {2, 2}}},
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var memory growths
			var got []time.Duration
			for _, l := range test.looks {
				var took []time.Duration
				memory, took = memory.step(l.pools, start.Add(l.after))
				got = append(got, took...)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// followed is a [Growth] that runs, and what it has timed. The informers call its handlers at once, in the goroutine of the test.
type followed struct {
	pools, nodes *controllertest.FakeInformer
	took         []time.Duration
}

// follows runs a Growth over informers that have heard of nothing yet; it ends with the test.
func follows(t *testing.T) *followed {
	t.Helper()
	f := &followed{pools: controllertest.NewFakeInformer(), nodes: controllertest.NewFakeInformer()}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	growth := Growth{
		Pools: source{f.pools}, Nodes: source{f.nodes}, Namespace: "ns", Now: time.Now,
		Ready: func(d time.Duration) { f.took = append(f.took, d) },
	}
	go func() { done <- growth.Start(ctx) }()
	synctest.Wait()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return f
}

// source has one informer alone.
type source struct{ *controllertest.FakeInformer }

func (i source) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return i.FakeInformer, nil
}

// synced says that all was heard of that was there.
func (f *followed) synced() {
	f.pools.Synced()
	f.nodes.Synced()
	time.Sleep(time.Second) // WaitForCacheSync looks ten times a second
	synctest.Wait()
}

func sized(size int32) *infrav1.NstanceMachinePool {
	return &infrav1.NstanceMachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: infrav1.NstanceMachinePoolSpec{Group: "web", Shards: []string{"a", "b"}},
		Status: infrav1.NstanceMachinePoolStatus{DesiredReplicas: ptr.To(size)},
	}
}

func nodeOf(name, shard string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{infrav1.LabelGroup: "web", infrav1.LabelShard: shard}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

func TestGrowthIsHeardFromPoolsAndNodes(t *testing.T) {
	tests := []struct {
		name   string
		before func(*followed) // what is there when it begins
		then   func(*followed)
		want   []time.Duration
	}{
		{"a growth of a minute", func(f *followed) { f.pools.Add(sized(0)) }, func(f *followed) {
			f.pools.Update(sized(0), sized(1))
			f.nodes.Add(nodeOf("n", "a", corev1.ConditionFalse))
			time.Sleep(time.Minute)
			f.nodes.Update(nil, nodeOf("n", "a", corev1.ConditionTrue))
			f.nodes.Update(nil, nodeOf("n", "a", corev1.ConditionTrue))
		}, []time.Duration{time.Minute}},
		{"growths of a millisecond, one after the other", func(f *followed) { f.pools.Add(sized(0)) }, func(f *followed) {
			for i, shard := range []string{"a", "b", "a"} {
				f.pools.Update(nil, sized(int32(i+1)))
				time.Sleep(time.Millisecond)
				f.nodes.Add(nodeOf(fmt.Sprint("n", i), shard, corev1.ConditionTrue))
			}
		}, []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}},
		{"a pool that comes and goes, and comes with what it had", func(*followed) {}, func(f *followed) {
			f.pools.Add(sized(1))
			f.nodes.Add(nodeOf("n", "a", corev1.ConditionTrue))
			f.pools.Delete(sized(1))
			f.pools.Add(sized(1))
		}, []time.Duration{0}},
		{"what had begun before is not timed", func(f *followed) { f.pools.Add(sized(1)) }, func(f *followed) {
			f.nodes.Add(nodeOf("n", "a", corev1.ConditionTrue))
		}, nil},
		{"what is there when it begins comes in any order", func(f *followed) {
			f.pools.Add(sized(0))
			f.nodes.Add(nodeOf("n", "a", corev1.ConditionTrue))
			f.pools.Update(nil, sized(1))
			f.pools.Update(nil, sized(2))
		}, func(f *followed) {
			f.nodes.Add(nodeOf("m", "b", corev1.ConditionTrue))
		}, nil},
		{"a Node that is gone does not count, and one that is ready again is no growth", func(f *followed) {
			f.pools.Add(sized(1))
			f.nodes.Add(nodeOf("n", "a", corev1.ConditionTrue))
		}, func(f *followed) {
			f.nodes.Delete(nodeOf("n", "a", corev1.ConditionTrue))
			f.nodes.Add(nodeOf("n", "b", corev1.ConditionTrue))
			f.nodes.Update(nil, nodeOf("n", "b", corev1.ConditionUnknown))
			f.pools.Update(nil, sized(2))
			time.Sleep(time.Second)
			f.nodes.Update(nil, nodeOf("n", "b", corev1.ConditionTrue))
			time.Sleep(time.Second)
			f.nodes.Add(nodeOf("m", "c", corev1.ConditionTrue)) // of no shard of the pool
			time.Sleep(time.Second)
			f.nodes.Update(nil, nodeOf("m", "a", corev1.ConditionTrue))
		}, []time.Duration{3 * time.Second}},
		{"pools of other namespaces, and Nodes of nobody", func(*followed) {}, func(f *followed) {
			other := sized(1)
			other.Namespace = "elsewhere"
			f.pools.Add(other)
			nobody := nodeOf("n", "a", corev1.ConditionTrue)
			nobody.Labels = nil
			f.nodes.Add(nobody)
			f.nodes.Add(nodeOf("m", "a", corev1.ConditionTrue))
		}, nil},
		{"a pool whose size is not known yet", func(*followed) {}, func(f *followed) {
			unknown := sized(0)
			unknown.Status.DesiredReplicas = nil
			f.pools.Add(unknown)
			time.Sleep(time.Second)
			f.pools.Update(nil, sized(1))
			time.Sleep(time.Second)
			f.nodes.Add(nodeOf("n", "a", corev1.ConditionTrue))
		}, []time.Duration{time.Second}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := follows(t)
				test.before(f)
				f.synced()
				test.then(f)
				if diff := cmp.Diff(test.want, f.took); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
