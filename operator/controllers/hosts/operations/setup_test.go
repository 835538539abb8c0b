package operations

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// TestChangesOfAMachine: operations are looked at again for what concerns them, and for no other change of their
// machine.
func TestChangesOfAMachine(t *testing.T) {
	until := metav1.NewTime(time.Date(2026, 5, 4, 5, 0, 0, 0, time.UTC))
	later := metav1.NewTime(until.Add(time.Minute))
	hold := func(reason string, until metav1.Time) *hostsv1.HoldStatus {
		return &hostsv1.HoldStatus{Reason: reason, Until: &until}
	}
	for name, tt := range map[string]struct {
		change func(*hostsv1.HostMachine)
		want   bool
	}{
		"nothing":           {func(*hostsv1.HostMachine) {}, false},
		"a report":          {func(m *hostsv1.HostMachine) { m.Status.Host = &hostsv1.HostReport{LastReport: &later} }, false},
		"a pause":           {func(m *hostsv1.HostMachine) { m.Spec.Paused = true }, true},
		"a stage":           {func(m *hostsv1.HostMachine) { m.Status.Repave = &hostsv1.RepaveStatus{Stage: "Boot"} }, true},
		"an executor":       {func(m *hostsv1.HostMachine) { m.Status.Executors[0].Name = "b" }, true},
		"a hold that ends":  {func(m *hostsv1.HostMachine) { m.Status.Hold = nil }, true},
		"a longer hold":     {func(m *hostsv1.HostMachine) { m.Status.Hold = hold("reboot", later) }, true},
		"a hold, read anew": {func(m *hostsv1.HostMachine) { m.Status.Hold = hold("reboot", until) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			was := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
			was.Status.Hold, was.Status.Executors = hold("reboot", until), []hostsv1.Executor{{Name: "a"}}
			is := was.DeepCopy()
			tt.change(is)
			if got := concerning().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != tt.want {
				t.Errorf("%t", got)
			}
		})
	}
}
