package scale

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// own gives each NstanceMachine the Machine that Cluster API would, which becomes its
// owner.
func (w *world) own() {
	w.t.Helper()
	pools, err := w.all(w.t.Context(), machinePools)
	if err != nil {
		w.t.Fatal(err)
	}
	owners := map[string]*unstructured.Unstructured{} // MachinePools, by the label of their Machines
	for i := range pools {
		owners[pools[i].GetName()] = &pools[i]
	}
	mirrors, err := w.all(w.t.Context(), nstanceMachines)
	if err != nil {
		w.t.Fatal(err)
	}
	var makers []maker
	for i := range mirrors {
		var mirror infrav1.NstanceMachine
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(mirrors[i].Object, &mirror); err != nil {
			w.t.Fatal(err)
		}
		owner := owners[mirror.Labels[clusterv1.MachinePoolNameLabel]]
		makers = append(makers, func(ctx context.Context) error { return w.makeMachine(ctx, owner, &mirror) })
	}
	w.make("Machines are made", makers)
}

// makeMachine makes the Machine of one NstanceMachine, which runs.
func (w *world) makeMachine(ctx context.Context, pool *unstructured.Unstructured, mirror *infrav1.NstanceMachine) error {
	machine := machineOf(pool, mirror, time.Now())
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(machine)
	if err != nil {
		return err
	}
	client := w.custom.Resource(machines).Namespace(namespace)
	made, err := client.Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Object["status"] = content["status"]
	if made, err = client.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	// The pool stays an owner; each has another UID, so that a merge by hand is as good.
	patch := fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":"NstanceMachinePool","name":%q,"uid":%q},`+
		`{"apiVersion":%q,"kind":"Machine","name":%q,"uid":%q,"controller":true,"blockOwnerDeletion":true}]}}`,
		mirror.OwnerReferences[0].APIVersion, mirror.OwnerReferences[0].Name, mirror.OwnerReferences[0].UID,
		made.GetAPIVersion(), made.GetName(), made.GetUID())
	_, err = w.custom.Resource(nstanceMachines).Namespace(namespace).Patch(ctx, mirror.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// machineOf returns the Machine of an NstanceMachine as the controllers of Cluster API leave
// it once its Node is ready.
func machineOf(pool *unstructured.Unstructured, mirror *infrav1.NstanceMachine, now time.Time) *clusterv1.Machine {
	at, yes, no := metav1.NewTime(now), true, ""
	m := &clusterv1.Machine{
		TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: mirror.Namespace, Name: mirror.Name, Finalizers: []string{clusterv1.MachineFinalizer},
			Labels: map[string]string{
				clusterv1.ClusterNameLabel:     mirror.Labels[clusterv1.ClusterNameLabel],
				clusterv1.MachinePoolNameLabel: mirror.Labels[clusterv1.MachinePoolNameLabel],
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: pool.GetAPIVersion(), Kind: pool.GetKind(), Name: pool.GetName(), UID: pool.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName: mirror.Labels[clusterv1.ClusterNameLabel], ProviderID: mirror.Spec.ProviderID, FailureDomain: mirror.Spec.Shard,
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: &no},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: infrav1.KindMachine, Name: mirror.Name},
		},
		Status: clusterv1.MachineStatus{
			NodeRef: clusterv1.MachineNodeReference{Name: mirror.Status.NodeRef.Name}, Addresses: mirror.Status.Addresses,
			Phase: string(clusterv1.MachinePhaseRunning), LastUpdated: at, ObservedGeneration: 1,
			Initialization: clusterv1.MachineInitializationStatus{InfrastructureProvisioned: &yes, BootstrapDataSecretCreated: &yes},
		},
	}
	for kind, status := range map[string]metav1.ConditionStatus{
		clusterv1.AvailableCondition: metav1.ConditionTrue, clusterv1.ReadyCondition: metav1.ConditionTrue,
		clusterv1.MachineBootstrapConfigReadyCondition: metav1.ConditionTrue, clusterv1.MachineInfrastructureReadyCondition: metav1.ConditionTrue,
		clusterv1.MachineNodeHealthyCondition: metav1.ConditionTrue, clusterv1.MachineNodeReadyCondition: metav1.ConditionTrue,
		clusterv1.MachineUpToDateCondition: metav1.ConditionTrue,
		clusterv1.DeletingCondition:        metav1.ConditionFalse, clusterv1.PausedCondition: metav1.ConditionFalse,
	} {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "AsItShould", LastTransitionTime: at, ObservedGeneration: 1})
	}
	return m
}
