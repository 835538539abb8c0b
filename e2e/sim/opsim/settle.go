package opsim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld/apiserver"
)

// Unsettled implements [sim.Guest]: both sides have to say the same in the end. Each
// instance has one NstanceMachine, one Machine and one Node, and the other way round; each
// group has the size of its pool. Nobody may still want something that the API server has
// not taken.
func (g *guest) Unsettled() string {
	if what := g.users.pending(); what != "" {
		return what + " is not done yet"
	}
	instances := map[string]bool{}
	for _, in := range g.Instances() {
		instances[in.ID.String()] = true
		node, there := apiserver.Get[*corev1.Node](g.api, "", "node-"+in.ID.String())
		switch {
		case !there:
			return fmt.Sprintf("%s has no Node", g.Name(in.ID))
		case node.Spec.Unschedulable:
			return fmt.Sprintf("the Node of %s is cordoned", g.Name(in.ID))
		}
		if in.OnDemand {
			continue
		}
		if m, there := apiserver.Get[*infrav1.NstanceMachine](g.api, namespace, in.ID.String()); !there || !m.DeletionTimestamp.IsZero() {
			return fmt.Sprintf("%s has no NstanceMachine", g.Name(in.ID))
		}
		if m, there := apiserver.Get[*clusterv1.Machine](g.api, namespace, in.ID.String()); !there || !m.Status.NodeRef.IsDefined() {
			return fmt.Sprintf("%s has no Machine with a Node", g.Name(in.ID))
		}
	}
	for _, node := range apiserver.All[*corev1.Node](g.api) {
		if !instances[instanceOf(node.Name).String()] && !unseen(node) {
			return fmt.Sprintf("Node %s has no instance", node.Name)
		}
	}
	for _, m := range apiserver.All[*infrav1.NstanceMachine](g.api) {
		if !instances[m.Spec.InstanceID] {
			return fmt.Sprintf("NstanceMachine %s has no instance", m.Name)
		}
	}
	for _, m := range apiserver.All[*clusterv1.Machine](g.api) {
		if _, there := apiserver.Get[*infrav1.NstanceMachine](g.api, namespace, m.Spec.InfrastructureRef.Name); !there {
			return fmt.Sprintf("Machine %s has no NstanceMachine", m.Name)
		}
	}
	if why := g.unequal(); why != "" {
		return why
	}
	return g.unserved()
}

// unseen reports whether a Node is of an instance that came and went while no operator heard
// of its shard. Nothing tells the operator that such a Node is one of its own: it has no
// annotation of the operator's, its labels are a kubelet's word, the shard has forgotten the
// instance, and the Node of somebody else looks the same. The page on installation says who
// deletes it.
func unseen(node *corev1.Node) bool {
	return !works(node) && node.Annotations[infrav1.AnnotationCluster] == ""
}

// unequal says which pool and its group do not have the same size.
func (g *guest) unequal() string {
	for _, pool := range apiserver.All[*clusterv1.MachinePool](g.api) {
		if !pool.DeletionTimestamp.IsZero() {
			return fmt.Sprintf("pool %s is still being deleted", pool.Name)
		}
		infra, there := apiserver.Get[*infrav1.NstanceMachinePool](g.api, namespace, pool.Spec.Template.Spec.InfrastructureRef.Name)
		if !there {
			return fmt.Sprintf("pool %s has no NstanceMachinePool", pool.Name)
		}
		size, there := g.Size(infra.Spec.Group)
		switch {
		case pool.Spec.Replicas == nil:
			return fmt.Sprintf("pool %s has no size", pool.Name)
		case !there:
			return fmt.Sprintf("pool %s has size %d, and there is no group %s", pool.Name, *pool.Spec.Replicas, infra.Spec.Group)
		case size != int(*pool.Spec.Replicas):
			return fmt.Sprintf("pool %s has size %d, and its group %d", pool.Name, *pool.Spec.Replicas, size)
		}
	}
	for _, part := range apiserver.All[*infrav1.NstanceShardGroup](g.api) {
		if !part.DeletionTimestamp.IsZero() || len(part.Spec.Retiring) > 0 {
			return fmt.Sprintf("part %s is not through with %v", part.Name, part.Spec.Retiring)
		}
	}
	return ""
}
