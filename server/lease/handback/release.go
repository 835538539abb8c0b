package handback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
)

// Outcome is what became of one lock.
type Outcome struct {
	Given bool
	Term  uint64 // of the lock that was given back
	Why   string // it was given back, or left alone
}

// tries bounds how often a lock is looked at. It changes between the look and the write
// only where a write of the ended process arrives, or somebody else has the lock.
const tries = 3

// Release gives back the lock of a process that has ended, if it still is in one of the
// versions that the process noted. Now is the wall clock. The caller has seen to it that
// the process has ended, and that nothing that it sent is still in this machine.
func Release(ctx context.Context, store objectstore.Store, key string, noted []lease.Document, now func() time.Time) (Outcome, error) {
	var err error
	for range tries {
		var etag string
		var lock stored
		if etag, lock, err = look(ctx, store, key); err != nil {
			return Outcome{}, err
		}
		give, why := decide(noted, lock)
		if !give {
			return Outcome{Why: why}, nil
		}
		if err = write(ctx, store, key, etag, released(lock.doc, now())); err == nil {
			return Outcome{Given: true, Term: lock.doc.Term, Why: why}, nil
		}
	}
	return Outcome{}, fmt.Errorf("give back lease %s: %w", key, err)
}

// released is the version that follows doc and gives the lock up.
func released(doc lease.Document, now time.Time) lease.Document {
	doc.Released = true
	if now = now.UTC().Truncate(time.Millisecond); !now.After(doc.LastUpdated) {
		now = doc.LastUpdated.Add(time.Millisecond)
	}
	doc.LastUpdated = now
	return doc
}

func look(ctx context.Context, store objectstore.Store, key string) (etag string, lock stored, err error) {
	obj, err := store.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return "", stored{absent: true}, nil
	}
	if err != nil {
		return "", stored{}, fmt.Errorf("read lease %s: %w", key, err)
	}
	lock.doc, lock.broken = lease.Decode(obj.Data)
	return obj.ETag, lock, nil
}

func write(ctx context.Context, store objectstore.Store, key, etag string, doc lease.Document) error {
	data, err := doc.Encode()
	if err != nil {
		return err
	}
	_, err = store.PutIfMatch(ctx, key, data, etag)
	return err
}
