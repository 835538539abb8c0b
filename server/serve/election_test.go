package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
)

// TestS1_ALeaderThatIsOutrankedStepsBack: leading fails because a document is of a
// later term. The server gives its lock up and then leads above that term, where
// it would otherwise hold the lock for ever and do nothing.
func TestS1_ALeaderThatIsOutrankedStepsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e election
		var terms []uint64
		ctx, cancel := context.WithCancel(t.Context())
		elector, err := newElector(memory.New(memory.Options{}), layout.LeaderKey("s1"), lease.Options{
			ID: "a", Log: slog.New(slog.DiscardHandler),
			NothingStored: func(context.Context) (bool, error) { return true, nil },
			OnAcquire: func(ctx context.Context, term uint64) {
				terms = append(terms, term)
				if term <= 8 {
					e.stepBack(fmt.Errorf("take over: %w", &lease.SupersededError{Document: "record x", Term: 8}))
				} else {
					e.stepBack(errors.New("something else"))
				}
				<-ctx.Done()
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		e.elector = elector
		done := make(chan error)
		go func() { done <- e.run(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(terms) != 2 || terms[1] != 9 || !e.leads() {
			t.Errorf("terms %v, leads %t; want a second term of 9", terms, e.leads())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestF11_TheOwnTermOutlivesTheLock: a server that is started after its lock was
// deleted knows from its cache directory which term it has had.
func TestF11_TheOwnTermOutlivesTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db", "nstance.db")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	key := layout.LeaderKey("s1")
	c, err := cache.Open(t.Context(), path, cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.PutTerm(key, 7)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err = cache.Open(t.Context(), path, cache.Options{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	docs := shardDocuments{store: memory.New(memory.Options{}), shard: "s1"}
	if term, err := highest(docs.minTerm, ownTerm(c, key))(t.Context()); err != nil || term != 7 {
		t.Errorf("the highest term known is %d, %v; want 7", term, err)
	}
}
