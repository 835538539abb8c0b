package capi_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"nstance.dev/operator/capi"
)

func TestMachineChanged(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))
	condition := func(kind string, status metav1.ConditionStatus) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: status, LastTransitionTime: now})
		}
	}
	for name, row := range map[string]struct {
		change            func(*clusterv1.Machine)
		machine, specOnly bool
	}{
		"nothing":                 {func(*clusterv1.Machine) {}, false, false},
		"the resource version":    {func(m *clusterv1.Machine) { m.ResourceVersion = "2" }, false, false},
		"the phase":               {func(m *clusterv1.Machine) { m.Status.Phase = "Running" }, false, false},
		"a condition":             {condition(clusterv1.AvailableCondition, metav1.ConditionTrue), false, false},
		"the spec":                {func(m *clusterv1.Machine) { m.Generation = 2 }, true, true},
		"an annotation":           {func(m *clusterv1.Machine) { m.Annotations = map[string]string{"a": "b"} }, true, true},
		"a label":                 {func(m *clusterv1.Machine) { m.Labels = map[string]string{"a": "b"} }, true, true},
		"a finalizer":             {func(m *clusterv1.Machine) { m.Finalizers = []string{"a"} }, true, true},
		"an owner":                {func(m *clusterv1.Machine) { m.OwnerReferences = []metav1.OwnerReference{{Name: "a"}} }, true, true},
		"it is deleted":           {func(m *clusterv1.Machine) { m.DeletionTimestamp = &now }, true, true},
		"another of its name":     {func(m *clusterv1.Machine) { m.UID = "2" }, true, true},
		"its Node":                {func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }, true, false},
		"its Node is ready":       {condition(clusterv1.MachineNodeReadyCondition, metav1.ConditionTrue), true, false},
		"its health check failed": {condition(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse), true, false},
		"it is to be remediated":  {condition(clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse), true, false},
	} {
		before := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "1", ResourceVersion: "1", Generation: 1}}
		after := before.DeepCopy()
		row.change(after)
		for what, c := range map[string]struct {
			predicate predicate.Predicate
			want      bool
		}{"MachineChanged": {capi.MachineChanged(), row.machine}, "SpecChanged": {capi.SpecChanged(), row.specOnly}} {
			if got := c.predicate.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != c.want {
				t.Errorf("%s: %s passes is %t, want %t", name, what, got, c.want)
			}
		}
	}
	all := capi.MachineChanged()
	if m := (&clusterv1.Machine{}); !all.Create(event.CreateEvent{Object: m}) || !all.Delete(event.DeleteEvent{Object: m}) || !all.Generic(event.GenericEvent{Object: m}) {
		t.Error("what comes or goes does not pass")
	}
}
