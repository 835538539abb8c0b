package gcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// finish waits until an operation is done and returns its error. While it is not
// done when ctx ends, or cannot be asked for, the error is [driver.Ambiguous].
func (d *Driver) finish(ctx context.Context, op string, running *computepb.Operation) error {
	for failures := 0; goesOn(running); {
		next, err := d.api.operations.Wait(ctx, &computepb.WaitZoneOperationRequest{
			Operation: running.GetName(), Project: d.project, Zone: cmp.Or(baseName(running.GetZone()), d.zone),
		})
		if err == nil {
			running, failures = next, 0
			continue
		}
		failures++
		if kind := kindOf(reads, err); failures >= operationTries || kind != driver.Transient && kind != driver.Throttled || !pause(ctx, operationPause) {
			return driver.Fail(driver.Ambiguous, op, fmt.Errorf("operation %s was begun and is not known to be done: %w", running.GetName(), err))
		}
	}
	if err := failed(running); err != nil {
		return driver.Fail(kindOfFailure(err), op, err)
	}
	return nil
}

// deletions are the deletes of one of our machines, by its number.
func (d *Driver) deletions(ctx context.Context, target uint64) ([]*computepb.Operation, error) {
	return d.operationsOn(ctx, d.zone, "delete", target)
}

// operationsOn are the operations of a type on the resource with a number that the
// zone remembers, those that go on included; it does for two weeks.
func (d *Driver) operationsOn(ctx context.Context, zone, kind string, target uint64) (ops []*computepb.Operation, err error) {
	filter := allOf(fmt.Sprintf("operationType = %q", kind), fmt.Sprintf("targetId = %d", target))
	it := d.api.operations.List(ctx, &computepb.ListZoneOperationsRequest{Project: d.project, Zone: zone, Filter: &filter})
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

// goesOn reports whether an operation is not done.
func goesOn(op *computepb.Operation) bool { return op.GetStatus() != computepb.Operation_DONE }

// succeeds reports whether an operation has not failed.
func succeeds(op *computepb.Operation) bool { return failed(op) == nil }

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
