package capi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// MachinePool is the MachinePool that the operator makes for a pool.
func MachinePool(pool *infrav1.NstanceMachinePool, name, cluster string, replicas int32) *clusterv1.MachinePool {
	labels := map[string]string{clusterv1.ClusterNameLabel: cluster, infrav1.LabelManaged: "true"}
	if filter, ok := pool.Labels[clusterv1.WatchLabel]; ok {
		labels[clusterv1.WatchLabel] = filter
	}
	return &clusterv1.MachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: name, Labels: labels},
		Spec: clusterv1.MachinePoolSpec{
			ClusterName: cluster, Replicas: &replicas, FailureDomains: pool.Spec.Shards,
			Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
				ClusterName: cluster,
				Bootstrap:   clusterv1.Bootstrap{DataSecretName: ptr.To("")}, // the servers boot their instances themselves
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: infrav1.GroupVersion.Group, Kind: infrav1.KindMachinePool, Name: pool.Name,
				},
			}},
		},
	}
}

// ShardGroupLabels are the labels of the NstanceShardGroup of a pool on a shard.
func ShardGroupLabels(pool *infrav1.NstanceMachinePool, shard, cluster string) map[string]string {
	labels := map[string]string{
		infrav1.LabelGroup: pool.Spec.Group, infrav1.LabelShard: shard, infrav1.LabelPool: Label(pool.Name),
		clusterv1.ClusterNameLabel: cluster,
	}
	if filter, ok := pool.Labels[clusterv1.WatchLabel]; ok {
		labels[clusterv1.WatchLabel] = filter
	}
	return labels
}

// Annotate sets an annotation, or takes it off for an empty value.
func Annotate(object client.Object, key, value string) {
	annotations := object.GetAnnotations()
	if value == "" {
		delete(annotations, key)
		return
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}
