package ondemand

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
)

// act carries one action out.
func (r *Reconciler) act(ctx context.Context, o *Observation, action Action) error {
	switch a := action.(type) {
	case Annotate:
		if err := r.patchPod(ctx, o, func(pod *corev1.Pod) { annotate(pod, a) }); err != nil {
			return err
		}
		r.memory.note(string(o.Pod.UID), a)
		return nil
	case Ungate:
		return r.patchPod(ctx, o, func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = slices.DeleteFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == infrav1.OnDemandGate })
		})
	case Make:
		return r.make(ctx, o.Pod, a)
	case MarkEnded:
		next := o.Machine.DeepCopy()
		annotate(next, Annotate{infrav1.OnDemandEndedAt: a.At.UTC().Format(time.RFC3339)})
		return r.Client.Patch(ctx, next, client.MergeFrom(o.Machine))
	case DeleteMachine:
		ctrl.LoggerFrom(ctx).Info("deleting Machine of a pod", "machine", o.Machine.Name, "shard", o.Machine.Spec.FailureDomain,
			"generation", o.Machine.Generation, "reason", a.Why)
		return r.Client.Delete(ctx, o.Machine, client.Preconditions{UID: &o.Machine.UID})
	case DeleteInfra:
		return r.Client.Delete(ctx, o.Infra, client.Preconditions{UID: &o.Infra.UID})
	case PublishEvent:
		kind := corev1.EventTypeNormal
		if a.Warning {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(o.Pod, nil, kind, a.Reason, "Provide", "%s", a.Message)
		if a.Reason == reasonReady {
			r.Ready(r.Now().Sub(o.Pod.CreationTimestamp.Time))
		}
		return nil
	case PublishNodeEvent:
		r.Events.Eventf(o.Node, o.Pod, corev1.EventTypeWarning, a.Reason, "Provide", "%s", a.Message)
		return nil
	default:
		panic(fmt.Sprintf("ondemand: no way to carry out %T", action))
	}
}

// patchPod changes the Pod as it was read, and the observation with it, so that the next
// action begins where this one ended.
func (r *Reconciler) patchPod(ctx context.Context, o *Observation, change func(*corev1.Pod)) error {
	next := o.Pod.DeepCopy()
	change(next)
	if err := r.Workload.Patch(ctx, next, client.MergeFromWithOptions(o.Pod, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	o.Pod = next
	return nil
}

func annotate(object client.Object, notes Annotate) {
	all := object.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range notes {
		if value == "" {
			delete(all, key)
		} else {
			all[key] = value
		}
	}
	object.SetAnnotations(all)
}

// make makes the NstanceMachine and then the Machine that refers to it. Each may be there:
// their names are the Pod's.
func (r *Reconciler) make(ctx context.Context, pod *corev1.Pod, a Make) error {
	about := metav1.ObjectMeta{
		Namespace: r.Namespace, Name: capi.OnDemand(pod.Name, pod.UID),
		Labels: map[string]string{
			clusterv1.ClusterNameLabel:        r.Cluster,
			infrav1.LabelOnDemandPodUID:       string(pod.UID),
			infrav1.LabelOnDemandPodNamespace: pod.Namespace,
			infrav1.LabelOnDemandPodName:      capi.Label(pod.Name),
		},
		Annotations: map[string]string{infrav1.LabelOnDemandPodNamespace: pod.Namespace, infrav1.LabelOnDemandPodName: pod.Name},
	}
	if a.Request.Claim != "" {
		about.Labels[infrav1.OnDemandClaim] = a.Request.Claim
	}
	own := *about.DeepCopy()
	if tries := pod.Annotations[infrav1.OnDemandTries]; tries != "" {
		own.Annotations[infrav1.OnDemandTries] = tries // where the Pod's owner cannot take them off
	}
	infra := &infrav1.NstanceMachine{ObjectMeta: own, Spec: infrav1.NstanceMachineSpec{
		Mode: infrav1.MachineOnDemand,
		MachineSettings: infrav1.MachineSettings{
			GroupRef: infrav1.GroupReference{Name: a.Request.Group}, InstanceType: a.Request.InstanceType, Vars: a.Request.Vars,
		},
	}}
	if err := r.Client.Create(ctx, infra); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make NstanceMachine %s: %w", about.Name, err)
	}
	none := ""
	machine := &clusterv1.Machine{ObjectMeta: about, Spec: clusterv1.MachineSpec{
		ClusterName: r.Cluster, FailureDomain: a.Shard,
		Bootstrap:         clusterv1.Bootstrap{DataSecretName: &none},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: infrav1.KindMachine, Name: about.Name},
	}}
	switch err := r.Client.Create(ctx, machine); {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("make Machine %s: %w", about.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("created Machine for a pod", "machine", about.Name, "pod", pod.Namespace+"/"+pod.Name, "group", a.Request.Group, "shard", a.Shard,
		"generation", machine.Generation, "reason", "the pod asks for a machine of its own")
	return nil
}
