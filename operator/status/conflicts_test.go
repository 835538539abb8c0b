package status_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"nstance.dev/operator/status"
)

func TestOnlyWhatCameTooLateIsDoneAgain(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "m", errors.New("changed"))
	broken := errors.New("broken")
	for _, tt := range []struct {
		name  string
		err   error
		again bool
	}{
		{"a conflict", conflict, true},
		{"with what it was about", fmt.Errorf("write the status: %w", conflict), true},
		{"two conflicts", errors.Join(conflict, fmt.Errorf("and: %w", conflict)), true},
		{"something else", broken, false},
		{"a conflict and something else", fmt.Errorf("both: %w", errors.Join(conflict, broken)), false},
		{"a refusal", apierrors.NewForbidden(schema.GroupResource{}, "m", nil), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := status.RequeueConflicts(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, tt.err
			}))
			result, err := r.Reconcile(t.Context(), reconcile.Request{})
			want := reconcile.Result{Requeue: tt.again} //nolint:staticcheck // see the package
			if result != want || (err == nil) != tt.again {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
	r := status.RequeueConflicts(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: time.Hour}, nil
	}))
	if result, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil || result.RequeueAfter != time.Hour {
		t.Errorf("without an error: %+v, %v", result, err)
	}
}
