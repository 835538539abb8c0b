package shard

import (
	"context"
	"errors"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/hosts"
	"nstance.dev/server/refusal"
)

// StartOperation has a host carry an operation out, as do the next two what their names say.
func (s *Shard) StartOperation(ctx context.Context, r *nstancev1.StartOperationRequest) (out *nstancev1.OperationStatus, err error) {
	err = s.call(r.GetInstanceId(), func(t *term, row cache.Instance) (err error) {
		out, err = t.Order(ctx, row, hosts.OrderRequest{ID: r.GetId(), Name: r.GetName(), Params: r.GetParameters(), Deadline: r.GetDeadline().AsTime()})
		return err
	})
	return out, err
}

// GetOperation says how an operation is.
func (s *Shard) GetOperation(_ context.Context, id string) (out *nstancev1.OperationStatus, err error) {
	err = s.call("", func(t *term, _ cache.Instance) (err error) {
		out, err = t.Operation(Tenant, id)
		return err
	})
	return out, err
}

// CancelOperation cancels one.
func (s *Shard) CancelOperation(ctx context.Context, id string) (out *nstancev1.OperationStatus, err error) {
	err = s.call("", func(t *term, _ cache.Instance) (err error) {
		out, err = t.CancelOrder(ctx, Tenant, id)
		return err
	})
	return out, err
}

// Refusal is the code and the reason of the answer to a call that is not carried out; false: the error is none.
func Refusal(err error) (code, reason string, refused bool) {
	var r *refusal.Error
	if !errors.As(err, &r) {
		return "", "", false
	}
	return string(r.Code), r.Reason, true
}
