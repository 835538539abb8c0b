package extract_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"nstance.dev/agent/paver/extract"
	"nstance.dev/agent/paver/tree"
	"nstance.dev/agent/paver/treetest"
)

// headerOf is the header of an empty file.
func headerOf(t testing.TB, name string) []byte {
	t.Helper()
	return treetest.Archive(t, treetest.File(name, ""))[:512]
}

// endless is an archive that repeats one header.
type endless struct {
	header []byte
	at     int
	left   int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, e.header[e.at:])
	if e.at += n; e.at == len(e.header) {
		e.at = 0
		e.left--
	}
	return n, nil
}

// allocated is what the tree takes on the disk.
func allocated(t testing.TB, dir string) int64 {
	t.Helper()
	usage, err := tree.Measure(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return usage.Bytes
}

// Whatever layers hold, nothing outside of the tree changes, and the tree can be removed.
func TestRandomLayersRemainInside(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "c", "..", ".", "", "outside", "file", ".wh.a", ".wh.b", ".wh..wh..opq", ".wh.file"})
	path := rapid.Custom(func(t *rapid.T) string {
		p := rapid.SampledFrom([]string{"", "/", "../", "tree/"}).Draw(t, "begin")
		for i, n := 0, rapid.IntRange(1, 4).Draw(t, "parts"); i < n; i++ {
			if i > 0 {
				p += "/"
			}
			p += part.Draw(t, "part")
		}
		return p
	})
	inside := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"a", "b", "c", "a/a", "a/b", "b/a", "c/file", "a/b/file", "file", ".wh.a", "a/.wh.b", "b/.wh..wh..opq", "c/.wh.file"}).Draw(t, "inside")
	})
	name := rapid.OneOf(path, inside, inside, inside)
	entry := rapid.Custom(func(rt *rapid.T) treetest.Entry {
		n := name.Draw(rt, "name")
		switch rapid.IntRange(0, 5).Draw(rt, "type") {
		case 0:
			return treetest.Dir(n)
		case 1, 2:
			return treetest.Symlink(n, rapid.OneOf(path, rapid.SampledFrom([]string{"/", "..", "../outside", "../../../etc", "../outside/file", "/proc/self/root"})).Draw(rt, "target"))
		case 3:
			return treetest.Link(n, name.Draw(rt, "target"))
		}
		return treetest.File(strings.TrimRight(n, "/"), "evil")
	})
	rapid.Check(t, func(rt *rapid.T) {
		base, tr := world(t)
		before := outside(t, base)
		for range rapid.IntRange(1, 3).Draw(rt, "layers") {
			layer := rapid.SliceOfN(entry, 1, 12).Draw(rt, "entries")
			for _, e := range layer {
				// One by one: a refused entry does not hide the ones after it.
				err := tr.Layer(t.Context(), bytes.NewReader(treetest.Archive(t, e)))
				if err != nil && !errors.Is(err, extract.ErrRefused) && !errors.Is(err, os.ErrNotExist) {
					rt.Fatalf("%+v: %v", e.Header, err)
				}
			}
			_ = tr.Layer(t.Context(), bytes.NewReader(treetest.Archive(t, layer...))) // together, with touched names
		}
		if after := outside(t, base); after != before {
			rt.Fatalf("outside of the tree:\n%s\nbefore\n%s", after, before)
		}
		checkLinks(rt, base)
		if err := tree.Remove(filepath.Join(base, "tree")); err != nil {
			rt.Fatal(err)
		}
		_ = os.RemoveAll(base)
	})
}

// checkLinks fails if a file outside has a second name, which could only be in the tree.
func checkLinks(t *rapid.T, base string) {
	for _, path := range []string{"outside/file", "outside/dir/file", "etc/passwd"} {
		info, err := os.Lstat(filepath.Join(base, path))
		if err != nil {
			t.Fatal(err)
		}
		if n := info.Sys().(*syscall.Stat_t).Nlink; n != 1 {
			t.Fatalf("%s has %d names", path, n)
		}
	}
}

// Bytes that are no honest archive change nothing outside either.
func FuzzLayer(f *testing.F) {
	owned := treetest.File("usr/bin/a", "content")
	owned.PAXRecords = map[string]string{"SCHILY.xattr.user.note": "n"}
	for _, entries := range [][]treetest.Entry{
		{treetest.Dir("usr"), owned, treetest.Symlink("bin", "usr/bin"), treetest.File("bin/b", "b"), treetest.Link("c", "usr/bin/a")},
		{treetest.Symlink("l", "../outside"), treetest.File("l/file", "evil")},
		{treetest.File("../outside/file", "evil"), treetest.Device("mem", 1, 1)},
		{treetest.File("a/.wh..wh..opq", ""), treetest.File(".wh.b", "")},
	} {
		f.Add(treetest.Archive(f, entries...))
	}
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 4, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		base, tr := world(t)
		before := outside(t, base)
		content, err := extract.Decompress(bytes.NewReader(data))
		if err != nil {
			return
		}
		_ = tr.Layer(t.Context(), content)
		_ = content.Close()
		if after := outside(t, base); after != before {
			t.Fatalf("outside of the tree:\n%s\nbefore\n%s", after, before)
		}
		if u := tr.Usage(); u.Bytes > 20<<30 || u.Entries > 2_000_000 {
			t.Fatalf("the limits are passed: %+v", u)
		}
		if err := tree.Remove(filepath.Join(base, "tree")); err != nil {
			t.Fatal(err)
		}
	})
}
