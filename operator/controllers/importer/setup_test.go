package importer

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
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
