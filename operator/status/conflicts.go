package status

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// RequeueConflicts returns r, with its conflicts as requests to come again: after the pauses of the
// queue, a few milliseconds at first, and longer where the copy does not get newer.
func RequeueConflicts(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, request)
		if late(err) {
			return again, nil
		}
		return result, err
	})
}

// again has the queue make its growing pauses, which nothing else does but an error.
var again = reconcile.Result{Requeue: true} //nolint:staticcheck // its successor is a pause that does not grow

// late is whether all that an error says is that somebody else was faster.
func late(err error) bool {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		return !slices.ContainsFunc(several.Unwrap(), func(err error) bool { return !late(err) })
	}
	return apierrors.IsConflict(err)
}
