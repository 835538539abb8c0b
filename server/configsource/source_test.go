package configsource

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/memory"
)

// sources share storage and cache directory, as the runs of one server do.
func newTestSource(t *testing.T, store *memory.Store, cacheDir string) *Source {
	t.Helper()
	return New(store, Options{
		Shard: testShard, CacheDir: cacheDir, Load: config.LoadOptions{Shard: testShard, Storage: "file"}, Log: slog.New(slog.DiscardHandler),
	})
}

// put replaces the stored configuration.
func put(t *testing.T, store *memory.Store, text []byte) {
	t.Helper()
	key := layout.ConfigKey(testShard)
	obj, err := store.Get(t.Context(), key)
	if err != nil {
		_, err = store.PutIfAbsent(t.Context(), key, text)
	} else {
		_, err = store.PutIfMatch(t.Context(), key, text, obj.ETag)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestS19_ABadConfigurationNeverReplacesTheLastGoodOne(t *testing.T) {
	store, dir := memory.New(memory.Options{}), t.TempDir()
	put(t, store, testConfig(3))
	first := newTestSource(t, store, dir)
	good, err := first.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.keep(good.ETag); err != nil {
		t.Fatal(err)
	}
	put(t, store, []byte(`{"nonsense": 1}`))
	s := newTestSource(t, store, dir)
	static, err := s.Start(t.Context(), nil)
	if err != nil {
		t.Fatalf("start with a kept configuration: %v", err)
	}
	if size := *static.Config.Groups["default"]["web"].Size; size != 3 {
		t.Errorf("size %d, want that of the last good configuration, 3", size)
	}
	if etag, why := s.Rejected(); etag == "" || !strings.Contains(why, "nonsense") {
		t.Errorf("rejected is %q because of %q", etag, why)
	}
	var problems jsonc.Problems
	if _, err := s.fetch(t.Context()); !errors.As(err, &problems) {
		t.Errorf("fetch = %v, want the problems", err)
	}
}

func TestS19_AFirstStartWithABadConfigurationListsEveryProblem(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, store, []byte("{\n\"nonsense\": 1,\n\"groups\": 5\n}"))
	_, err := newTestSource(t, store, t.TempDir()).Start(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), ":2:") || !strings.Contains(err.Error(), ":3:") {
		t.Errorf("Start = %v, want problems in lines 2 and 3", err)
	}
}

func TestStart_waitsForStorageAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		put(t, store, testConfig(3))
		store.Down(true)
		waiting := 0
		began := time.Now()
		time.AfterFunc(10*time.Second, func() { store.Down(false) })
		static, err := newTestSource(t, store, t.TempDir()).Start(t.Context(), func() { waiting++ })
		if err != nil || static.Config == nil {
			t.Fatalf("Start = %v, %v", static, err)
		}
		if took := time.Since(began); waiting == 0 || took < 10*time.Second || took > 20*time.Second {
			t.Errorf("waited %d times, %v in all", waiting, took)
		}
	})
}
