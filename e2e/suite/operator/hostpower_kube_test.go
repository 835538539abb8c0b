//go:build kube && operator

package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// M75, M84, M85: an object asks, the operator of its own process puts the instance on hold, and a real server switches its machine:
// off and on once, although the server is killed in between; off, which stays so on hold; and on, which ends that.
func TestM75M84M85_PowerOfAnInstance(t *testing.T) {
	s := startHosting(t)
	scheme := runtime.NewScheme()
	if err := hostsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(s.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &hostWorld{hostCourt: &hostCourt{cluster: s.Cluster}, admin: admin}
	s.shards.UpsertGroup("a", "metal", 1)
	id := w.awaitHost(t, "")

	w.ask(t, "cycle", id, hostsv1.OperationPowerCycle)
	s.awaitStatus(t, id, "powered-off", "power")
	s.shards.Kill("a")
	s.shards.Start("a")
	cycle := w.awaitEnd(t, "cycle", "Complete/Succeeded", "False/Cleared")
	for _, mark := range []string{"off-sent", "off-seen", "on-sent", "on-seen"} {
		if text, seen := cycle.Status.Results[mark]; !seen || strings.Contains(string(text), "times") {
			t.Errorf("%s: %q, want a time", mark, text)
		}
	}
	s.awaitStatus(t, id, "running", "")

	w.ask(t, "off", id, hostsv1.OperationPowerOff)
	w.awaitEnd(t, "off", "Complete/Succeeded", "True/KeptOff")
	s.awaitStatus(t, id, "powered-off", "power")
	w.awaitMachine(t, id, "it is off, on hold, and says so", func(m *hostsv1.HostMachine) error {
		c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionProvisioned)
		if m.Status.Phase != hostsv1.PhaseOff || m.Status.Hold == nil || m.Status.Hold.Reason != "power" || c == nil || c.Reason != hostsv1.ReasonInstanceOff || len(m.Status.Operations) > 0 {
			return fmt.Errorf("phase %s, hold %+v, condition %+v, operations %v", m.Status.Phase, m.Status.Hold, c, m.Status.Operations)
		}
		return nil
	})
	w.ask(t, "reboot", id, hostsv1.OperationReboot) // which nobody can do to a machine that is off
	w.awaitMachine(t, id, "it names what waits", func(m *hostsv1.HostMachine) error {
		if fmt.Sprint(m.Status.Operations) != "[reboot]" {
			return fmt.Errorf("operations %v", m.Status.Operations)
		}
		return nil
	})
	w.ask(t, "on", id, hostsv1.OperationPowerOn)
	w.awaitEnd(t, "on", "Complete/Succeeded", "False/Cleared")
	s.awaitStatus(t, id, "running", "")
	w.awaitMachine(t, id, "it runs, and is not on hold", func(m *hostsv1.HostMachine) error {
		if m.Status.Phase == hostsv1.PhaseOff || m.Status.Hold != nil {
			return fmt.Errorf("phase %s, hold %+v", m.Status.Phase, m.Status.Hold)
		}
		return nil
	})
	var all hostsv1.HostMachineList
	if err := admin.List(t.Context(), &all); err != nil || len(all.Items) != 1 || all.Items[0].Name != id {
		t.Errorf("%d machines, %v: the one that was switched off was replaced", len(all.Items), err)
	}
}

// ask asks for an operation on a machine.
func (w *hostWorld) ask(t *testing.T, name, machine, operation string) {
	t.Helper()
	o := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.Spec.MachineRef, o.Spec.OperationName = &hostsv1.MachineReference{Name: hostsv1.Label(machine)}, operation
	w.make(t, o)
}

// awaitEnd waits until an operation has ended so, and its hold too.
func (w *hostWorld) awaitEnd(t *testing.T, name, want, hold string) *hostsv1.MachineOperation {
	t.Helper()
	o := &hostsv1.MachineOperation{}
	kube.Await(t, name+" is "+want, func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
			return err
		}
		c := meta.FindStatusCondition(o.Status.Conditions, hostsv1.ConditionOnHold)
		if c == nil || string(o.Status.State)+"/"+o.Status.Reason != want || string(c.Status)+"/"+c.Reason != hold {
			return fmt.Errorf("status %+v", o.Status)
		}
		return nil
	})
	return o
}

func (w *hostWorld) awaitMachine(t *testing.T, name, what string, check func(*hostsv1.HostMachine) error) {
	t.Helper()
	kube.Await(t, what, func(ctx context.Context) error {
		m := &hostsv1.HostMachine{}
		if err := w.admin.Get(ctx, client.ObjectKey{Name: name}, m); err != nil {
			return err
		}
		return check(m)
	})
}

// awaitStatus waits until the servers of shard a say that of an instance.
func (s *system) awaitStatus(t *testing.T, id, status, hold string) {
	t.Helper()
	kube.Await(t, "the instance is "+status, func(ctx context.Context) error {
		all, _, err := s.shards.Instances(ctx, "a")
		if err != nil {
			return err
		}
		for _, in := range all {
			if in.GetInstanceId() == id && in.GetStatus() == status && in.GetHold().GetReason() == hold {
				return nil
			}
		}
		return fmt.Errorf("instances %v", all)
	})
}
