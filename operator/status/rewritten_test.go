package status_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/status"
)

func TestRewritten(t *testing.T) {
	object := func(own, other string) *infrav1.NstanceMachine {
		m := &infrav1.NstanceMachine{}
		for kind, message := range map[string]string{"Own": own, "Other": other} {
			if message != "" {
				m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Message: message})
			}
		}
		return m
	}
	p := status.Rewritten(func(m *infrav1.NstanceMachine) []metav1.Condition { return m.Status.Conditions }, "Own", "Absent")
	for _, tt := range []struct {
		name    string
		was, is *infrav1.NstanceMachine
		want    bool
	}{
		{"nothing", object("a", "x"), object("a", "x"), false},
		{"a condition of others", object("a", "x"), object("a", "y"), false},
		{"its own", object("a", "x"), object("b", "x"), true},
		{"it comes", object("", "x"), object("a", "x"), true},
		{"it goes", object("a", "x"), object("", "x"), true},
	} {
		if got := p.Update(event.UpdateEvent{ObjectOld: tt.was, ObjectNew: tt.is}); got != tt.want {
			t.Errorf("%s changes: %v, want %v", tt.name, got, tt.want)
		}
	}
}
