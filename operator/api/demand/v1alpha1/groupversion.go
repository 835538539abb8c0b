// Package v1alpha1 is the API of demand mode: the kinds of group demand.nstance.dev.
//
// A [CapacityRequest] says what one Pod, or one indivisible unit of another workload API,
// needs for its whole lifetime. [UpcomingNode] and [AvailableCapacity] are read back from
// the shards for people and tools; nothing reads them into a decision.
//
// It says what an object may hold, what is refused by its schema, and how labels,
// annotations, conditions and their reasons are called. What happens with an object is up
// to the controllers. Callers add the kinds to a scheme with AddToScheme.
//
// The kinds need Kubernetes 1.31: an older API server drops the selectable fields of a
// definition in silence.
//
// +kubebuilder:object:generate=true
// +groupName=demand.nstance.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "demand.nstance.dev", Version: "v1alpha1"}

var builder = runtime.NewSchemeBuilder(addKinds)

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = builder.AddToScheme

func addKinds(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&CapacityRequest{}, &CapacityRequestList{},
		&UpcomingNode{}, &UpcomingNodeList{},
		&AvailableCapacity{}, &AvailableCapacityList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
