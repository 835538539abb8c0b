package handback_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/lease"
	"nstance.dev/server/lease/handback"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

const key = "leader/shard.json"

func document(term uint64, at time.Time) lease.Document {
	return lease.Document{LeaderID: "a", Term: term, LeaseSeconds: 15, LastUpdated: at.UTC().Truncate(time.Millisecond)}
}

func put(t *testing.T, store objectstore.Store, doc lease.Document, etag string) string {
	t.Helper()
	data, err := doc.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if etag == "" {
		etag, err = store.PutIfAbsent(t.Context(), key, data)
	} else {
		etag, err = store.PutIfMatch(t.Context(), key, data, etag)
	}
	if err != nil {
		t.Fatal(err)
	}
	return etag
}

func TestS1_TheLeaseOfAnEndedProcessIsGivenBack(t *testing.T) {
	for _, behind := range []time.Duration{0, time.Hour} { // whatever the clock of the wall says
		store, doc := memory.New(memory.Options{}), document(7, time.Now())
		put(t, store, doc, "")
		clock := func() time.Time { return time.Now().Add(-behind) }
		if out, err := handback.Release(t.Context(), store, key, []lease.Document{doc}, clock); err != nil || !out.Given {
			t.Errorf("the clock %v behind: %+v, %v", behind, out, err)
		}
		obj, err := store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		now, err := lease.Decode(obj.Data)
		if err != nil || !now.Released || now.Term != 7 || !now.LastUpdated.After(doc.LastUpdated) {
			t.Errorf("the clock %v behind, stored: %+v, %v", behind, now, err)
		}
		if out, err := handback.Release(t.Context(), store, key, []lease.Document{doc}, clock); err != nil || out.Given {
			t.Errorf("the clock %v behind, a second time: %+v, %v", behind, out, err)
		}
	}
}

// late is a store in which a write arrives between a look and what follows.
type late struct {
	*memory.Store
	arrives func()
}

func (l *late) Get(ctx context.Context, key string) (objectstore.Object, error) {
	obj, err := l.Store.Get(ctx, key)
	if arrives := l.arrives; arrives != nil {
		l.arrives = nil
		arrives()
	}
	return obj, err
}

// TestS1_ARenewalThatArrivesMeanwhile: the process's own is given back in its turn; that of
// anybody else is not.
func TestS1_ARenewalThatArrivesMeanwhile(t *testing.T) {
	for name, noted := range map[string]bool{"of the ended process": true, "of another one": false} {
		store := &late{Store: memory.New(memory.Options{})}
		first, second := document(7, time.Now()), document(7, time.Now().Add(time.Second))
		etag := put(t, store.Store, first, "")
		store.arrives = func() { put(t, store.Store, second, etag) }
		docs := []lease.Document{first}
		if noted {
			docs = append(docs, second)
		}
		if out, err := handback.Release(t.Context(), store, key, docs, time.Now); err != nil || out.Given != noted {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
}

// TestS1_NothingOfTheProcessIsStoredAfterTheRelease: its renewals have a condition that
// does not hold any more.
func TestS1_NothingOfTheProcessIsStoredAfterTheRelease(t *testing.T) {
	store, doc := memory.New(memory.Options{}), document(7, time.Now())
	etag := put(t, store, doc, "")
	if out, err := handback.Release(t.Context(), store, key, []lease.Document{doc}, time.Now); err != nil || !out.Given {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := store.PutIfMatch(t.Context(), key, []byte("late"), etag); !errors.Is(err, objectstore.ErrPrecondition) {
		t.Errorf("a renewal that comes late: %v", err)
	}
}

// TestNotes: a process notes what it writes as leader, and another one can read it.
func TestNotes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, notes := memory.New(memory.Options{}), handback.In(dir)
		e, err := lease.New(store, key, lease.Options{
			ID: "a", NothingStored: func(context.Context) (bool, error) { return true, nil },
			OnWrite: func(doc lease.Document) {
				if err := notes.Add(key, doc); err != nil {
					t.Error(err)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		time.Sleep(12 * time.Second) // two renewals
		synctest.Wait()
		held, leads := e.Held()
		docs, err := handback.In(dir).Of(key)
		if err != nil || !leads || len(docs) != 3 || !docs[2].SameVersion(held) {
			t.Errorf("noted %d versions, the last is not %+v: %v, %v", len(docs), held, docs, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		obj, err := store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if doc, err := lease.Decode(obj.Data); err != nil || !doc.Released {
			t.Errorf("stopped in order: %+v, %v", doc, err)
		}
	})
	if docs, err := handback.In(t.TempDir()).Of(key); err != nil || docs != nil {
		t.Errorf("without a process before: %v, %v", docs, err)
	}
}
