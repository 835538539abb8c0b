package opsim

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/testworld/apiserver"
)

// core is the part of Cluster API that the operator works with, and the garbage collector:
// it copies what the operator shows into MachinePools, makes a Machine for each
// NstanceMachine, empties and deletes Nodes, and deletes what has lost its owners.
//
// It passes over everything each second in which something has changed. What fails is
// tried again in the next pass.
type core struct {
	g *guest
	c client.Client
}

const clusterAPI = "cluster-api" // who calls

// forsaken is when somebody notices a Machine of a pool that stands for nothing.
const forsaken = time.Minute

func newCore(g *guest) *core { return &core{g, g.api.Client(clusterAPI)} }

func (c *core) run() {
	ctx, seen := c.g.Context(), -1
	for n := 0; wait(ctx, c.g.Between(700*time.Millisecond, 1300*time.Millisecond, "core", n)) == nil; n++ {
		now := c.g.api.Changes()
		if now == seen && n%10 != 0 {
			continue
		}
		seen = now
		apiserver.Each(c.g.api, func(o *clusterv1.Cluster) { c.cluster(ctx, o) })
		apiserver.Each(c.g.api, func(o *clusterv1.MachinePool) { c.machinePool(ctx, o) })
		apiserver.Each(c.g.api, func(o *infrav1.NstanceMachine) { c.adopt(ctx, o) })
		apiserver.Each(c.g.api, func(o *clusterv1.Machine) { c.machine(ctx, o) })
		c.collect(ctx)
	}
}

// change writes a changed copy of an object.
func change[T client.Object](ctx context.Context, c client.Client, o T, do func(T)) {
	next, ok := o.DeepCopyObject().(T)
	if !ok {
		return
	}
	do(next)
	_ = c.Update(ctx, next) // the next pass sees whether that came true
}

func changeStatus[T client.Object](ctx context.Context, c client.Client, o T, do func(T)) {
	next, ok := o.DeepCopyObject().(T)
	if !ok {
		return
	}
	do(next)
	_ = c.Status().Update(ctx, next) // as in change
}

func (c *core) cluster(ctx context.Context, o *clusterv1.Cluster) {
	infra, there := apiserver.Get[*infrav1.NstanceCluster](c.g.api, namespace, o.Name)
	if !there || !infra.Status.Initialization.Provisioned || o.Status.Initialization.InfrastructureProvisioned != nil {
		return
	}
	yes := true
	changeStatus(ctx, c.c, o, func(o *clusterv1.Cluster) {
		o.Status.Initialization.InfrastructureProvisioned, o.Status.Initialization.ControlPlaneInitialized = &yes, &yes
	})
}

func (c *core) machinePool(ctx context.Context, o *clusterv1.MachinePool) {
	infra, there := apiserver.Get[*infrav1.NstanceMachinePool](c.g.api, namespace, o.Spec.Template.Spec.InfrastructureRef.Name)
	switch {
	case !o.DeletionTimestamp.IsZero() && there:
		_ = c.c.Delete(ctx, infra.DeepCopy())
		return
	case !o.DeletionTimestamp.IsZero():
		c.release(ctx, o, clusterv1.MachinePoolFinalizer)
		return
	case !controllerutil.ContainsFinalizer(o, clusterv1.MachinePoolFinalizer):
		change(ctx, c.c, o, func(o *clusterv1.MachinePool) { controllerutil.AddFinalizer(o, clusterv1.MachinePoolFinalizer) })
		return
	case !there:
		return
	case !metav1.IsControlledBy(infra, o):
		change(ctx, c.c, infra, func(infra *infrav1.NstanceMachinePool) {
			_ = controllerutil.SetControllerReference(o, infra, c.g.api.Scheme()) // both are of its kinds
		})
		return
	}
	c.providerIDs(ctx, o, infra)
}

// providerIDs follows the list of the operator. Nodes of ids that leave it are deleted.
func (c *core) providerIDs(ctx context.Context, o *clusterv1.MachinePool, infra *infrav1.NstanceMachinePool) {
	ids := slices.Clone(infra.Spec.ProviderIDList)
	if !infra.Status.Ready || len(ids) == 0 && infra.Status.Replicas != 0 || slices.Equal(ids, o.Spec.ProviderIDList) {
		return
	}
	apiserver.Each(c.g.api, func(node *corev1.Node) {
		if slices.Contains(o.Spec.ProviderIDList, node.Spec.ProviderID) && !slices.Contains(ids, node.Spec.ProviderID) {
			_ = c.c.Delete(ctx, node.DeepCopy())
		}
	})
	change(ctx, c.c, o, func(o *clusterv1.MachinePool) { o.Spec.ProviderIDList = ids })
}

// adopt makes the Machine of an NstanceMachine of a pool, which becomes its owner.
func (c *core) adopt(ctx context.Context, o *infrav1.NstanceMachine) {
	label := o.Labels[clusterv1.MachinePoolNameLabel]
	if label == "" || !o.DeletionTimestamp.IsZero() || o.Labels[clusterv1.ClusterNameLabel] == "" {
		return
	}
	if m, there := apiserver.Get[*clusterv1.Machine](c.g.api, namespace, o.Name); there {
		if metav1.GetControllerOf(o) == nil && m.DeletionTimestamp.IsZero() {
			change(ctx, c.c, o, func(o *infrav1.NstanceMachine) {
				_ = controllerutil.SetControllerReference(m, o, c.g.api.Scheme()) // both are of its kinds
			})
		}
		return
	}
	apiserver.Each(c.g.api, func(pool *clusterv1.MachinePool) {
		if capi.PoolLabel(pool.Name) != label || !pool.DeletionTimestamp.IsZero() {
			return
		}
		m := &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: o.Name, Finalizers: []string{clusterv1.MachineFinalizer},
				Labels: map[string]string{clusterv1.MachinePoolNameLabel: label, clusterv1.ClusterNameLabel: o.Labels[clusterv1.ClusterNameLabel]},
			},
			Spec: clusterv1.MachineSpec{
				ClusterName: pool.Spec.ClusterName, Bootstrap: clusterv1.Bootstrap{DataSecretName: new("")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: infrav1.GroupVersion.Group, Kind: infrav1.KindMachine, Name: o.Name,
				},
			},
		}
		_ = controllerutil.SetControllerReference(pool, m, c.g.api.Scheme()) // both are of its kinds
		_ = c.c.Create(ctx, m)
	})
}

func (c *core) machine(ctx context.Context, o *clusterv1.Machine) {
	infra, there := apiserver.Get[*infrav1.NstanceMachine](c.g.api, namespace, o.Spec.InfrastructureRef.Name)
	node := c.nodeOf(o, infra)
	if !o.DeletionTimestamp.IsZero() {
		c.endMachine(ctx, o, infra, node)
		return
	}
	if !there && metav1.GetControllerOf(o) != nil && time.Since(o.CreationTimestamp.Time) > forsaken {
		_ = c.c.Delete(ctx, o.DeepCopy()) // its instance ended while it was made; here a person sees that
		return
	}
	if !controllerutil.ContainsFinalizer(o, clusterv1.MachineFinalizer) {
		change(ctx, c.c, o, func(o *clusterv1.Machine) { controllerutil.AddFinalizer(o, clusterv1.MachineFinalizer) })
		return
	}
	if there && metav1.GetControllerOf(infra) == nil && infra.DeletionTimestamp.IsZero() {
		change(ctx, c.c, infra, func(infra *infrav1.NstanceMachine) {
			_ = controllerutil.SetControllerReference(o, infra, c.g.api.Scheme()) // both are of its kinds
		})
		return
	}
	if node != nil && !o.Status.NodeRef.IsDefined() {
		changeStatus(ctx, c.c, o, func(o *clusterv1.Machine) { o.Status.NodeRef = clusterv1.MachineNodeReference{Name: node.Name} })
	}
}

// nodeOf is the Node of a Machine, nil as long as there is none.
func (c *core) nodeOf(o *clusterv1.Machine, infra *infrav1.NstanceMachine) *corev1.Node {
	if o.Status.NodeRef.IsDefined() {
		node, _ := apiserver.Get[*corev1.Node](c.g.api, "", o.Status.NodeRef.Name)
		return node
	}
	if infra == nil || infra.Spec.ProviderID == "" {
		return nil
	}
	for _, node := range apiserver.All[*corev1.Node](c.g.api) {
		if node.Spec.ProviderID == infra.Spec.ProviderID {
			return node
		}
	}
	return nil
}

// endMachine empties the Node, deletes the instance, then the Node, then lets go.
func (c *core) endMachine(ctx context.Context, o *clusterv1.Machine, infra *infrav1.NstanceMachine, node *corev1.Node) {
	_, keepsWork := o.Annotations[clusterv1.ExcludeNodeDrainingAnnotation]
	if node != nil && o.Status.NodeRef.IsDefined() && !keepsWork && infra != nil && infra.DeletionTimestamp.IsZero() && !c.emptied(ctx, node) {
		return
	}
	switch {
	case infra != nil && infra.DeletionTimestamp.IsZero():
		_ = c.c.Delete(ctx, infra.DeepCopy())
	case infra != nil:
	case node != nil && o.Status.NodeRef.IsDefined():
		_ = c.c.Delete(ctx, node.DeepCopy())
	default:
		c.release(ctx, o, clusterv1.MachineFinalizer)
	}
}

// emptied cordons a Node, asks its Pods to leave, and reports whether none is left.
func (c *core) emptied(ctx context.Context, node *corev1.Node) bool {
	if !node.Spec.Unschedulable {
		change(ctx, c.c, node, func(n *corev1.Node) { n.Spec.Unschedulable = true })
		return false
	}
	left := false
	for _, pod := range apiserver.All[*corev1.Pod](c.g.api) {
		if pod.Spec.NodeName != node.Name || !works(node) && !pod.DeletionTimestamp.IsZero() {
			continue
		}
		left = true
		if pod.DeletionTimestamp.IsZero() {
			_ = c.c.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{})
		}
	}
	return !left
}

// works reports whether the kubelet of a Node is there.
func works(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// release takes a finalizer off.
func (c *core) release(ctx context.Context, o client.Object, finalizer string) {
	change(ctx, c.c, o, func(o client.Object) { controllerutil.RemoveFinalizer(o, finalizer) })
}

// collect deletes what had owners and has none any more.
func (c *core) collect(ctx context.Context) {
	var owned []client.Object
	live := map[types.UID]bool{}
	add := func(o client.Object) {
		live[o.GetUID()] = true
		owned = append(owned, o)
	}
	apiserver.Each(c.g.api, func(o *clusterv1.Cluster) { add(o) })
	apiserver.Each(c.g.api, func(o *clusterv1.MachinePool) { add(o) })
	apiserver.Each(c.g.api, func(o *clusterv1.Machine) { add(o) })
	apiserver.Each(c.g.api, func(o *infrav1.NstanceMachinePool) { add(o) })
	apiserver.Each(c.g.api, func(o *infrav1.NstanceShardGroup) { add(o) })
	apiserver.Each(c.g.api, func(o *infrav1.NstanceMachine) { add(o) })
	for _, o := range owned {
		lost := func(ref metav1.OwnerReference) bool { return !live[ref.UID] }
		if refs := o.GetOwnerReferences(); len(refs) > 0 && !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return !lost(r) }) && o.GetDeletionTimestamp().IsZero() {
			if copied, ok := o.DeepCopyObject().(client.Object); ok {
				_ = c.c.Delete(ctx, copied)
			}
		}
	}
}
