package decisions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// rows is a cache of decisions.
type rows struct {
	mu sync.Mutex
	of map[fleet.GroupID][]explain.Decision
}

func (r *rows) AddDecision(d explain.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[d.Group] = append(r.of[d.Group], d)
}

func (r *rows) EachDecision(do func([]explain.Decision)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, all := range r.of {
		do(all)
	}
}

var web = fleet.GroupID{Tenant: "default", Name: "web"}

func create(n int) explain.Decision {
	return explain.Decision{
		Group: web, Action: explain.Create, Reason: fmt.Sprint("reason ", n), Cause: "size", Count: 1, At: time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC),
		BlockedBy: "paused", BlockedWhy: "the group is paused", NotBefore: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
	}
}

// counted counts the writes of a store.
type counted struct {
	objectstore.Store
	puts atomic.Int64
}

func (c *counted) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	c.puts.Add(1)
	return c.Store.PutIfAbsent(ctx, key, data)
}

func (c *counted) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	c.puts.Add(1)
	return c.Store.PutIfMatch(ctx, key, data, etag)
}

// keeper is one of a term that has read what is stored.
func keeper(t *testing.T, store objectstore.Store, term uint64, exists bool) (*Keeper, *rows) {
	t.Helper()
	cache := &rows{of: map[fleet.GroupID][]explain.Decision{}}
	k := New(Options{
		Shard: "s", Term: term, Store: store, Cache: cache, Over: func(error) bool { return false }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err := k.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.Restore(t.Context(), func(fleet.GroupID) bool { return exists })
	return k, cache
}

func TestAHandOverBringsEverything(t *testing.T) {
	store := memory.New(memory.Options{})
	first, cache := keeper(t, store, 1, true)
	for n := range 3 {
		cache.AddDecision(create(n))
	}
	first.HandOver(t.Context())
	second, restored := keeper(t, store, 2, true)
	if !slices.Equal(restored.of[web], cache.of[web]) || len(second.Gaps()) != 0 {
		t.Errorf("restored %v, gaps %v", restored.of[web], second.Gaps())
	}
	if _, gone := keeper(t, store, 2, false); len(gone.of) != 0 {
		t.Errorf("decisions about a group that is gone: %v", gone.of)
	}
}

func TestWritesAreAtMostOneAMinuteAndOnlyWithNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Store: memory.New(memory.Options{})}
		k, cache := keeper(t, store, 1, true)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go k.Run(ctx)
		for n := range 600 { // for ten minutes, one a second
			cache.AddDecision(create(n))
			k.Changed()
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if store.puts.Load() < 10 || store.puts.Load() > 11 {
			t.Errorf("%d writes in ten minutes", store.puts.Load())
		}
		time.Sleep(time.Minute)
		before := store.puts.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		if store.puts.Load() != before {
			t.Errorf("%d writes without news", store.puts.Load()-before)
		}
		cancel()
		synctest.Wait()
	})
}

func TestAGapIsNotedOnceAndKept(t *testing.T) {
	store := memory.New(memory.Options{})
	first, cache := keeper(t, store, 1, true)
	cache.AddDecision(create(1))
	if err := first.write(t.Context(), false, first.opts.Writes); err != nil {
		t.Fatal(err)
	}
	second, _ := keeper(t, store, 2, true) // the first has crashed
	if gaps := second.Gaps(); len(gaps) != 1 || gaps[0].From.IsZero() || gaps[0].To.Before(gaps[0].From) {
		t.Errorf("gaps are %v", gaps)
	}
	second.HandOver(t.Context())
	third, _ := keeper(t, store, 3, true)
	if !slices.Equal(third.Gaps(), second.Gaps()) {
		t.Errorf("gaps are %v, were %v", third.Gaps(), second.Gaps())
	}
}

func TestALeaderThatCrashesBeforeItsFirstMinuteLeavesAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		first, _ := keeper(t, store, 1, true)
		first.HandOver(t.Context())
		second, cache := keeper(t, store, 2, true)
		ctx, crash := context.WithCancel(t.Context())
		go second.Run(ctx)
		time.Sleep(10 * time.Second)
		cache.AddDecision(create(1))
		second.Changed()
		crash()
		synctest.Wait()
		if third, _ := keeper(t, store, 3, true); len(third.Gaps()) != 1 {
			t.Errorf("gaps are %v", third.Gaps())
		}
	})
}

func TestALeaderReplacesTheLastWriteOfAnEarlierOneAndNoneOfALaterOne(t *testing.T) {
	store := memory.New(memory.Options{})
	first, early := keeper(t, store, 1, true)
	second, late := keeper(t, store, 2, true)
	early.AddDecision(create(1))
	late.AddDecision(create(2))
	first.HandOver(t.Context()) // late: the second has read already
	if err := second.write(t.Context(), false, second.opts.Writes); err != nil {
		t.Fatal(err)
	}
	if err := first.write(t.Context(), true, first.opts.Writes); !errors.Is(err, errReplaced) {
		t.Errorf("the earlier leader writes again: %v", err)
	}
	if err := first.write(t.Context(), true, first.opts.Writes); err != nil {
		t.Errorf("a later try is %v", err)
	}
	if _, got := keeper(t, store, 3, true); len(got.of[web]) != 1 || got.of[web][0].Reason != "reason 2" {
		t.Errorf("stored is %v", got)
	}
}

func TestADamagedDocumentCostsAnExplanationAndNoMore(t *testing.T) {
	whole, err := document{V: 1, Shard: "s", Groups: []entry{}}.encode(maxUnpacked)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := document{V: 1, Shard: "other"}.encode(maxUnpacked)
	newer, _ := document{V: 2, Shard: "s"}.encode(maxUnpacked)
	for name, data := range map[string][]byte{
		"nothing": {}, "no gzip": []byte("{}"), "half": whole[:len(whole)/2], "of another shard": other, "of a later version": newer,
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.New(memory.Options{})
			if _, err := store.PutIfAbsent(t.Context(), layout.DecisionKey("s"), data); err != nil {
				t.Fatal(err)
			}
			k, cache := keeper(t, store, 2, true)
			if len(cache.of) != 0 || len(k.Gaps()) != 1 {
				t.Errorf("restored %v, gaps %v", cache, k.Gaps())
			}
			cache.AddDecision(create(1))
			k.HandOver(t.Context())
			if _, got := keeper(t, store, 3, true); len(got.of[web]) != 1 {
				t.Errorf("it is not replaced: %v", got)
			}
		})
	}
}

func TestALargeDocumentKeepsTheNewestOfEveryGroup(t *testing.T) {
	doc := document{V: 1, Shard: "s"}
	for _, name := range []string{"a", "b"} {
		e := entry{Tenant: "t", Group: name}
		for n := range 100 {
			e.Decisions = append(e.Decisions, stored(create(n)))
		}
		doc.Groups = append(doc.Groups, e)
	}
	data, err := doc.encode(20_000)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode("s", data)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range got.Groups {
		n := len(g.Decisions)
		if n == 0 || n >= 100 || g.Decisions[n-1] != doc.Groups[i].Decisions[99] {
			t.Errorf("group %s keeps %d", g.Group, n)
		}
	}
	if _, err := doc.encode(10); err == nil {
		t.Error("what is too large for anything is stored")
	}
	if len(doc.Groups[0].Decisions) != 100 {
		t.Error("the document is changed")
	}
	if bytes.Equal(data, nil) {
		t.Error("it is empty")
	}
}
