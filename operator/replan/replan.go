// Package replan makes nothing of writes that came too late.
//
// Who writes what was decided from a copy is refused where the object has changed since:
// that is how it should be, and happens every day. It is no failure: the work is done again,
// from a newer copy, and nobody has to read of it. [Reconciler] does that around every
// controller, so none of them has to.
package replan

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Pause is how long it is until the work is done again: caches have what changed by then,
// nearly always.
const Pause = 20 * time.Millisecond

// Reconciler returns r, with its conflicts as requests to come again.
func Reconciler(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, request)
		if late(err) {
			return reconcile.Result{RequeueAfter: Pause}, nil
		}
		return result, err
	})
}

// late is whether all that an error says is that somebody else was faster.
func late(err error) bool {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		return !slices.ContainsFunc(several.Unwrap(), func(err error) bool { return !late(err) })
	}
	return apierrors.IsConflict(err)
}
