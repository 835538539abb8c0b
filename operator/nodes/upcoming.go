package nodes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// UpcomingIndexes are the indexes that a cache of UpcomingNodes needs.
func UpcomingIndexes() map[string]client.IndexerFunc {
	of := func(value func(*demandv1.UpcomingNode) string) client.IndexerFunc {
		return func(o client.Object) []string {
			u, ok := o.(*demandv1.UpcomingNode)
			if !ok || value(u) == "" {
				return nil
			}
			return []string{value(u)}
		}
	}
	return map[string]client.IndexerFunc{
		byInstance: of(func(u *demandv1.UpcomingNode) string { return u.Spec.MachineID }),
		byTail:     of(func(u *demandv1.UpcomingNode) string { return Tail(u.Status.ProviderID) }),
	}
}

// RegisterUpcoming adds the indexes to the cache of the UpcomingNodes.
func RegisterUpcoming(ctx context.Context, upcoming client.FieldIndexer) error {
	for field, index := range UpcomingIndexes() {
		if err := upcoming.IndexField(ctx, &demandv1.UpcomingNode{}, field, index); err != nil {
			return fmt.Errorf("index UpcomingNodes by %s: %w", field, err)
		}
	}
	return nil
}

// Upcoming returns the UpcomingNode of a machine of demand mode; nil: it has none.
func Upcoming(ctx context.Context, reader client.Reader, machine string) (*demandv1.UpcomingNode, error) {
	var list demandv1.UpcomingNodeList
	if err := reader.List(ctx, &list, client.MatchingFields{byInstance: machine}); err != nil {
		return nil, fmt.Errorf("UpcomingNode of machine %s: %w", machine, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

// InstanceOfUpcoming is what package nodes has to know of a machine of demand mode: what its
// shard says of the instance, and the provider id that its UpcomingNode has. Either may be nil.
func InstanceOfUpcoming(machine string, u *demandv1.UpcomingNode, said *nstancev1.InstanceStatus) Instance {
	in := InstanceOf(nil, said)
	in.ID = machine
	if u != nil && u.Status.ProviderID != "" {
		in.ProviderURI = u.Status.ProviderID
	}
	return in
}

// UpcomingOfNode returns the ids of the machines of demand mode that have anything in common with
// a Node, which does not mean that it is theirs: what it says of itself, what it was matched to
// before, and what has its provider id.
func UpcomingOfNode(ctx context.Context, reader client.Reader, node *corev1.Node) ([]string, error) {
	all := map[string]bool{
		node.Labels[infrav1.LabelInstanceID]: true, node.Annotations[infrav1.AnnotationDemandMachine]: true,
		node.Annotations[infrav1.AnnotationDrainInstance]: true,
	}
	if tail := Tail(node.Spec.ProviderID); tail != "" {
		var list demandv1.UpcomingNodeList
		if err := reader.List(ctx, &list, client.MatchingFields{byTail: tail}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("UpcomingNodes by provider id: %w", err)
		}
		for i := range list.Items {
			all[list.Items[i].Spec.MachineID] = true
		}
	}
	delete(all, "")
	machines := make([]string, 0, len(all))
	for id := range all {
		machines = append(machines, id)
	}
	return machines, nil
}

// byPodNode is the index of Pods by the Node that they are bound to.
const byPodNode = "spec.nodeName"

// RegisterPods adds the index that PodsOf needs to a cache of Pods.
func RegisterPods(ctx context.Context, pods client.FieldIndexer) error {
	if err := pods.IndexField(ctx, &corev1.Pod{}, byPodNode, PodsByNode); err != nil {
		return fmt.Errorf("index Pods by %s: %w", byPodNode, err)
	}
	return nil
}

// PodsByNode is the index of Pods that PodsOf needs, by the field spec.nodeName.
func PodsByNode(o client.Object) []string {
	if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		return []string{p.Spec.NodeName}
	}
	return nil
}

// PodsOf returns the Pods that are bound to a Node. They are the cache's own: nobody may change
// them.
func PodsOf(ctx context.Context, pods client.Reader, node string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := pods.List(ctx, &list, client.MatchingFields{byPodNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("pods of node %s: %w", node, err)
	}
	return list.Items, nil
}
