// Package v1beta1 is the API of Nstance as infrastructure for Cluster API: the kinds
// of group infrastructure.cluster.x-k8s.io that stand for clusters, pools, machines and
// the share of a pool that one shard keeps.
//
// It says what an object may hold, what is refused by its schema, and how labels,
// annotations, conditions and their reasons are called. What happens with an object is
// up to the controllers. Callers add the kinds to a scheme with AddToScheme.
//
// Names of shards, groups, templates and ids of instances are plain strings here: the
// schema checks their form, the operator checks them again where they reach a server.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

var builder = runtime.NewSchemeBuilder(addKinds)

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = builder.AddToScheme

func addKinds(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&NstanceCluster{}, &NstanceClusterList{},
		&NstanceMachinePool{}, &NstanceMachinePoolList{},
		&NstanceShardGroup{}, &NstanceShardGroupList{},
		&NstanceMachine{}, &NstanceMachineList{},
		&NstanceMachineTemplate{}, &NstanceMachineTemplateList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
