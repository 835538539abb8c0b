package objectstore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/objectstore/storetest"
)

func TestObservedContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) objectstore.Store {
		return objectstore.Observed{Store: memory.New(memory.Options{}), Now: time.Now, Called: func(string, time.Duration, error) {}}
	})
}

func TestObservedTellsEachCall(t *testing.T) {
	var told []string
	clock := time.Unix(0, 0)
	s := objectstore.Observed{
		Store: memory.New(memory.Options{}),
		Now:   func() time.Time { clock = clock.Add(time.Second); return clock },
		Called: func(op string, took time.Duration, err error) {
			told = append(told, fmt.Sprint(op, " ", took, " ", errors.Is(err, objectstore.ErrNotFound)))
		},
	}
	ctx := t.Context()
	etag, _ := s.PutIfAbsent(ctx, "k", nil)
	etag, _ = s.PutIfMatch(ctx, "k", []byte("v"), etag)
	_, _ = s.List(ctx, "", "", 0)
	_ = s.DeleteIfMatch(ctx, "k", etag)
	_, _ = s.Get(ctx, "k")
	want := []string{"put 1s false", "put 1s false", "list 1s false", "delete 1s false", "get 1s true"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
