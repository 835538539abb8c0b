package metrics

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld"
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

func TestGrowthIsSeenInPoolsAndNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &infrav1.NstanceMachinePool{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: infrav1.NstanceMachinePoolSpec{Group: "web", Shards: []string{"a"}},
			Status: infrav1.NstanceMachinePoolStatus{DesiredReplicas: ptr.To(int32(0))},
		}
		c := testworld.NewClientBuilder(t).WithStatusSubresource(pool).WithObjects(pool).Build()
		var took []time.Duration
		growth := Growth{
			Objects: Objects{Reader: c, Nodes: c, Namespace: "ns", Now: time.Now},
			Ready:   func(d time.Duration) { took = append(took, d) },
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- growth.Start(ctx) }()
		time.Sleep(time.Second)
		pool.Status.DesiredReplicas = ptr.To(int32(1))
		if err := c.Status().Update(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{infrav1.LabelGroup: "web", infrav1.LabelShard: "a"}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
		if err := c.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]time.Duration{time.Minute}, took); diff != "" {
			t.Error(diff)
		}
	})
}
