package cache_test

import (
	"bytes"
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/cache"
)

var debian = cache.Image{Key: "debian_13", ImageID: "ami-1", ResolvedAt: epoch, Source: "lookup"}

// leave writes a file with something of everything and closes it.
func leave(t testing.TB, path string) {
	c := openAt(t, path)
	for range 50 {
		must(t, c.Insert(instance(t, web)))
	}
	c.PutTerm("shard", 7)
	c.PutTerm("cluster", 3)
	c.PutImage(debian)
	must(t, c.Close())
}

func TestTermsAndImagesSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	leave(t, path)
	for range 2 { // the second file was never flushed by hand
		c := openAt(t, path)
		image, _ := c.Image("debian_13")
		if c.Term("shard") != 7 || c.Term("cluster") != 3 || !cmp.Equal(image, debian) {
			t.Fatalf("terms %d and %d, image %+v", c.Term("shard"), c.Term("cluster"), image)
		}
		if n := len(c.All()); n != 0 {
			t.Fatalf("%d instances that nobody told this process about", n)
		}
		must(t, c.Close())
	}
}

func TestF16_DamagedFiles(t *testing.T) {
	change := func(statement string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", path)
			must(t, err)
			_, err = db.Exec(statement)
			must(t, err)
			must(t, db.Close())
		}
	}
	overwrite := func(edit func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, edit(data), 0o600))
		}
	}
	tests := []struct {
		name   string
		damage func(t *testing.T, path string)
		term   uint64
		image  string
	}{
		{"deleted", func(t *testing.T, path string) { must(t, os.Remove(path)) }, 0, ""},
		{"truncated to nothing", overwrite(func([]byte) []byte { return nil }), 0, ""},
		{"truncated within a page", overwrite(func(b []byte) []byte { return b[:5000] }), 0, ""},
		{"not a database", overwrite(func(b []byte) []byte { return bytes.Repeat([]byte("x"), len(b)) }), 0, ""},
		{"a flipped header", overwrite(func(b []byte) []byte { b[3] ^= 0x40; return b }), 0, ""},
		{"a flipped bit in an image", overwrite(func(b []byte) []byte {
			return bytes.ReplaceAll(b, []byte("ami-1"), []byte("ami-3"))
		}), 7, ""},
		{"a changed term", change("UPDATE terms SET term = 8"), 0, "ami-1"},
		{"an older schema", change("PRAGMA user_version = 1"), 0, ""},
		{"a table is missing", change("DROP TABLE images"), 7, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cache.db")
			leave(t, path)
			test.damage(t, path)
			c := openAt(t, path)
			image, _ := c.Image("debian_13")
			if c.Term("shard") != test.term || image.ImageID != test.image {
				t.Errorf("term %d, image %q; want %d, %q", c.Term("shard"), image.ImageID, test.term, test.image)
			}
			must(t, c.Insert(instance(t, web)))
			must(t, c.Flush(t.Context()))
			if n := query[int](t, path, "SELECT count(*) FROM instances"); n != 1 {
				t.Errorf("%d instances in the new file", n)
			}
		})
	}
}

func TestF16_AnyFlippedBitIsSurvived(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	leave(t, path)
	good, err := os.ReadFile(path)
	must(t, err)
	for i := 0; i < len(good); i += len(good)/41 + 1 {
		data := bytes.Clone(good)
		data[i] ^= 1 << (i % 8)
		must(t, os.WriteFile(path, data, 0o600))
		c := openAt(t, path)
		if term := c.Term("shard"); term != 7 && term != 0 {
			t.Errorf("bit flipped in byte %d: term %d", i, term)
		}
		if image, ok := c.Image("debian_13"); ok && image != debian {
			t.Errorf("bit flipped in byte %d: image %+v", i, image)
		}
		must(t, c.Flush(t.Context()))
		must(t, c.Close())
	}
}

func TestF16_FullDiskIsServedWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		var log bytes.Buffer
		full.Store(true)
		path := filepath.Join(t.TempDir(), "cache.db")
		c, err := cache.OpenOn(t.Context(), path, cache.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, cache.Disk{Full: full.Load})
		must(t, err)
		c.PutTerm("shard", 7)
		for range 200 {
			must(t, c.Insert(instance(t, web)))
		}
		if err := c.Flush(t.Context()); err == nil || c.Degraded() == nil {
			t.Fatalf("flush on a full disk: %v, degraded: %v", err, c.Degraded())
		}
		if n := len(c.Group(web)); n != 200 {
			t.Fatalf("%d instances in memory", n)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
			t.Fatalf("logged %d times:\n%s", n, log.String())
		}
		full.Store(false)
		must(t, c.Insert(instance(t, web)))
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if err := c.Degraded(); err != nil {
			t.Fatalf("degraded with room on the disk: %v", err)
		}
		if n := query[int](t, path, "SELECT count(*) FROM instances"); n != 201 {
			t.Fatalf("%d instances in the file", n)
		}
		if term := query[int](t, path, "SELECT term FROM terms"); term != 7 {
			t.Fatalf("term %d in the file", term)
		}
		must(t, c.Close())
	})
}

func TestF16_NoFolderIsServedWithout(t *testing.T) {
	inTheWay := filepath.Join(t.TempDir(), "cache")
	must(t, os.WriteFile(inTheWay, nil, 0o600))
	c := openAt(t, filepath.Join(inTheWay, "cache.db"))
	if c.Degraded() == nil {
		t.Fatal("not degraded")
	}
	must(t, c.Insert(instance(t, web)))
	if len(c.Group(web)) != 1 {
		t.Fatal("memory does not serve")
	}
	must(t, os.Remove(inTheWay))
	must(t, c.Close()) // the last attempt
	if n := query[int](t, filepath.Join(inTheWay, "cache.db"), "SELECT count(*) FROM instances"); n != 1 {
		t.Fatalf("%d instances in the file", n)
	}
}

func TestF16_FileRemovedWhileOpen(t *testing.T) {
	c, path := openNew(t)
	must(t, c.Insert(instance(t, web)))
	must(t, c.Flush(t.Context()))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		must(t, os.Remove(path+suffix))
	}
	must(t, c.Insert(instance(t, web)))
	_ = c.Flush(t.Context())
	if len(c.Group(web)) != 2 {
		t.Fatal("memory does not serve")
	}
}
