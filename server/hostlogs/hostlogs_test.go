package hostlogs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/hostlogs"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

var packed = []byte{0x1f, 0x8b, 1, 2, 3}

// world is a shard's storage.
type world struct {
	t      *testing.T
	store  *memory.Store
	keeper *hostlogs.Keeper
	lost   bool // the lease
}

var errLost = errors.New("the lease is lost")

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: memory.New(memory.Options{})}
	w.keeper = hostlogs.New(hostlogs.Options{Shard: "s1", Store: w.store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Writes: objectstore.RetryPolicy{
		Permit: func(context.Context) error {
			if w.lost {
				return errLost
			}
			return nil
		},
	}})
	return w
}

func (w *world) newID() identity.ID {
	w.t.Helper()
	id, err := identity.NewID("knc")
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) put(id identity.ID, operation string) string {
	w.t.Helper()
	key, err := w.keeper.Put(w.t.Context(), "prod", id, operation, packed)
	if err != nil {
		w.t.Fatal(err)
	}
	return key
}

// operations are those whose logs are stored, in the order of their keys.
func (w *world) operations() string {
	w.t.Helper()
	var all []string
	for info, err := range objectstore.ListAll(w.t.Context(), w.store, layout.HostLogPrefix("s1")) {
		if err != nil {
			w.t.Fatal(err)
		}
		_, l, err := layout.ParseHostLogKey(info.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, l.Operation)
	}
	return strings.Join(all, " ")
}

// TestPut: logs stand under a key that says whose they are; those of one operation once, and of an instance the last four.
func TestPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.newID()
		key := w.put(id, "op-1")
		if want := "hostlog/s1/prod." + id.String() + ".2000-01-01t00-00-00-000z.op-1.log.gz"; key != want {
			t.Errorf("key %s, want %s", key, want)
		}
		time.Sleep(time.Minute)
		if again := w.put(id, "op-1"); again != key {
			t.Errorf("sent again they have key %s, had %s", again, key)
		}
		for i := range 5 {
			time.Sleep(time.Minute)
			w.put(id, fmt.Sprint("op-", i+2))
		}
		if got := w.operations(); got != "op-3 op-4 op-5 op-6" {
			t.Errorf("kept are those of %q", got)
		}
		w.put(w.newID(), "op-7")
		if got := w.operations(); len(strings.Fields(got)) != 5 {
			t.Errorf("with those of another instance: %q", got)
		}
	})
}

// TestPutRefuses: what is never stored, whoever sends it again, and what is not stored now.
func TestPutRefuses(t *testing.T) {
	w := newWorld(t)
	id := w.newID()
	for name, c := range map[string]struct {
		operation string
		content   []byte
	}{
		"too large": {"op-1", append(packed, make([]byte, hostlogs.MaxSize)...)}, "not compressed": {"op-1", []byte("text")}, "nothing": {"op-1", nil},
		"of an operation that is no part of a key": {"../../config/x", packed},
	} {
		if key, err := w.keeper.Put(t.Context(), "prod", id, c.operation, c.content); !errors.Is(err, hostlogs.ErrRefused) || key != "" {
			t.Errorf("%s: %q, %v", name, key, err)
		}
	}
	w.lost = true
	if _, err := w.keeper.Put(t.Context(), "prod", id, "op-1", packed); !errors.Is(err, errLost) || errors.Is(err, hostlogs.ErrRefused) {
		t.Errorf("S2: without a lease: %v", err)
	}
	if got := w.operations(); got != "" {
		t.Errorf("stored are those of %q", got)
	}
}

// TestSweep: logs are kept for seven days, and what is no log is left alone.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(w.newID(), "op-1")
		time.Sleep(hostlogs.Kept - time.Minute)
		w.put(w.newID(), "op-2")
		sweep := func(want string) {
			t.Helper()
			if _, err := w.keeper.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := strings.Fields(w.operations())
			slices.Sort(got)
			if strings.Join(got, " ") != want {
				t.Errorf("kept are those of %q, want %q", got, want)
			}
		}
		sweep("op-1 op-2")
		time.Sleep(time.Minute)
		sweep("op-2")
		if _, err := w.store.PutIfAbsent(t.Context(), "hostlog/s1/README", []byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(hostlogs.Kept)
		if _, err := w.keeper.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Get(t.Context(), "hostlog/s1/README"); err != nil {
			t.Errorf("what is no log: %v", err)
		}
	})
}
