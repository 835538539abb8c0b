package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/testworld"
)

func TestHostMachinesAreCounted(t *testing.T) {
	b := testworld.NewClientBuilder(t)
	machine := func(name string, phase hostsv1.HostMachinePhase, waits metav1.ConditionStatus, reason string) {
		m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: hostsv1.HostMachineStatus{Phase: phase}}
		m.Status.Conditions = []metav1.Condition{{Type: hostsv1.ConditionConfigurationPending, Status: waits, Reason: reason}}
		b = b.WithObjects(m)
	}
	machine("a", "", metav1.ConditionUnknown, "")
	machine("b", hostsv1.PhaseReady, metav1.ConditionFalse, hostsv1.ReasonResolved)
	machine("c", hostsv1.PhaseAwaitingConfiguration, metav1.ConditionTrue, hostsv1.ReasonNoMatch)
	machine("d", hostsv1.PhaseAwaitingConfiguration, metav1.ConditionTrue, hostsv1.ReasonVersionSkew)
	machine("e", hostsv1.PhaseAwaitingConfiguration, metav1.ConditionTrue, "OfALaterRelease")
	for n := int32(1); n <= 3; n++ {
		b = b.WithObjects(&hostsv1.MachineConfigurationVersion{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gpu-v%d", n)}, Spec: hostsv1.MachineConfigurationVersionSpec{ConfigurationName: "gpu", Version: n},
			Status: hostsv1.MachineConfigurationVersionStatus{Deployed: n < 3},
		})
	}
	registry := prometheus.NewPedanticRegistry()
	h := metrics.NewHosts(b.Build(), registry, time.Now)
	h.Wrote("lock")
	h.Wrote("lock")
	h.Refused("referenced")
	lint(t, registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := []string{family.GetName()}
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			got[strings.Join(labels, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	for series, want := range map[string]float64{
		"nstance_machines_machines phase=none": 1, "nstance_machines_machines phase=Ready": 1, "nstance_machines_machines phase=Failed": 0,
		"nstance_machines_machines phase=AwaitingConfiguration":        3,
		"nstance_machines_configuration_pending reason=NoMatch":        1,
		"nstance_machines_configuration_pending reason=VersionSkew":    1,
		"nstance_machines_configuration_pending reason=other":          1,
		"nstance_machines_configuration_pending reason=SecretNotFound": 0,
		"nstance_machines_versions configuration=gpu deployed=true":    2,
		"nstance_machines_versions configuration=gpu deployed=false":   1,
		"nstance_machines_version_writes_total action=lock":            2,
		"nstance_machines_version_writes_total action=create":          0,
		"nstance_machines_version_refusals_total reason=referenced":    1,
		"nstance_machines_version_refusals_total reason=not-lockable":  0,
	} {
		if n, exists := got[series]; !exists || n != want {
			t.Errorf("%s is %v, exists: %v; want %v", series, n, exists, want)
		}
	}
}
