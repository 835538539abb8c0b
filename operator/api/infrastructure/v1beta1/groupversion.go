// Package v1beta1 is the API of Nstance as infrastructure for Cluster API: the kinds
// of group infrastructure.cluster.x-k8s.io that stand for clusters, pools, machines and
// the share of a pool that one shard keeps.
//
// It says what an object may hold and what is refused by its schema. What happens with
// an object is up to the controllers. Callers add the kinds to a scheme with AddToScheme.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

// GroupVersion is the group and version of the kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

var builder = &scheme.Builder{GroupVersion: GroupVersion}

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = builder.AddToScheme
