package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "nstance.dev/operator/api/controlplane/v1beta1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// trio are the three objects of a cluster; nil: it is not there.
type trio struct {
	cluster        *clusterv1.Cluster
	infrastructure *infrav1.NstanceCluster
	controlPlane   *controlplanev1.NstanceControlPlane
}

// all returns those that are there.
func (t trio) all() []client.Object {
	var all []client.Object
	if t.cluster != nil {
		all = append(all, t.cluster)
	}
	if t.infrastructure != nil {
		all = append(all, t.infrastructure)
	}
	if t.controlPlane != nil {
		all = append(all, t.controlPlane)
	}
	return all
}

// objects returns the three as the operator makes them.
func objects(namespace, name string, endpoint clusterv1.APIEndpoint) trio {
	meta := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{infrav1.LabelManaged: "true", clusterv1.ClusterNameLabel: name},
		}
	}
	return trio{
		cluster: &clusterv1.Cluster{
			ObjectMeta: meta(),
			Spec: clusterv1.ClusterSpec{
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: infrav1.GroupVersion.Group, Kind: infrav1.KindCluster, Name: name,
				},
				ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: controlplanev1.GroupVersion.Group, Kind: controlplanev1.KindControlPlane, Name: name,
				},
			},
		},
		infrastructure: &infrav1.NstanceCluster{
			ObjectMeta: meta(), Spec: infrav1.NstanceClusterSpec{ControlPlaneEndpoint: endpoint},
		},
		controlPlane: &controlplanev1.NstanceControlPlane{
			ObjectMeta: meta(), Spec: controlplanev1.NstanceControlPlaneSpec{ControlPlaneEndpoint: endpoint},
		},
	}
}

// missing returns the objects that are to be made, in order: what is referred to comes
// before the Cluster that refers to it. A Cluster that names another control plane gets
// none of ours.
func missing(want, have trio) []client.Object {
	for _, object := range have.all() {
		if !object.GetDeletionTimestamp().IsZero() {
			return nil
		}
	}
	var lacking []client.Object
	if have.infrastructure == nil {
		lacking = append(lacking, want.infrastructure)
	}
	if have.controlPlane == nil && (have.cluster == nil || have.cluster.Spec.ControlPlaneRef == want.cluster.Spec.ControlPlaneRef) {
		lacking = append(lacking, want.controlPlane)
	}
	if have.cluster == nil {
		lacking = append(lacking, want.cluster)
	}
	return lacking
}

// external is whether somebody else looks after an object, as Cluster API's contract has it.
func external(object client.Object) bool {
	_, annotated := object.GetAnnotations()[clusterv1.ManagedByAnnotation]
	_, labelled := object.GetLabels()[clusterv1.ManagedByAnnotation]
	return annotated || labelled
}
