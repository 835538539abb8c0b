package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/calls"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// lax is a store that ignores conditions.
type lax struct {
	*memory.Store
	puts, deletes bool
}

func (l lax) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	if l.puts {
		etag = l.current(ctx, key, etag)
	}
	return l.Store.PutIfMatch(ctx, key, data, etag)
}

func (l lax) DeleteIfMatch(ctx context.Context, key, etag string) error {
	if l.deletes {
		etag = l.current(ctx, key, etag)
	}
	return l.Store.DeleteIfMatch(ctx, key, etag)
}

func (l lax) current(ctx context.Context, key, otherwise string) string {
	o, err := l.Get(ctx, key)
	if err != nil {
		return otherwise
	}
	return o.ETag
}

var someBucket = Flags{ID: "a", Shard: "s", Storage: "s3", Bucket: "some-bucket"}

func TestF9_AStoreThatIgnoresConditionsOnWritesIsRefused(t *testing.T) {
	store := objectstore.NewProbed(lax{Store: memory.New(memory.Options{}), puts: true})
	err := testStore(t.Context(), store, someBucket, slog.New(slog.DiscardHandler))
	if !errors.Is(err, objectstore.ErrConditionsIgnored) {
		t.Fatalf("error is %v", err)
	}
	for _, part := range []string{"storage s3, bucket some-bucket", "replace with a stale etag"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func TestF9_AStoreThatIgnoresConditionsOnDeletesIsReadFirst(t *testing.T) {
	var log bytes.Buffer
	store := objectstore.NewProbed(lax{Store: memory.New(memory.Options{}), deletes: true})
	if err := testStore(t.Context(), store, someBucket, NewLogger(&log, false)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "ignores conditions on deletes") || !strings.Contains(log.String(), "some-bucket") {
		t.Errorf("the log says %q", &log)
	}
	etag, err := store.PutIfAbsent(t.Context(), "k", []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutIfMatch(t.Context(), "k", []byte("two"), etag); err != nil {
		t.Fatal(err)
	}
	if err := store.DeleteIfMatch(t.Context(), "k", etag); !errors.Is(err, objectstore.ErrPrecondition) {
		t.Errorf("a deletion of an old version: %v", err)
	}
}

func TestHowACallToTheStorageWent(t *testing.T) {
	for _, c := range []struct {
		err  error
		want calls.Outcome
	}{
		{nil, calls.Answered},
		{fmt.Errorf("get k: %w", objectstore.ErrNotFound), calls.Answered},
		{objectstore.ErrPrecondition, calls.Answered},
		{context.Canceled, calls.Answered},
		{context.DeadlineExceeded, calls.Failed},
		{objectstore.ErrThrottled, calls.Throttled},
		{objectstore.ErrUnavailable, calls.Failed},
		{objectstore.ErrConflict, calls.Failed},
		{errors.New("access denied"), calls.Failed},
	} {
		if got := storageOutcome(c.err); got != c.want {
			t.Errorf("%v is %d, want %d", c.err, got, c.want)
		}
	}
}

// TestCallsToTheStorageAreCounted: by operation and outcome, and what goes wrong from zero on.
func TestCallsToTheStorageAreCounted(t *testing.T) {
	count := newStorageCalls()
	var book calls.Book
	store, err := Flags{ID: "a", Shard: "s", Storage: "file", Bucket: t.TempDir()}.openStore(t.Context(), &book, count)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), "nothing"); !errors.Is(err, objectstore.ErrNotFound) {
		t.Fatal(err)
	}
	for _, err := range []error{objectstore.ErrThrottled, fmt.Errorf("put: %w", objectstore.ErrThrottled)} {
		if how := storageOutcome(err); how != calls.Throttled {
			t.Errorf("%v: %v", err, how)
		}
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(count)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue()
	}
	want := map[string]float64{}
	for _, op := range []string{"get", "put", "delete", "list"} {
		for _, how := range []string{"answered", "failed", "throttled"} {
			want[op+" "+how] = 0
		}
	}
	want["get answered"] = 1
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
