package host

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
	"nstance.dev/operator/nodes"
)

// marked returns a Node with what says what it was built from; the Node itself where it says so.
func marked(n *corev1.Node, m *hostsv1.HostMachine, v hostsv1.VersionReference) *corev1.Node {
	next := n.DeepCopy()
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	changed := false
	put := func(in map[string]string, key, value string) {
		if in[key] != value {
			in[key], changed = value, true
		}
	}
	put(next.Labels, hostsv1.LabelMachine, m.Name)
	put(next.Annotations, hostsv1.AnnotationConfiguration, string(v.Name))
	put(next.Annotations, hostsv1.AnnotationConfigurationVersion, strconv.Itoa(int(v.Version)))
	put(next.Annotations, hostsv1.AnnotationConfigurationUID, v.UID)
	put(next.Annotations, hostsv1.AnnotationConfigurationHash, string(v.Hash))
	put(next.Annotations, hostsv1.AnnotationMachineUID, string(m.UID))
	if !changed {
		return n
	}
	return next
}

// mark sets the marks of the Node right that was seen. A Node that has changed since is looked at again.
func (r *Reconciler) mark(ctx context.Context, p *pass) error {
	next := marked(p.node, p.m, p.d.Joined.Version)
	if next == p.node {
		return nil
	}
	patch := client.MergeFromWithOptions(p.node, client.MergeFromWithOptimisticLock{})
	if err := r.opts.Nodes.Client.Patch(ctx, next, patch, manager); err != nil {
		return fmt.Errorf("mark Node %s: %w", p.node.Name, err)
	}
	p.log.InfoContext(ctx, "marked Node", "node", p.node.Name, "configuration", string(p.d.Joined.Version.Name), "version", p.d.Joined.Version.Version)
	return nil
}

// cordon keeps Pods off the Node that a kubelet has made which is about to be stopped.
func (r *Reconciler) cordon(ctx context.Context, p *pass) error {
	if p.d.Assignment.Cordon == "" || p.node == nil || p.node.Spec.Unschedulable {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.d.Assignment.Cordon}, "spec": map[string]any{"unschedulable": true}})
	if err != nil {
		return fmt.Errorf("patch of Node %s: %w", p.node.Name, err)
	}
	err = r.opts.Nodes.Client.Patch(ctx, p.node.DeepCopy(), client.RawPatch(types.MergePatchType, patch), manager)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cordon Node %s: %w", p.node.Name, err)
	}
	p.log.InfoContext(ctx, "cordoned Node", "node", p.node.Name)
	return nil
}

// removeNode deletes the Node of a machine that is stopped, if nothing has changed it since.
func (r *Reconciler) removeNode(ctx context.Context, p *pass) error {
	return r.deleteNode(ctx, p, nodes.Instanceless{NodeProviderID: p.node.Spec.ProviderID, HostMachine: true, HostStopped: true})
}

// deleteNode deletes the Node that was seen, if it is up to the controller of host machines to do so.
func (r *Reconciler) deleteNode(ctx context.Context, p *pass, n nodes.Instanceless) error {
	d := nodes.DeletionOf(n, r.opts.Now())
	if d.Owner != nodes.OwnerHost {
		p.log.DebugContext(ctx, "keeping Node", "node", p.node.Name, "owner", string(d.Owner), "why", d.Reason)
		return nil
	}
	err := r.opts.Nodes.Client.Delete(ctx, p.node, client.Preconditions{UID: &p.node.UID, ResourceVersion: &p.node.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Node %s: %w", p.node.Name, err)
	}
	p.log.InfoContext(ctx, "deleted Node", "node", p.node.Name, "why", d.Reason)
	return nil
}

// undrained returns how many Pods were left on a Node that was deleted, those that stay until the end of a
// Node left out. What cannot be listed is not told of.
func (r *Reconciler) undrained(ctx context.Context, node string) int {
	var pods corev1.PodList
	if err := r.opts.Nodes.Live.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		r.opts.Log.DebugContext(ctx, "cannot list the Pods of a deleted Node", "node", node, "error", err)
		return 0
	}
	n := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
		stays := mirror || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		for _, owner := range pod.OwnerReferences {
			stays = stays || owner.Kind == "DaemonSet"
		}
		if !stays {
			n++
		}
	}
	return n
}

// ours is whether the Node that was seen is the machine's.
func (p *pass) ours() bool {
	return p.node != nil && (p.in.Node.MachineUID == string(p.m.UID) || p.m.Status.NodeRef != nil && p.m.Status.NodeRef.UID == p.in.Node.UID && p.in.Node.UID != "")
}

// repaving is whether the Node of a machine is away because its host is repaved, or will be once nothing
// holds that back any more; known is false where it cannot be told. That its shard is out of sight changes nothing: the
// Node is as far away.
func repaving(p *pass) (is, known bool) {
	a := p.m.Status.Configuration
	if p.d.Row == lifecycle.RowForeign || !p.m.DeletionTimestamp.IsZero() || a == nil || a.Assigned == nil || a.Applied == nil || p.m.Status.NodeRef == nil {
		return false, true
	}
	ref, n := p.m.Status.NodeRef.UID, p.in.Node
	switch {
	case ref == "":
		return !meta.IsStatusConditionTrue(p.d.Conditions, hostsv1.ConditionRepaveFailed), true
	case p.in.Instance.Leaving != "":
		return false, true
	case n.Presence != lifecycle.NodeLive && n.Presence != lifecycle.NodeAbsent:
		return false, false
	}
	return n.UID != ref, true
}
