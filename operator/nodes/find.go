package nodes

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Indexes of a cache. The one of Nodes by name needs none.
const (
	byInstance   = "spec.instanceID"
	byProviderID = "spec.providerID"
	byTail       = "spec.providerID.tail"
	byLabel      = "metadata.labels.instance-id"
	byGroup      = "spec.groupRef.name"
	byNodeName   = "status.node"
	byAddress    = "status.internalIP"
)

// MachineIndexes are the indexes that a cache of NstanceMachines needs.
func MachineIndexes() map[string]client.IndexerFunc {
	of := func(values func(*infrav1.NstanceMachine) []string) client.IndexerFunc {
		return func(o client.Object) []string {
			m, ok := o.(*infrav1.NstanceMachine)
			if !ok {
				return nil
			}
			return slices.DeleteFunc(values(m), func(value string) bool { return value == "" })
		}
	}
	return map[string]client.IndexerFunc{
		byInstance: of(func(m *infrav1.NstanceMachine) []string { return []string{m.Spec.InstanceID} }),
		byTail:     of(func(m *infrav1.NstanceMachine) []string { return []string{Tail(m.Spec.ProviderID)} }),
		byGroup:    of(func(m *infrav1.NstanceMachine) []string { return []string{m.Spec.GroupRef.Name} }),
		byNodeName: of(nodeNames),
	}
}

// nodeNames are the names that a machine's Node may have: the one that it has, and before
// that is known all that it is called, for a host name is one of its addresses.
func nodeNames(m *infrav1.NstanceMachine) []string {
	if m.Status.NodeRef != nil {
		return []string{m.Status.NodeRef.Name}
	}
	var all []string
	for _, a := range m.Status.Addresses {
		all = append(all, a.Address)
	}
	return all
}

// NodeIndexes are the indexes that a cache of Nodes needs.
func NodeIndexes() map[string]client.IndexerFunc {
	of := func(value func(*corev1.Node) string) client.IndexerFunc {
		return func(o client.Object) []string {
			node, ok := o.(*corev1.Node)
			if !ok || value(node) == "" {
				return nil
			}
			return []string{value(node)}
		}
	}
	return map[string]client.IndexerFunc{
		byAddress: func(o client.Object) []string {
			node, ok := o.(*corev1.Node)
			if !ok {
				return nil
			}
			return addresses(describe(node).InternalIPs)
		},
		byProviderID: of(func(n *corev1.Node) string { return n.Spec.ProviderID }),
		byTail:       of(func(n *corev1.Node) string { return Tail(n.Spec.ProviderID) }),
		byLabel:      of(func(n *corev1.Node) string { return n.Labels[infrav1.LabelInstanceID] }),
	}
}

// Register adds the indexes to the cache of the machines and to that of the Nodes.
func Register(ctx context.Context, machines, ofNodes client.FieldIndexer) error {
	for field, index := range MachineIndexes() {
		if err := machines.IndexField(ctx, &infrav1.NstanceMachine{}, field, index); err != nil {
			return fmt.Errorf("index NstanceMachines by %s: %w", field, err)
		}
	}
	for field, index := range NodeIndexes() {
		if err := ofNodes.IndexField(ctx, &corev1.Node{}, field, index); err != nil {
			return fmt.Errorf("index Nodes by %s: %w", field, err)
		}
	}
	return nil
}

// Machine returns the NstanceMachine of an instance; nil: there is none.
func Machine(ctx context.Context, machines client.Reader, namespace, instance string) (*infrav1.NstanceMachine, error) {
	var list infrav1.NstanceMachineList
	err := machines.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{byInstance: instance})
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

// MachinesOfGroup returns all NstanceMachines of a group, those without an instance too. They
// are the cache's own: nobody may change them.
func MachinesOfGroup(ctx context.Context, machines client.Reader, group string) ([]infrav1.NstanceMachine, error) {
	return listed(ctx, machines, client.MatchingFields{byGroup: group})
}

// MachinesOfNode returns the NstanceMachines that have anything in common with a Node, which
// does not mean that it is theirs; one may be there several times. They are the cache's own:
// nobody may change them.
func MachinesOfNode(ctx context.Context, machines client.Reader, namespace string, node *corev1.Node) ([]infrav1.NstanceMachine, error) {
	var all []infrav1.NstanceMachine
	for field, value := range map[string]string{
		byInstance: node.Labels[infrav1.LabelInstanceID], byTail: Tail(node.Spec.ProviderID), byNodeName: node.Name,
	} {
		if value == "" {
			continue
		}
		some, err := listed(ctx, machines, client.InNamespace(namespace), client.MatchingFields{field: value})
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			if m.Spec.InstanceID != "" {
				all = append(all, m)
			}
		}
	}
	return all, nil
}

func listed(ctx context.Context, machines client.Reader, which ...client.ListOption) ([]infrav1.NstanceMachine, error) {
	var list infrav1.NstanceMachineList
	if err := machines.List(ctx, &list, append(which, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("list NstanceMachines: %w", err)
	}
	return list.Items, nil
}

// Located is what is known of the Node of an instance.
type Located struct {
	Found
	// Object is the Node, or the one that claims to be; nil: there is none.
	Object *corev1.Node
}

// Find returns the Node of an instance as far as it is to be recognised.
func Find(ctx context.Context, reader client.Reader, instance Instance) (Located, error) {
	objects, err := candidates(ctx, reader, instance)
	if err != nil {
		return Located{}, err
	}
	return locate(objects, instance), nil
}

// FindLive is Find and FindDoubt past the cache of Nodes, which may not have one yet that has
// joined a moment ago; workload is that cache. An API server looks for Nodes by label and by name
// alone, so one that is to be recognised by its provider id has to carry the instance's id in its
// label or the instance's host name.
func FindLive(ctx context.Context, machines, workload, live client.Reader, namespace string, instance Instance) (Located, Doubt, error) {
	objects := map[string]*corev1.Node{}
	var list corev1.NodeList
	if err := live.List(ctx, &list, client.MatchingLabels{infrav1.LabelInstanceID: instance.ID}); err != nil {
		return Located{}, Doubt{}, fmt.Errorf("nodes by label %s: %w", infrav1.LabelInstanceID, err)
	}
	for i := range list.Items {
		objects[list.Items[i].Name] = &list.Items[i]
	}
	if err := addNamed(ctx, live, instance.Hostname, objects); err != nil {
		return Located{}, Doubt{}, err
	}
	doubt, err := doubtOf(ctx, machines, workload, namespace, instance, objects)
	return locate(objects, instance), doubt, err
}

// locate returns the Node of an instance among these.
func locate(objects map[string]*corev1.Node, instance Instance) Located {
	var said []Node
	for _, node := range objects {
		said = append(said, describe(node))
	}
	found := Located{Found: NewIndex(said).Match(instance)}
	found.Object = objects[found.Node]
	if found.Mismatch && found.Object == nil {
		found.Object = objects[found.Claims]
	}
	return found
}

// addresses returns IP addresses as the index of Nodes has them.
func addresses(of []string) []string {
	var all []string
	for _, one := range of {
		if ip := Address(one); ip != "" {
			all = append(all, ip)
		}
	}
	return all
}

// candidates are the Nodes that have anything in common with the instance, by name.
func candidates(ctx context.Context, reader client.Reader, instance Instance) (map[string]*corev1.Node, error) {
	objects := map[string]*corev1.Node{}
	for field, values := range map[string][]string{
		byProviderID: {instance.ProviderURI}, byTail: {Tail(instance.ProviderURI)}, byLabel: {instance.ID},
		byAddress: addresses(instance.Addresses),
	} {
		for _, value := range values {
			if value == "" {
				continue
			}
			var list corev1.NodeList
			if err := reader.List(ctx, &list, client.MatchingFields{field: value}); err != nil {
				return nil, fmt.Errorf("nodes by %s: %w", field, err)
			}
			for i := range list.Items {
				objects[list.Items[i].Name] = &list.Items[i]
			}
		}
	}
	return objects, addNamed(ctx, reader, instance.Hostname, objects)
}

// addNamed adds the Node of a name to others, if there is one.
func addNamed(ctx context.Context, reader client.Reader, name string, objects map[string]*corev1.Node) error {
	if name == "" {
		return nil
	}
	named := &corev1.Node{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, named)
	if err == nil {
		objects[named.Name] = named
	}
	return client.IgnoreNotFound(err)
}

func describe(node *corev1.Node) Node {
	n := Node{Name: node.Name, ProviderID: node.Spec.ProviderID, InstanceLabel: node.Labels[infrav1.LabelInstanceID]}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			n.InternalIPs = append(n.InternalIPs, a.Address)
		}
	}
	return n
}

// InstanceOf is what package nodes has to know of an instance: what its shard says, and
// where that is nothing what its machine remembers. Either may be nil.
func InstanceOf(m *infrav1.NstanceMachine, said *nstancev1.InstanceStatus) Instance {
	in := Instance{ID: said.GetInstanceId(), ProviderURI: said.GetProviderUri(), Hostname: said.GetHostname(), Addresses: said.GetAddresses()}
	if m == nil {
		return in
	}
	in.ID = m.Spec.InstanceID
	if m.Spec.ProviderID != "" {
		in.ProviderURI = m.Spec.ProviderID
	}
	if len(in.Addresses) == 0 {
		for _, a := range m.Status.Addresses {
			switch a.Type {
			case "InternalIP":
				in.Addresses = append(in.Addresses, a.Address)
			case "Hostname":
				in.Hostname = a.Address
			}
		}
	}
	return in
}
