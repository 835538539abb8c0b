package inventory_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"nstance.dev/operator/inventory"
)

func TestNoHeartbeats(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	old := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: &at}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: at, LastTransitionTime: at},
		}},
	}
	later := metav1.NewTime(at.Add(5 * time.Minute))
	tests := []struct {
		name   string
		change func(*corev1.Node)
		passes bool
	}{
		{"a heartbeat", func(n *corev1.Node) {
			n.ResourceVersion, n.Status.Conditions[0].LastHeartbeatTime, n.ManagedFields[0].Time = "2", later, &later
		}, false},
		{"a Node that is not ready any more", func(n *corev1.Node) {
			n.ResourceVersion, n.Status.Conditions[0].Status = "2", corev1.ConditionFalse
		}, true},
		{"a provider id", func(n *corev1.Node) { n.ResourceVersion, n.Spec.ProviderID = "2", "aws:///eu-1a/i-1" }, true},
		{"a label", func(n *corev1.Node) { n.ResourceVersion, n.Labels = "2", map[string]string{"a": "b"} }, true},
		{"the end", func(n *corev1.Node) { n.ResourceVersion, n.DeletionTimestamp = "2", &later }, true},
		{"the same once more", func(*corev1.Node) {}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, now := old.DeepCopy(), old.DeepCopy()
			tt.change(now)
			if got := inventory.NoHeartbeats().Update(event.TypedUpdateEvent[*corev1.Node]{ObjectOld: before, ObjectNew: now}); got != tt.passes {
				t.Errorf("passes: %v, want %v", got, tt.passes)
			}
			if before.Status.Conditions[0].LastHeartbeatTime != at {
				t.Error("what is cached was changed")
			}
		})
	}
}
