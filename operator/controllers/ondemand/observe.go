package ondemand

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// observe reads what a decision about the Pod of a UID needs.
func (r *Reconciler) observe(ctx context.Context, uid string) (*Observation, error) {
	o := &Observation{}
	for _, look := range []func(context.Context, string, *Observation) error{r.observeMachine, r.observePod, r.observeNode, r.observeRoom} {
		if err := look(ctx, uid, o); err != nil {
			return nil, err
		}
	}
	if o.Pod != nil {
		o.Pod = r.memory.restore(o.Pod, o.Infra)
	}
	return o, nil
}

func (r *Reconciler) observeMachine(ctx context.Context, uid string, o *Observation) error {
	var machines clusterv1.MachineList
	of := client.MatchingLabels{infrav1.LabelOnDemandPodUID: uid}
	if err := r.Client.List(ctx, &machines, client.InNamespace(r.Namespace), of); err != nil {
		return fmt.Errorf("machines of pod %s: %w", uid, err)
	}
	if len(machines.Items) > 0 {
		o.Machine = &machines.Items[0]
	}
	var infras infrav1.NstanceMachineList
	if err := r.Client.List(ctx, &infras, client.InNamespace(r.Namespace), of); err != nil {
		return fmt.Errorf("machines of pod %s: %w", uid, err)
	}
	if len(infras.Items) > 0 {
		o.Infra = &infras.Items[0]
	}
	return nil
}

// observePod finds the Pod. That there is none is asked of the API server itself.
func (r *Reconciler) observePod(ctx context.Context, uid string, o *Observation) error {
	var pods corev1.PodList
	if err := r.Workload.List(ctx, &pods, client.MatchingFields{byUID: uid}); err != nil {
		return fmt.Errorf("pod %s: %w", uid, err)
	}
	if len(pods.Items) > 0 {
		o.Pod = &pods.Items[0]
		return nil
	}
	var made client.Object
	switch {
	case o.Machine != nil:
		made = o.Machine
	case o.Infra != nil:
		made = o.Infra
	default:
		return nil // nothing depends on it
	}
	pod := &corev1.Pod{}
	name := client.ObjectKey{
		Namespace: made.GetAnnotations()[infrav1.LabelOnDemandPodNamespace], Name: made.GetAnnotations()[infrav1.LabelOnDemandPodName],
	}
	err := r.Live.Get(ctx, name, pod)
	if err == nil && string(pod.UID) == uid {
		o.Pod = pod
	}
	return client.IgnoreNotFound(err)
}

func (r *Reconciler) observeNode(ctx context.Context, _ string, o *Observation) error {
	if o.Infra == nil || o.Infra.Status.NodeRef == nil {
		return nil
	}
	node := &corev1.Node{}
	err := r.Workload.Get(ctx, client.ObjectKey{Name: o.Infra.Status.NodeRef.Name}, node)
	if err != nil || node.UID != o.Infra.Status.NodeRef.UID {
		return client.IgnoreNotFound(err)
	}
	o.Node = node
	if o.Pod == nil || !gated(o.Pod) && !unschedulable(o.Pod) {
		return nil
	}
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node.Name}); err != nil {
		return fmt.Errorf("pods of node %s: %w", node.Name, err)
	}
	if slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.UID == o.Pod.UID }) {
		return nil // it is bound, and the cache is behind
	}
	o.Strangers = strangers(pods.Items)
	return nil
}

// strangers returns the names of Pods that somebody may miss a Node of their own for: not
// those that belong to every Node.
func strangers(pods []corev1.Pod) []string {
	var names []string
	for i := range pods {
		pod := &pods[i]
		_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
		owner := metav1.GetControllerOf(pod)
		if !mirror && (owner == nil || owner.Kind != "DaemonSet") {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	return names
}

// observeRoom reads what it takes to make a Machine, if there is none.
func (r *Reconciler) observeRoom(ctx context.Context, _ string, o *Observation) error {
	if o.Pod == nil || o.Machine != nil {
		return nil
	}
	o.Shards = r.Shards(o.Pod.Annotations[infrav1.OnDemandGroup])
	var machines clusterv1.MachineList
	err := r.Client.List(ctx, &machines, client.InNamespace(r.Namespace), client.MatchingLabels{infrav1.LabelOnDemandPodNamespace: o.Pod.Namespace})
	if err != nil {
		return fmt.Errorf("machines of namespace %s: %w", o.Pod.Namespace, err)
	}
	var made []string
	for i := range machines.Items {
		made = append(made, machines.Items[i].Labels[infrav1.LabelOnDemandPodUID])
	}
	o.InNamespace = r.memory.reserve(o.Pod.Namespace, string(o.Pod.UID), made, r.Rules.MaxPerNamespace)
	for _, v := range o.Pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		volume, err := r.volume(ctx, client.ObjectKey{Namespace: o.Pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
		if err != nil {
			return err
		}
		if volume != nil {
			o.Volumes = append(o.Volumes, *volume)
		}
	}
	return nil
}

// volume returns the volume that a claim is bound to; nil: none yet.
func (r *Reconciler) volume(ctx context.Context, name client.ObjectKey) (*corev1.PersistentVolume, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.Workload.Get(ctx, name, claim); err != nil || claim.Spec.VolumeName == "" {
		return nil, client.IgnoreNotFound(err)
	}
	volume := &corev1.PersistentVolume{}
	if err := r.Workload.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return volume, nil
}
