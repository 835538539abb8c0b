package capi

import clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

// AnnotationRepaving of a Machine is the epoch of the repave that the host of its instance is in: its
// Node is away for some minutes, and comes back.
const AnnotationRepaving = "hosts.nstance.dev/repaving"

// Repaving reports whether the host of a Machine's instance is repaved.
func Repaving(m *clusterv1.Machine) bool {
	_, repaving := m.Annotations[AnnotationRepaving]
	return repaving
}
