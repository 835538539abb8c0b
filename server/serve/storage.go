package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/calls"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/backends"
	"nstance.dev/server/retry"
)

// openStore opens the storage that the flags name, and enters the calls to it into a book and a count.
func (f Flags) openStore(ctx context.Context, book *calls.Book, count *prometheus.CounterVec) (*objectstore.Probed, error) {
	store, err := backends.Open(ctx, backends.Location{Kind: f.Storage, Bucket: f.Bucket, Prefix: f.Prefix})
	if err != nil {
		return nil, fmt.Errorf("--storage %s, --bucket %s: %w", f.Storage, f.Bucket, err)
	}
	return objectstore.NewProbed(objectstore.Observed{Store: store, Now: time.Now, Called: func(op string, took time.Duration, err error) {
		how := storageOutcome(err)
		book.Note(op, took, how)
		count.WithLabelValues(op, how.String()).Inc()
	}}), nil
}

// newStorageCalls makes the count of the calls to the storage. What goes wrong begins at zero: the first of it is news.
func newStorageCalls() *prometheus.CounterVec {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nstance_storage_calls_total",
		Help: "Calls to the storage by how they went: answered, failed, or throttled by it.",
	}, []string{"operation", "outcome"})
	for _, op := range objectstore.Operations {
		for _, how := range []calls.Outcome{calls.Answered, calls.Failed, calls.Throttled} {
			count.WithLabelValues(op, how.String())
		}
	}
	return count
}

// storageOutcome is how a call to the storage went. That an object does not exist or has
// another version is what the caller wanted to know, and one that its caller gave up says nothing.
func storageOutcome(err error) calls.Outcome {
	switch {
	case err == nil, errors.Is(err, objectstore.ErrNotFound), errors.Is(err, objectstore.ErrPrecondition), errors.Is(err, context.Canceled):
		return calls.Answered
	case errors.Is(err, objectstore.ErrThrottled):
		return calls.Throttled
	default:
		return calls.Failed
	}
}

// testStore refuses a store that ignores conditions (F9). While it is away
// nothing can be said, and the test is repeated.
func testStore(ctx context.Context, store *objectstore.Probed, f Flags, log *slog.Logger) error {
	sum := sha256.Sum256([]byte(f.ID))
	key := "leader/self-test-" + hex.EncodeToString(sum[:8])
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		report, err := store.SelfTest(ctx, key)
		switch {
		case err == nil:
			if report.DeleteUnconditional {
				log.WarnContext(ctx, "the store ignores conditions on deletes; each reads first, and may undo a write that it races with",
					"storage", f.Storage, "bucket", f.Bucket)
			}
			return nil
		case !objectstore.Retryable(err):
			return fmt.Errorf("storage %s, bucket %s: %w", f.Storage, f.Bucket, err)
		}
		log.WarnContext(ctx, "store not tested", "retry_in", wait, "error", err)
		if err := retry.Wait(ctx, wait); err != nil {
			return err
		}
	}
}
