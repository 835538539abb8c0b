package file_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/file"
	"nstance.dev/server/objectstore/storetest"
)

func open(tb testing.TB, dir string) *file.Store {
	tb.Helper()
	s, err := file.New(dir)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) objectstore.Store { return open(t, t.TempDir()) })
}

func TestETagIsTheContent(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	a, err := s.PutIfAbsent(t.Context(), "k", []byte("A"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.PutIfMatch(t.Context(), "k", []byte("B"), a)
	if err != nil {
		t.Fatal(err)
	}
	again, err := open(t, dir).PutIfMatch(t.Context(), "k", []byte("A"), b)
	if err != nil || again != a {
		t.Errorf("A again has etag %s, %v; had %s", again, err, a)
	}
}

func TestFilesPutInPlaceByHand(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"config/a.jsonc": "{}", "config/.a.jsonc.swp": "editor", ".hidden": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.List(t.Context(), "", "", 0)
	if err != nil || len(page.Objects) != 1 || page.Objects[0].Key != "config/a.jsonc" {
		t.Fatalf("listed %+v, %v", page, err)
	}
	if _, err := s.PutIfMatch(t.Context(), "config/a.jsonc", []byte("{ }"), page.Objects[0].ETag); err != nil {
		t.Error(err)
	}
}

// A folder that is gone, moved or not mounted, is not an empty store (F1).
func TestF1_FolderGoneIsUnavailable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	etag, err := s.PutIfAbsent(t.Context(), "a/k", []byte("A"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "a/k"); !errors.Is(err, objectstore.ErrUnavailable) || errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.List(t.Context(), "a/", "", 0); !errors.Is(err, objectstore.ErrUnavailable) {
		t.Errorf("list: %v", err)
	}
	if err := s.DeleteIfMatch(t.Context(), "a/k", etag); err == nil || errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("delete: %v", err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if o, err := s.Get(t.Context(), "a/k"); err != nil || o.ETag != etag {
		t.Errorf("back again: %+v, %v", o, err)
	}
}

func BenchmarkPutIfMatch(b *testing.B) {
	for _, parallel := range []int{1, 8} {
		b.Run(fmt.Sprintf("keys=%d", parallel), func(b *testing.B) {
			s := open(b, b.TempDir())
			b.SetParallelism(parallel)
			var next = make(chan int, 1024)
			for i := range cap(next) {
				next <- i
			}
			b.RunParallel(func(pb *testing.PB) {
				key, etag := fmt.Sprintf("bench/%d", <-next), ""
				for i := 0; pb.Next(); i++ {
					var err error
					data := fmt.Appendf(nil, "content %d", i)
					if etag, err = put(b, s, key, data, etag); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func put(b *testing.B, s objectstore.Store, key string, data []byte, etag string) (string, error) {
	if etag == "" {
		return s.PutIfAbsent(b.Context(), key, data)
	}
	return s.PutIfMatch(b.Context(), key, data, etag)
}
