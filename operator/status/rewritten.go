package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Rewritten passes updates of objects in which a condition of these types has changed, whoever did that. A controller
// that watches its own conditions so writes them again when a process that had stood still has overwritten them with
// what it knew before.
func Rewritten[T client.Object](conditions func(T) []metav1.Condition, types ...string) predicate.Predicate {
	of := func(object client.Object) []metav1.Condition {
		typed, ok := object.(T)
		if !ok {
			return nil
		}
		all := slices.DeleteFunc(slices.Clone(conditions(typed)), func(c metav1.Condition) bool { return !slices.Contains(types, c.Type) })
		sortByType(all)
		return all
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(of(e.ObjectOld), of(e.ObjectNew))
	}}
}
