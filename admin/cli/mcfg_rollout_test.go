package cli_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/admin/cli"
	"nstance.dev/admin/kubeclient/kubetest"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// rolling is a console at a cluster with three machines of gpu, which run its first version: box-1 is begun, box-3 is
// paused.
func rolling(t *testing.T, change func(*hostsv1.MachineConfiguration)) *console {
	t.Helper()
	s := kubetest.New(t)
	old, now := template("v1.36.1", "hello"), template("v1.36.3", "hello")
	gpu := configuration("gpu", 10, nil, now)
	gpu.Spec.UpdateStrategy = &hostsv1.UpdateStrategy{Type: hostsv1.UpdateRolling}
	change(gpu)
	s.Put(gpu)
	s.Put(versionOf(gpu, 1, true, old))
	s.Put(versionOf(gpu, 2, false, now))
	when := at(time.Hour)
	for _, name := range []string{"box-1", "box-2", "box-3"} {
		desired := hostsv1.VersionReference{Name: "gpu", Version: 2, UID: "uid-gpu"}
		m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: hostsv1.HostMachineSpec{Provisioner: hostsv1.ProvisionerNstance, Paused: name == "box-3"}}
		m.Status.NodeRef = &hostsv1.NodeReference{Name: name, UID: "node-" + name}
		m.Status.Configuration = &hostsv1.ConfigurationStatus{
			Source: hostsv1.SourceSelector, Desired: &desired,
			Applied: &hostsv1.AppliedVersion{VersionReference: hostsv1.VersionReference{Name: "gpu", Version: 1, UID: "uid-gpu"}, At: &when},
		}
		if name == "box-1" {
			until := at(1000 * time.Hour)
			m.Status.Rollout = &hostsv1.MachineRollout{VersionReference: desired, Stage: hostsv1.RolloutDraining, NodeUID: "node-box-1", StartedAt: &when, Until: &until}
		}
		s.Put(m)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		s.Put(n)
	}
	c := newConsole(t)
	c.env["KUBECONFIG"] = s.Kubeconfig(t)
	return c
}

// M97: a dry run shows the machines in their order, with the budget, the windows and what blocks each.
func TestM97_WhatARolloutWouldDo(t *testing.T) {
	c := rolling(t, func(*hostsv1.MachineConfiguration) {})
	for _, format := range []string{"table", "json", "yaml", "name"} {
		golden(t, "mcfg-rollout."+format, c.ok(t, "mcfg", "rollout", "gpu", "--dry-run", "-o", format))
	}
	closed := rolling(t, func(m *hostsv1.MachineConfiguration) {
		m.Spec.UpdateStrategy.RollingUpdate = &hostsv1.RollingUpdate{Windows: []hostsv1.Window{{Cron: "0 2 29 2 *", Duration: "1h"}}}
	})
	if got := closed.ok(t, "mcfg", "rollout", "gpu", "--dry-run"); !strings.Contains(got, "windows: closed; the next one opens at ") {
		t.Errorf("outside of windows:\n%s", got)
	}
	hand := rolling(t, func(m *hostsv1.MachineConfiguration) { m.Spec.UpdateStrategy = nil })
	if got := hand.ok(t, "mcfg", "rollout", "gpu", "--dry-run"); !strings.Contains(got, "strategy: OnDelete; shown is what RollingUpdate would do") {
		t.Errorf("by hand:\n%s", got)
	}
}

// It does nothing but show.
func TestM97_ARolloutIsNotBegunByHand(t *testing.T) {
	c := rolling(t, func(*hostsv1.MachineConfiguration) {})
	if code := c.run(t.Context(), "mcfg", "rollout", "gpu"); code != cli.ExitUsage {
		t.Errorf("exit code %d, want %d", code, cli.ExitUsage)
	}
}
