package importer

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/testworld"
)

func TestKnownChanged(t *testing.T) {
	old := &infrav1.NstanceMachinePool{
		ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: "1"},
		Spec:       infrav1.NstanceMachinePoolSpec{Group: "web", Shards: []string{"a"}},
	}
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	tests := []struct {
		name   string
		change func(*infrav1.NstanceMachinePool)
		passes bool
	}{
		{"its instances", func(p *infrav1.NstanceMachinePool) {
			p.Spec.ProviderIDList, p.Status.Replicas = []infrav1.ProviderID{"i-1"}, 1
		}, false},
		{"its shards", func(p *infrav1.NstanceMachinePool) { p.Spec.Shards = []string{"a", "b"} }, true},
		{"that it does without a MachinePool", func(p *infrav1.NstanceMachinePool) {
			p.Annotations = map[string]string{infrav1.AnnotationNoMachinePool: "true"}
		}, true},
		{"that its size is known", func(p *infrav1.NstanceMachinePool) { p.Status.DesiredReplicas = ptr.To[int32](3) }, true},
		{"its end", func(p *infrav1.NstanceMachinePool) { p.DeletionTimestamp = &at }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := old.DeepCopy()
			now.ResourceVersion = "2"
			tt.change(now)
			if got := knownChanged().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: now}); got != tt.passes {
				t.Errorf("passes: %v, want %v", got, tt.passes)
			}
		})
	}
}

// Of a group that has its pool only the end is looked at soon.
func TestUnknown(t *testing.T) {
	pool := &infrav1.NstanceMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "any"}, Spec: infrav1.NstanceMachinePoolSpec{Group: "web"}}
	r := &Reconciler{Client: testworld.NewClientBuilder(t).WithObjects(pool).Build(), Namespace: "ns"}
	change := func(kind inventory.Kind, group string) inventory.ShardChange {
		return inventory.ShardChange{Shard: "a", Change: inventory.Change{Kind: kind, Group: group}}
	}
	gone, other, shard := change(inventory.GroupGone, "web"), change(inventory.GroupChanged, "new"), change(inventory.ShardChanged, "")
	got := r.unknown(t.Context(), []inventory.ShardChange{change(inventory.GroupChanged, "web"), gone, other, shard})
	if want := []inventory.ShardChange{gone, other, shard}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
