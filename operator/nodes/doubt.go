package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Doubt is what is known of an instance whose Node is not recognised for sure. Its zero
// value: the Node is known, or the instance has none.
type Doubt struct {
	// Why says which Nodes may be the instance's, and what speaks against each.
	Why string
	// Nodes are those of them that have one of its addresses, by name: that may be its work.
	Nodes []*corev1.Node
}

// FindDoubt returns what is uncertain about the Node of an instance. A Node that is
// recognised as that of another instance is not in doubt, unless it also claims to be this
// one's and has its address; then nothing is to be done to it.
func FindDoubt(ctx context.Context, machines, workload client.Reader, namespace string, instance Instance) (Doubt, error) {
	objects, err := candidates(ctx, workload, instance)
	if err != nil {
		return Doubt{}, err
	}
	return doubtOf(ctx, machines, workload, namespace, instance, objects)
}

// doubtOf is FindDoubt for these Nodes.
func doubtOf(ctx context.Context, machines, workload client.Reader, namespace string, instance Instance, objects map[string]*corev1.Node) (Doubt, error) {
	var said []Node
	for _, node := range objects {
		said = append(said, describe(node))
	}
	index := NewIndex(said)
	found := index.Match(instance)
	if found.Node != "" {
		return Doubt{}, nil
	}
	var doubt Doubt
	var names []string
	for _, c := range index.Candidates(instance) {
		others, err := ofAnother(ctx, machines, workload, namespace, instance.ID, objects[c.Node])
		switch {
		case err != nil:
			return Doubt{}, err
		case others && !(found.Mismatch && found.Claims == c.Node):
			continue
		case !others && c.HasAddress:
			doubt.Nodes = append(doubt.Nodes, objects[c.Node])
		}
		names = append(names, c.Node)
	}
	if len(names) == 0 {
		return Doubt{}, nil
	}
	doubt.Why = found.Why
	if doubt.Why == "" {
		doubt.Why = fmt.Sprintf("%s has an address of the instance, and neither its provider id, its label nor its name", strings.Join(names, ", "))
	}
	return doubt, nil
}

// ofAnother reports whether a Node is recognised as that of another instance.
func ofAnother(ctx context.Context, machines, workload client.Reader, namespace, instance string, node *corev1.Node) (bool, error) {
	some, err := MachinesOfNode(ctx, machines, namespace, node)
	if err != nil {
		return false, err
	}
	seen := []string{instance}
	for i := range some {
		if slices.Contains(seen, some[i].Spec.InstanceID) {
			continue
		}
		seen = append(seen, some[i].Spec.InstanceID)
		found, err := Find(ctx, workload, InstanceOf(&some[i], nil))
		if err != nil {
			return false, err
		}
		if found.Node == node.Name {
			return true, nil
		}
	}
	return false, nil
}
