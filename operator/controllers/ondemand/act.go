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

	api "nstance.dev/operator/api/infrastructure/v1beta1"
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
			pod.Spec.SchedulingGates = slices.DeleteFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == api.OnDemandGate })
		})
	case Make:
		return r.make(ctx, o.Pod, a)
	case MarkEnded:
		next := o.Machine.DeepCopy()
		annotate(next, Annotate{api.OnDemandEndedAt: a.At.UTC().Format(time.RFC3339)})
		return r.Client.Patch(ctx, next, client.MergeFrom(o.Machine))
	case DeleteMachine:
		ctrl.LoggerFrom(ctx).Info("deleting Machine of a pod", "machine", o.Machine.Name)
		return r.Client.Delete(ctx, o.Machine, client.Preconditions{UID: &o.Machine.UID})
	case DeleteInfra:
		return r.Client.Delete(ctx, o.Infra, client.Preconditions{UID: &o.Infra.UID})
	case Tell:
		kind := corev1.EventTypeNormal
		if a.Warning {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(o.Pod, nil, kind, a.Reason, "Provide", "%s", a.Message)
		if a.Reason == reasonReady {
			r.Ready(r.Now().Sub(o.Pod.CreationTimestamp.Time))
		}
		return nil
	case TellNode:
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
			clusterv1.ClusterNameLabel:    r.Cluster,
			api.LabelOnDemandPodUID:       string(pod.UID),
			api.LabelOnDemandPodNamespace: pod.Namespace,
			api.LabelOnDemandPodName:      capi.Label(pod.Name),
		},
		Annotations: map[string]string{api.LabelOnDemandPodNamespace: pod.Namespace, api.LabelOnDemandPodName: pod.Name},
	}
	if a.Ask.Claim != "" {
		about.Labels[api.OnDemandClaim] = a.Ask.Claim
	}
	own := *about.DeepCopy()
	if tries := pod.Annotations[api.OnDemandTries]; tries != "" {
		own.Annotations[api.OnDemandTries] = tries // where the Pod's owner cannot take them off
	}
	infra := &api.NstanceMachine{ObjectMeta: own, Spec: api.NstanceMachineSpec{
		Mode: api.MachineOnDemand,
		MachineSettings: api.MachineSettings{
			GroupRef: api.GroupReference{Name: a.Ask.Group}, InstanceType: a.Ask.InstanceType, Vars: a.Ask.Vars,
		},
	}}
	if err := r.Client.Create(ctx, infra); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make NstanceMachine %s: %w", about.Name, err)
	}
	none := ""
	machine := &clusterv1.Machine{ObjectMeta: about, Spec: clusterv1.MachineSpec{
		ClusterName: r.Cluster, FailureDomain: a.Shard,
		Bootstrap:         clusterv1.Bootstrap{DataSecretName: &none},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: api.GroupVersion.Group, Kind: api.KindMachine, Name: about.Name},
	}}
	switch err := r.Client.Create(ctx, machine); {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("make Machine %s: %w", about.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("created Machine for a pod", "machine", about.Name, "pod", pod.Namespace+"/"+pod.Name, "group", a.Ask.Group, "shard", a.Shard)
	return nil
}
