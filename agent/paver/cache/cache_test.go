package cache_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nstance.dev/agent/paver/cache"
	"nstance.dev/agent/paver/digest"
)

// roomy are options under which nothing has to go on any disk that tests run on.
func roomy() cache.Options {
	return cache.Options{MaxBytes: 1 << 50, MaxShare: 100, MinFree: 1, Log: slog.New(slog.DiscardHandler)}
}

func open(t testing.TB, dir string, opts cache.Options) *cache.Cache {
	t.Helper()
	c, err := cache.Open(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// content is the content of a blob or root, and its digest.
func content(name string) ([]byte, digest.Digest) {
	data := []byte(strings.Repeat(name, 20_000))
	return data, digest.Of(data)
}

// put stores a blob by name.
func put(ctx context.Context, c *cache.Cache, name string) (*cache.Blob, error) {
	data, d := content(name)
	return c.Blob(ctx, d, int64(len(data)), func(_ context.Context, f *os.File) error {
		_, err := f.WriteAt(data, 0)
		return err
	})
}

// build makes a root by name: two files that belong together.
func build(ctx context.Context, c *cache.Cache, name string) (*cache.Root, error) {
	data, d := content(name)
	return c.Root(ctx, d, func(_ context.Context, dir string) (map[string]string, error) {
		err := os.WriteFile(filepath.Join(dir, "first"), data, 0o644)
		return map[string]string{"name": name}, errors.Join(err, os.WriteFile(filepath.Join(dir, "second"), data, 0o644))
	})
}

func read(t testing.TB, b *cache.Blob) ([]byte, error) {
	t.Helper()
	r, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return io.ReadAll(r)
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// list is what the cache's directory holds, without the trees of roots.
func list(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"blobs/*", "roots/*", "roots/*/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			all = append(all, strings.TrimPrefix(f, dir+"/"))
		}
	}
	return all
}

func TestABlobIsFetchedOnceAndSurvives(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, roomy())
	data, d := content("a")
	b := must[*cache.Blob](t)(put(t.Context(), c, "a"))
	if got, err := read(t, b); err != nil || !bytes.Equal(got, data) || b.Size() != int64(len(data)) || b.Digest() != d {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	b.Close()
	for _, c := range []*cache.Cache{c, open(t, dir, roomy())} {
		b, err := c.Blob(t.Context(), d, -1, func(context.Context, *os.File) error { return errors.New("fetched again") })
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
}

func TestAnIncompleteBlobIsCompleted(t *testing.T) {
	dir := t.TempDir()
	data, d := content("a")
	stop := errors.New("stop")
	_, err := open(t, dir, roomy()).Blob(t.Context(), d, -1, func(_ context.Context, f *os.File) error {
		_, err := f.WriteAt(data[:100], 0)
		return errors.Join(err, stop)
	})
	if !errors.Is(err, stop) {
		t.Fatalf("got %v", err)
	}
	b := must[*cache.Blob](t)(open(t, dir, roomy()).Blob(t.Context(), d, -1, func(_ context.Context, f *os.File) error {
		if info, err := f.Stat(); err != nil || info.Size() != 100 {
			t.Errorf("%v, %v", info, err)
		}
		_, err := f.WriteAt(data[100:], 100)
		return err
	}))
	if got, err := read(t, b); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestABlobThatWentBadIsNoticed(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, roomy())
	data, d := content("a")
	b := must[*cache.Blob](t)(put(t.Context(), c, "a"))
	data[7]++
	if err := os.WriteFile(filepath.Join(dir, "blobs", d.Hex()), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, b); !errors.Is(err, digest.ErrMismatch) {
		t.Errorf("got %v", err)
	}
	if err := b.Discard(); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, must[*cache.Blob](t)(put(t.Context(), c, "a"))); err != nil {
		t.Error(err)
	}
}

func TestARootIsBuiltOnceAndSurvives(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, roomy())
	data, d := content("a")
	r := must[*cache.Root](t)(build(t.Context(), c, "a"))
	if r.Entries != 2 || r.Bytes < int64(2*len(data)) || r.Notes["name"] != "a" {
		t.Errorf("sealed as %+v", r.Seal)
	}
	if err := r.Note("more", "b"); err != nil {
		t.Fatal(err)
	}
	r.Close()
	for _, c := range []*cache.Cache{c, open(t, dir, roomy())} {
		r, err := c.Root(t.Context(), d, func(context.Context, string) (map[string]string, error) { return nil, errors.New("built again") })
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(r.Path(), "second")); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if r.Notes["name"] != "a" || r.Notes["more"] != "b" || r.Key != d {
			t.Errorf("sealed as %+v", r.Seal)
		}
		r.Close()
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others may enter the cache: %v, %v", info.Mode(), err)
	}
}

func TestABuildThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, roomy())
	_, d := content("a")
	stop := errors.New("stop")
	_, err := c.Root(t.Context(), d, func(_ context.Context, dir string) (map[string]string, error) {
		return nil, errors.Join(os.WriteFile(filepath.Join(dir, "first"), nil, 0o644), stop)
	})
	if !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if got := list(t, dir); len(got) != 0 {
		t.Errorf("the cache holds %q", got)
	}
	if r, err := c.FindRoot(t.Context(), d); r != nil || err != nil {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestWhatIsNotTheCachesIsRemovedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, roomy())
	must[*cache.Root](t)(build(t.Context(), c, "a"))
	must[*cache.Blob](t)(put(t.Context(), c, "b"))
	before := list(t, dir)
	_, x := content("x")
	for _, path := range []string{
		"blobs/other", "roots/other", "roots/" + x.Hex() + "/rootfs/file", "roots/" + x.Hex() + ".gone-1/rootfs/file",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, y := content("y")
	torn := filepath.Join(dir, "roots", y.Hex())
	if err := os.MkdirAll(filepath.Join(torn, "rootfs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(torn, "sealed.json"), []byte(`{"v":`), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir, roomy())
	if got := list(t, dir); !slices.Equal(got, before) {
		t.Errorf("the cache holds %q, before %q", got, before)
	}
}

// clock advances a minute at each look.
func clock() func() time.Time {
	var minutes atomic.Int64
	return func() time.Time {
		return time.Date(2026, time.March, 4, 5, int(minutes.Add(1)), 0, 0, time.UTC)
	}
}

func TestWhatWasUsedLeastRecentlyGoesFirst(t *testing.T) {
	opts := roomy()
	opts.Now = clock()
	dir := t.TempDir()
	c := open(t, dir, opts)
	for _, name := range []string{"a", "b", "c"} {
		must[*cache.Blob](t)(put(t.Context(), c, name)).Close()
	}
	for _, name := range []string{"x", "y"} {
		must[*cache.Root](t)(build(t.Context(), c, name)).Close()
	}
	must[*cache.Blob](t)(put(t.Context(), c, "a")).Close() // used again
	inUse := must[*cache.Blob](t)(put(t.Context(), c, "b"))

	// The times of use are known to the next process too. One blob takes some 20,000 bytes,
	// a root twice as much; c, x and y were used before a and b.
	limited := opts
	limited.MaxBytes = 90_000
	c = open(t, dir, limited)
	var left []string
	for _, name := range []string{"a", "b", "c"} {
		_, d := content(name)
		if _, err := os.Stat(filepath.Join(dir, "blobs", d.Hex())); err == nil {
			left = append(left, name)
		}
	}
	for _, name := range []string{"x", "y"} {
		_, d := content(name)
		if r, _ := c.FindRoot(t.Context(), d); r != nil {
			left = append(left, name)
		}
	}
	if got := strings.Join(left, " "); got != "a b y" {
		t.Errorf("left are %s", got)
	}
	inUse.Close()
}

func TestWhatIsInUseRemains(t *testing.T) {
	opts := roomy()
	opts.MaxBytes = 1
	dir := t.TempDir()
	c := open(t, dir, opts)
	r := must[*cache.Root](t)(build(t.Context(), c, "x"))
	b := must[*cache.Blob](t)(put(t.Context(), c, "a"))
	if err := c.Trim(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := list(t, dir); len(got) != 4 {
		t.Errorf("the cache holds %q", got)
	}
	r.Close()
	b.Close()
	b.Close() // a second time ends nobody else's use
	if err := c.Trim(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := list(t, dir); len(got) != 0 {
		t.Errorf("the cache holds %q", got)
	}
}

func TestClearLeavesWhatIsInUse(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, roomy())
	must[*cache.Root](t)(build(t.Context(), c, "x")).Close()
	must[*cache.Blob](t)(put(t.Context(), c, "a")).Close()
	used := must[*cache.Blob](t)(put(t.Context(), c, "b"))
	if err := c.Clear(); err != nil {
		t.Fatal(err)
	}
	if got := list(t, dir); len(got) != 1 {
		t.Errorf("the cache holds %q", got)
	}
	used.Close()
}

func TestAFullDiskEmptiesTheCacheAndIsSaid(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, roomy())
	must[*cache.Root](t)(build(t.Context(), c, "x")).Close()
	opts := roomy()
	opts.MinFree = 1 << 60
	c = open(t, dir, opts)
	if got := list(t, dir); len(got) != 0 {
		t.Errorf("the cache holds %q", got)
	}
	if _, err := put(t.Context(), c, "a"); !errors.Is(err, cache.ErrNoSpace) {
		t.Errorf("got %v", err)
	}
}

func TestManyAskForTheSame(t *testing.T) {
	c := open(t, t.TempDir(), roomy())
	var made atomic.Int32
	data, d := content("a")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			b, err := c.Blob(t.Context(), d, -1, func(_ context.Context, f *os.File) error {
				made.Add(1)
				_, err := f.WriteAt(data, 0)
				return err
			})
			if err != nil {
				t.Error(err)
				return
			}
			b.Close()
			r, err := c.Root(t.Context(), d, func(_ context.Context, dir string) (map[string]string, error) {
				made.Add(1)
				return nil, os.WriteFile(filepath.Join(dir, "first"), data, 0o644)
			})
			if err != nil {
				t.Error(err)
				return
			}
			r.Close()
		})
	}
	wg.Wait()
	if made.Load() != 2 {
		t.Errorf("%d things were made, want a blob and a root", made.Load())
	}
}

// Under a limit that fits few of them, users and evictions meet all the time.
func TestItemsAreCompleteUnderPressure(t *testing.T) {
	opts := roomy()
	opts.MaxBytes = 200_000
	c := open(t, t.TempDir(), opts)
	names := strings.Split("abcdefghij", "")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 60 {
				name := names[(n*7+i*3)%len(names)]
				data, _ := content(name)
				b, err := put(t.Context(), c, name)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := read(t, b); err != nil || !bytes.Equal(got, data) {
					t.Errorf("blob %s: %d bytes, %v", name, len(got), err)
				}
				b.Close()
				r, err := build(t.Context(), c, name)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := os.ReadFile(filepath.Join(r.Path(), "second")); err != nil || !bytes.Equal(got, data) {
					t.Errorf("root %s: %d bytes, %v", name, len(got), err)
				}
				r.Close()
				if err := c.Trim(t.Context(), 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	c := open(t, t.TempDir(), roomy())
	_, d := content("a")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	_, err := c.Blob(t.Context(), d, -1, func(context.Context, *os.File) error {
		cancel(stop)
		_, err := c.Blob(ctx, d, -1, nil)
		return err
	})
	if !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}
