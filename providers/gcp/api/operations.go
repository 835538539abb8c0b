package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/iterator"

	"nstance.dev/server/driver"
)

// Asking for an operation may fail a few times in a row before the answer counts
// as lost.
const (
	operationTries = 5
	operationPause = time.Second
)

// Finish waits until an operation is done and returns its error. While it is not
// done when ctx ends, or cannot be asked for, the error is [driver.Ambiguous].
func (a *Client) Finish(ctx context.Context, op string, running *computepb.Operation) error {
	for failures := 0; InProgress(running); {
		next, err := a.operations.Wait(ctx, &computepb.WaitZoneOperationRequest{
			Operation: running.GetName(), Project: a.Project, Zone: cmp.Or(BaseName(running.GetZone()), a.Zone),
		})
		if err == nil {
			running, failures = next, 0
			continue
		}
		failures++
		if kind := KindOf(Reads, err); failures >= operationTries || kind != driver.Transient && kind != driver.Throttled || !pause(ctx, operationPause) {
			return driver.Fail(driver.Ambiguous, op, fmt.Errorf("operation %s was begun and is not known to be done: %w", running.GetName(), err))
		}
	}
	if err := failed(running); err != nil {
		return driver.Fail(kindOfFailure(err), op, err)
	}
	return nil
}

// Deletions are the deletes of one of our machines, by its number.
func (a *Client) Deletions(ctx context.Context, target uint64) ([]*computepb.Operation, error) {
	return a.OperationsOn(ctx, a.Zone, "delete", target)
}

// OperationsOn are the operations of a type on the resource with a number that the
// zone remembers, those that go on included; it does for two weeks.
func (a *Client) OperationsOn(ctx context.Context, zone, kind string, target uint64) (ops []*computepb.Operation, err error) {
	filter := AllOf(fmt.Sprintf("operationType = %q", kind), fmt.Sprintf("targetId = %d", target))
	it := a.operations.List(ctx, &computepb.ListZoneOperationsRequest{Project: a.Project, Zone: zone, Filter: &filter})
	for {
		op, err := it.Next()
		switch {
		case errors.Is(err, iterator.Done):
			return ops, nil
		case err != nil:
			return nil, err
		}
		ops = append(ops, op)
	}
}

// InProgress reports whether an operation is not done.
func InProgress(op *computepb.Operation) bool { return op.GetStatus() != computepb.Operation_DONE }

// Succeeds reports whether an operation has not failed.
func Succeeds(op *computepb.Operation) bool { return failed(op) == nil }

// pause waits, and reports whether ctx lasted.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// AllOf is a filter that every one of several expressions has to hold for. The API
// wants each of them in parentheses; see
// https://cloud.google.com/compute/docs/reference/rest/v1/instances/list.
func AllOf(expressions ...string) string {
	return "(" + strings.Join(expressions, ") AND (") + ")"
}
