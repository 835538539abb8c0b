// Package v1beta1 is the API of Nstance as control plane for Cluster API: one kind of
// group controlplane.cluster.x-k8s.io that says the control plane is there, whoever runs
// it.
//
// Nothing is provisioned through it. Cluster API watches Nodes, checks the health of
// machines and drains them only in clusters whose control plane is initialized, and that
// is what this object reports. Callers add the kind to a scheme with AddToScheme. Labels,
// conditions and reasons stand in the infrastructure API.
//
// +kubebuilder:object:generate=true
// +groupName=controlplane.cluster.x-k8s.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta1"}

// KindControlPlane is the kind, as references write it.
const KindControlPlane = "NstanceControlPlane"

var builder = runtime.NewSchemeBuilder(addKinds)

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = builder.AddToScheme

func addKinds(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &NstanceControlPlane{}, &NstanceControlPlaneList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
