package capi

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// SpecChanged lets no update pass that writes the status of an object alone, as most do.
func SpecChanged() predicate.Predicate {
	return ChangedIn(func(client.Object) any { return nil })
}

// MachineChanged lets no update of a Machine pass that is nothing to its infrastructure: most say
// how far Cluster API is with it.
func MachineChanged() predicate.Predicate {
	return ChangedIn(func(o client.Object) any {
		m, ok := o.(*clusterv1.Machine)
		if !ok {
			return nil
		}
		facts := []any{m.Status.NodeRef}
		for _, condition := range []string{clusterv1.MachineNodeReadyCondition, clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
			facts = append(facts, meta.FindStatusCondition(m.Status.Conditions, condition))
		}
		return facts
	})
}

// ChangedIn lets an update pass that changes the metadata or the spec of an object, or the facts of its
// status that a controller reads, which have no unexported fields.
func ChangedIn(facts func(client.Object) any) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld, e.ObjectNew
		return before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() ||
			before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
			!equality.Semantic.DeepEqual(before.GetFinalizers(), after.GetFinalizers()) ||
			!equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) ||
			!equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()) ||
			!equality.Semantic.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) ||
			!equality.Semantic.DeepEqual(facts(before), facts(after))
	}}
}
