// Package v1alpha1 is the API of host machines: the kinds of group hosts.nstance.dev.
//
// A [HostMachine] is a VM or a physical machine whose Kubernetes node runs in a
// systemd-nspawn machine on it. A [MachineConfiguration] says how such a node is built, for a
// class of machines; each state of its template that may be in use is a numbered
// [MachineConfigurationVersion], which is locked when a machine is assigned to it. A
// [MachineOperation] asks for one action on one machine, or on each of a set: a reboot, a
// power cycle.
//
// It says what an object may hold, what its schema refuses, and how labels, annotations,
// conditions and their reasons are called. What happens with an object is up to the
// controllers. All kinds are cluster-scoped, as Nodes are. Callers add the kinds to a scheme
// with AddToScheme.
//
// Rules that compare an object with what is stored stand at its root wherever they are about
// an optional field or the status: the API server skips a rule of a part that a client first
// sets to null and then writes again. Every string, list and map of a spec has an upper
// bound, because the API server refuses rules that it cannot put a price on.
//
// The kinds need Kubernetes 1.31.
//
// +kubebuilder:object:generate=true
// +groupName=hosts.nstance.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "hosts.nstance.dev", Version: "v1alpha1"}

var builder = runtime.NewSchemeBuilder(addKinds)

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = builder.AddToScheme

func addKinds(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&HostMachine{}, &HostMachineList{},
		&MachineConfiguration{}, &MachineConfigurationList{},
		&MachineConfigurationVersion{}, &MachineConfigurationVersionList{},
		&MachineOperation{}, &MachineOperationList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
