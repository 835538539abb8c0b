package versions

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// M38: five minutes of one ready machine prove a version; two machines that failed while none is ready
// speak against it.
func TestM38_Health(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	ready := func(version int32, readyFor, appliedFor time.Duration) hostsv1.HostMachine {
		var m hostsv1.HostMachine
		at := ago(appliedFor)
		m.Status.Configuration = &hostsv1.ConfigurationStatus{Applied: &hostsv1.AppliedVersion{VersionReference: hostsv1.VersionReference{Name: "gpu", Version: version}, At: &at}}
		m.Status.Conditions = []metav1.Condition{{Type: hostsv1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: ago(readyFor)}}
		return m
	}
	failed := func(version int32) hostsv1.HostMachine {
		var m hostsv1.HostMachine
		m.Status.Configuration = &hostsv1.ConfigurationStatus{Assigned: &hostsv1.AssignedVersion{VersionReference: hostsv1.VersionReference{Name: "gpu", Version: version}}}
		m.Status.Conditions = []metav1.Condition{{Type: hostsv1.ConditionRepaveFailed, Status: metav1.ConditionTrue}}
		return m
	}
	notReady := ready(2, time.Hour, time.Hour)
	notReady.Status.Conditions[0].Status = metav1.ConditionFalse
	for _, tt := range []struct {
		name     string
		machines []hostsv1.HostMachine
		want     Health
	}{
		{"no machine", nil, Health{}},
		{"ready for five minutes", []hostsv1.HostMachine{ready(2, 5*time.Minute, time.Hour)}, Health{Proven: true}},
		{"ready for less", []hostsv1.HostMachine{ready(2, 4*time.Minute, time.Hour)}, Health{After: time.Minute}},
		{"ready for long, and with this version for less", []hostsv1.HostMachine{ready(2, time.Hour, 4*time.Minute)}, Health{After: time.Minute}},
		{"the one that is ready longest counts", []hostsv1.HostMachine{ready(2, time.Minute, time.Hour), ready(2, 6*time.Minute, time.Hour)}, Health{Proven: true}},
		{"another version", []hostsv1.HostMachine{ready(1, time.Hour, time.Hour), failed(1), failed(3)}, Health{}},
		{"not ready", []hostsv1.HostMachine{notReady}, Health{}},
		{"one failed", []hostsv1.HostMachine{failed(2)}, Health{Failed: 1}},
		{"two failed", []hostsv1.HostMachine{failed(2), failed(2)}, Health{Failed: 2, Bad: true}},
		{"two failed, and one is ready", []hostsv1.HostMachine{failed(2), failed(2), ready(2, time.Minute, time.Minute)}, Health{Failed: 2, After: 4 * time.Minute}},
		{"two failed, and one has proven it", []hostsv1.HostMachine{failed(2), failed(2), ready(2, time.Hour, time.Hour)}, Health{Failed: 2, Proven: true}},
		{"two failed, and one is not ready", []hostsv1.HostMachine{failed(2), failed(2), notReady}, Health{Failed: 2, Bad: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := HealthOf("gpu", 2, tt.machines, now); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
