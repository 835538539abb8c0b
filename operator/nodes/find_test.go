package nodes_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/testworld"
)

const namespace = "ns"

func machine(name, instance, uri, node string, addresses ...string) *infrav1.NstanceMachine {
	m := &infrav1.NstanceMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       infrav1.NstanceMachineSpec{InstanceID: instance, ProviderID: uri},
	}
	m.Spec.GroupRef.Name = "web"
	if node != "" {
		m.Status.NodeRef = &infrav1.NodeReference{Name: node}
	}
	for _, a := range addresses {
		m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: a})
	}
	return m
}

func TestMachinesOfNode(t *testing.T) {
	elsewhere := machine("elsewhere", "i-1", "", "")
	elsewhere.Namespace = "other"
	builder := testworld.NewClientBuilder(t).WithObjects(elsewhere,
		machine("placed", "i-1", "aws:///a/i-0001", "", "host-1"),
		machine("found", "i-2", "aws:///a/i-0002", "node-2", "host-2"),
		machine("waiting", "", "", "", "host-3"),
	)
	for field, index := range nodes.MachineIndexes() {
		builder.WithIndex(&infrav1.NstanceMachine{}, field, index)
	}
	client := builder.Build()
	node := func(name, id, instance string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}}
		if instance != "" {
			n.Labels = map[string]string{infrav1.LabelInstanceID: instance}
		}
		return n
	}
	for _, tt := range []struct {
		name string
		node *corev1.Node
		want []string
	}{
		{"by its label", node("n", "", "i-1"), []string{"placed"}},
		{"by its provider id", node("n", "aws:///a/i-0001", ""), []string{"placed"}},
		{"by a provider id that ends alike", node("n", "aws:///eu/a/i-0001", ""), []string{"placed"}},
		{"by a host name", node("host-1", "", ""), []string{"placed"}},
		{"by the name that is known", node("node-2", "", ""), []string{"found"}},
		{"not by a host name once another name is known", node("host-2", "", ""), nil},
		{"nor where there is no instance", node("host-3", "", ""), nil},
		{"what says two things", node("node-2", "aws:///a/i-0001", ""), []string{"found", "placed"}},
		{"a stranger", node("n", "aws:///a/i-0009", "i-9"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			machines, err := nodes.MachinesOfNode(t.Context(), client, namespace, tt.node)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range machines {
				got = append(got, m.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, slices.Compact(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
	all, err := nodes.MachinesOfGroup(t.Context(), client, "web")
	if err != nil || len(all) != 4 {
		t.Errorf("machines of a group: %d, %v, want 4", len(all), err)
	}
	if all, err := nodes.MachinesOfGroup(t.Context(), client, "db"); err != nil || len(all) != 0 {
		t.Errorf("machines of another group: %d, %v", len(all), err)
	}
}

// Past the cache a Node is found by its label and by its name, and recognised as in it.
func TestS20_FindLive(t *testing.T) {
	instance := nodes.Instance{ID: "i-1", ProviderURI: "aws:///a/i-0001", Hostname: "host-1", Addresses: []string{"10.0.0.1"}}
	node := func(name, label, uri, address string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: uri}}
		if label != "" {
			n.Labels = map[string]string{infrav1.LabelInstanceID: label}
		}
		if address != "" {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		}
		return n
	}
	for _, tt := range []struct {
		name  string
		node  *corev1.Node
		found string
		doubt bool
	}{
		{"labelled, with the provider id", node("n", "i-1", "aws:///a/i-0001", ""), "n", false},
		{"labelled, with the address", node("n", "i-1", "", "10.0.0.1"), "n", false},
		{"named, with the provider id", node("host-1", "", "aws:///a/i-0001", ""), "host-1", false},
		{"named, with the address", node("host-1", "", "", "10.0.0.1"), "host-1", false},
		{"labelled alone", node("n", "i-1", "", ""), "", true},
		{"named alone", node("host-1", "", "", ""), "", true},
		{"of another instance", node("n", "i-2", "aws:///a/i-0002", "10.0.0.2"), "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cache, live := testworld.NewClientBuilder(t), testworld.NewClientBuilder(t).WithObjects(tt.node)
			for field, index := range nodes.MachineIndexes() {
				cache.WithIndex(&infrav1.NstanceMachine{}, field, index)
			}
			cached := cache.Build()
			found, doubt, err := nodes.FindLive(t.Context(), cached, cached, live.Build(), namespace, instance)
			if err != nil || found.Node != tt.found || (doubt.Why != "") != tt.doubt {
				t.Errorf("found %q, in doubt: %q, %v", found.Node, doubt.Why, err)
			}
			if (found.Object != nil) != (tt.found != "") {
				t.Errorf("object %v", found.Object)
			}
		})
	}
}
