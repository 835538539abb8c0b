//go:build kube && operator

package operator_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/kube/nodes"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// nameless has a kubelet that knows which instance its machine is, and not what the provider
// calls it.
func nameless(m *nodes.Machine) {
	m.ProviderID = ""
	m.Labels[infrav1.LabelInstanceID] = m.Name
}

// O13: a Node without a provider id gets that of the instance that it says it is, because
// it has the address of that. One that says so and has another address gets nothing, though
// it came first.
func TestO13_ANodeIsBelievedForItsAddress(t *testing.T) {
	s := startSystem(t, kube.ReadAudit)
	s.ground.overrideNodes(t, nameless)
	s.ground.powerOff(t, func(string) bool { return true })
	s.pool(t, "nameless", "shards: [a]", 0)
	s.scale(t, "nameless", 1)
	var id string
	kube.Await(t, "there is an instance", func(ctx context.Context) error {
		machines, err := s.machines(ctx, "nameless")
		if err == nil && len(machines) != 1 {
			return errors.New("there is none")
		}
		id = machines[0].GetName()
		return err
	})
	liar := "liar-" + s.place.name
	nodes.Boot(t, s.client, nodes.Machine{
		Name: liar, Labels: map[string]string{infrav1.LabelInstanceID: id},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.254.0.1"}},
	})
	t.Cleanup(func() {
		if err := s.client.CoreV1().Nodes().Delete(shared.Context(), liar, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	kube.Await(t, "the liar is there", func(ctx context.Context) error {
		_, err := s.client.CoreV1().Nodes().Get(ctx, liar, metav1.GetOptions{})
		return err
	})
	s.ground.set(nil)
	kube.Await(t, "the Machine runs", s.settled("nameless", 1))

	for name, want := range map[string]string{id: "nstance://a/" + id, liar: ""} {
		node, err := s.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if node.Spec.ProviderID != want {
			t.Errorf("Node %s has the provider id %q, want %q", name, node.Spec.ProviderID, want)
		}
		if group := node.Labels[infrav1.LabelGroup]; (group != "") != (want != "") {
			t.Errorf("Node %s is labelled with the group %q", name, group)
		}
	}
	requests, err := s.Audit()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.Resource == "nodes" && r.Name == liar && r.User == s.user() && r.Verb != "get" {
			t.Errorf("the operator did %s %s", r.Verb, r.URI)
		}
	}
}
