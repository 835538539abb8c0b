package extract_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"nstance.dev/agent/paver/extract"
	"nstance.dev/agent/paver/treetest"
)

// world is a directory with a tree in it, and things beside it that a hostile archive is
// after.
func world(t testing.TB) (base string, tree *extract.Tree) {
	t.Helper()
	base = t.TempDir()
	for path, content := range map[string]string{"outside/file": "mine", "outside/dir/file": "mine", "etc/passwd": "root"} {
		path = filepath.Join(base, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(base, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := extract.Open(filepath.Join(base, "tree"), extract.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tree.Close)
	return base, tree
}

// outside describes what is beside the tree.
func outside(t testing.TB, base string) string {
	t.Helper()
	return treetest.Describe(t, filepath.Join(base, "outside")) + treetest.Describe(t, filepath.Join(base, "etc"))
}

func TestHostileArchivesChangeNothingOutside(t *testing.T) {
	up := strings.Repeat("../", 20)
	block := treetest.Device("sda", 8, 0)
	block.Typeflag = tar.TypeBlock
	owner := treetest.File("a", "")
	owner.Uid, owner.Gid = 1<<32-1, 1
	file := func(base string) string { return filepath.Join(base, "outside/file") }
	cases := []struct {
		name    string
		entries func(base string) []treetest.Entry
		refused string // part of the error; empty: it is unpacked, inside
		inside  string // a path that it leads to
	}{
		{"a name that leads up", entries(treetest.File("../outside/file", "evil")), `contains ".."`, ""},
		{"a name that leads down and up", entries(treetest.Dir("a"), treetest.File("a/../../outside/file", "evil")), `contains ".."`, ""},
		{"an absolute name", func(b string) []treetest.Entry { return []treetest.Entry{treetest.File(file(b), "evil")} }, "", "outside/file"},
		{"an absolute link and a file through it", func(b string) []treetest.Entry {
			return []treetest.Entry{treetest.Symlink("l", b), treetest.File("l/outside/file", "evil")}
		}, "leads nowhere", ""},
		{"a link to the root", entries(treetest.Symlink("l", "/"), treetest.File("l/file", "evil")), "", "file"},
		{"a link that leads up", entries(treetest.Symlink("l", up), treetest.File("l/file", "evil")), "", "file"},
		{"a link to a sibling", entries(treetest.Symlink("l", "../outside"), treetest.File("l/file", "evil")), "leads nowhere", ""},
		{"a link in place of a directory", entries(treetest.Dir("l"), treetest.Symlink("l", "../outside"), treetest.File("l/file", "evil")), "leads nowhere", ""},
		{"a file where a link is", entries(treetest.Symlink("l", "../outside/file"), treetest.File("l", "evil")), "", "l"},
		{"a directory where a link is", entries(treetest.Symlink("l", "../outside"), treetest.Dir("l"), treetest.File("l/file", "evil")), "", "l/file"},
		{"a hard link that leads up", entries(treetest.Link("l", "../outside/file"), treetest.File("l", "evil")), `contains ".."`, ""},
		{"an absolute hard link", func(b string) []treetest.Entry {
			return []treetest.Entry{treetest.Link("l", file(b)), treetest.File("l", "evil")}
		}, "no such file", ""},
		{"a hard link through a link", entries(treetest.Symlink("d", "../outside"), treetest.Link("l", "d/file"), treetest.File("l", "evil")), "no such file", ""},
		{"a hard link to a link, and a file through it", entries(treetest.Symlink("s", "../outside/file"), treetest.Link("l", "s"), treetest.File("l", "evil")), "", "l"},
		{"a hard link to a directory", entries(treetest.Dir("d"), treetest.Link("l", "d")), "is a directory", ""},
		{"a hard link to the tree", entries(treetest.Link("l", "/")), "refused", ""},
		{"a hard link to what it replaces", entries(treetest.Dir("d"), treetest.File("d/f", "1"), treetest.Link("d", "d/f")), "refused", ""},
		{"a whiteout through a link", entries(treetest.Symlink("l", "../outside"), treetest.File("l/.wh.file", "")), "", "l"},
		{"a whiteout that leads up", entries(treetest.File(".wh...", "")), "without a name", ""},
		{"a whiteout of the directory", entries(treetest.File(".wh..", "")), "without a name", ""},
		{"a whiteout without a name", entries(treetest.File(".wh.", "")), "without a name", ""},
		{"an opaque directory through a link", entries(treetest.Symlink("l", "../outside"), treetest.File("l/.wh..wh..opq", "")), "", "l"},
		{"a disk", entries(block), "device node 8:0", ""},
		{"the memory", entries(treetest.Device("mem", 1, 1)), "device node 1:1", ""},
		{"a file through a file", entries(treetest.File("f", "1"), treetest.File("f/g", "2")), "not a directory", ""},
		{"a circle of links", entries(treetest.Symlink("a", "b"), treetest.Symlink("b", "a"), treetest.File("a/f", "evil")), "too many levels", ""},
		{"a link into the process", entries(treetest.Symlink("l", "/proc/self/cwd"), treetest.File("l/file", "evil")), "leads nowhere", ""},
		{"the tree as a file", entries(treetest.File(".", "evil")), "must be a directory", ""},
		{"an owner that means no change", entries(owner), "the owner 4294967295", ""},
		{"an entry of no known type", entries(treetest.Entry{Header: tar.Header{Name: "x", Typeflag: 'Z'}}), "are unknown", ""},
		{"a name that is too long", entries(treetest.File(strings.Repeat("a", 256), "")), "more than 255 bytes", ""},
		{"a path that is too long", entries(treetest.File(strings.Repeat("a/", 2000)+"f", "")), "more than 3000 bytes", ""},
		{"a path that links make too long", entries(
			treetest.File(strings.Repeat("a/", 1000)+"f", ""), treetest.Symlink("l", strings.Repeat("a/", 1000)),
			treetest.File("l/"+strings.Repeat("a/", 1000)+"f", "")), "more than 3000 bytes", ""},
		{"a name with a line break", entries(treetest.File("../x\ny", "evil")), `contains ".."`, ""},
		{"an empty link", entries(treetest.Symlink("l", "")), "target of the symbolic link", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			base, tree := world(t)
			before := outside(t, base)
			err := tree.Layer(t.Context(), bytes.NewReader(treetest.Archive(t, c.entries(base)...)))
			if c.refused != "" && (!errors.Is(err, extract.ErrRefused) || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("got %v, want a refusal with %q", err, c.refused)
			}
			if c.refused == "" && err != nil {
				t.Errorf("got %v", err)
			}
			if c.inside != "" && strings.HasPrefix(c.inside, "outside") {
				c.inside = filepath.Join(base, c.inside)
			}
			if _, err := os.Lstat(filepath.Join(base, "tree", c.inside)); err != nil {
				t.Errorf("what stays inside: %v", err)
			}
			if after := outside(t, base); after != before {
				t.Errorf("outside of the tree:\n%s\nbefore\n%s", after, before)
			}
		})
	}
}

func entries(all ...treetest.Entry) func(string) []treetest.Entry {
	return func(string) []treetest.Entry { return all }
}

// A zero byte ends a name for the kernel: what was checked would not be what is made.
func TestANameWithAZeroByteIsRefused(t *testing.T) {
	archive := treetest.Archive(t, treetest.File(strings.Repeat("d/", 60)+"NAME", "evil"))
	archive = bytes.ReplaceAll(archive, []byte("NAME"), []byte("N\x00ME"))
	base, tree := world(t)
	before := outside(t, base)
	err := tree.Layer(t.Context(), bytes.NewReader(archive))
	if !errors.Is(err, extract.ErrRefused) {
		t.Errorf("got %v", err)
	}
	if outside(t, base) != before {
		t.Error("something changed outside of the tree")
	}
}

func TestTheNumberOfEntriesIsBounded(t *testing.T) {
	tree, dir := open(t, extract.Limits{Entries: 1000})
	stream := &endless{header: headerOf(t, "same"), left: 3_000_000}
	err := tree.Layer(t.Context(), stream)
	if !errors.Is(err, extract.ErrRefused) || !strings.Contains(err.Error(), "more than 1000 entries") {
		t.Errorf("got %v", err)
	}
	if stream.left < 2_998_000 {
		t.Errorf("%d entries were read on", 3_000_000-stream.left)
	}
	if got := paths(t, dir); len(got) != 1 {
		t.Errorf("the tree holds %q", got)
	}
}

func TestTheDefaultLimits(t *testing.T) {
	tree, _ := open(t, extract.Limits{})
	big := tar.Header{Name: "big", Typeflag: tar.TypeReg, Size: 20<<30 + 1, Mode: 0o644, Uid: os.Getuid(), Gid: os.Getgid()}
	var archive bytes.Buffer
	if err := tar.NewWriter(&archive).WriteHeader(&big); err != nil {
		t.Fatal(err)
	}
	if err := tree.Layer(t.Context(), &archive); !errors.Is(err, extract.ErrRefused) || !strings.Contains(err.Error(), "more than 21474836480 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestTheBytesOfAllLayersAreBounded(t *testing.T) {
	tree, _ := open(t, extract.Limits{Bytes: 100})
	layer := treetest.Archive(t, treetest.File("a", strings.Repeat("x", 60)))
	if err := tree.Layer(t.Context(), bytes.NewReader(layer)); err != nil {
		t.Fatal(err)
	}
	if err := tree.Layer(t.Context(), bytes.NewReader(layer)); !errors.Is(err, extract.ErrRefused) {
		t.Errorf("got %v", err)
	}
}

// A file with holes may claim any size in a few bytes.
func TestHolesCountAsBytes(t *testing.T) {
	// As GNU tar writes it for a file of 1 GiB without content, format 1.0.
	header := tar.Header{
		Name: "GNUSparseFile.0/f", Typeflag: tar.TypeReg, Size: 512, Mode: 0o644, Format: tar.FormatPAX, Uid: os.Getuid(), Gid: os.Getgid(),
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	header.PAXRecords = map[string]string{"comment": "GNU.sparse.realsize=1073741824"}
	if err := w.WriteHeader(&header); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(append([]byte("1\n1073741824\n0\n"), make([]byte, 512-15)...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	hostile := sparse(archive.Bytes())
	tree, _ := open(t, extract.Limits{Bytes: 1 << 20})
	if err := tree.Layer(t.Context(), bytes.NewReader(hostile)); !errors.Is(err, extract.ErrRefused) {
		t.Errorf("got %v", err)
	}
	tree, dir := open(t, extract.Limits{})
	if err := tree.Layer(t.Context(), bytes.NewReader(hostile)); err != nil {
		t.Fatal(err)
	}
	if used := allocated(t, dir); used > 1<<20 {
		t.Errorf("a file without content takes %d bytes", used)
	}
}

// sparse turns the comment of the only entry into the records of a file with holes.
func sparse(archive []byte) []byte {
	records := ""
	for _, r := range [][2]string{{"GNU.sparse.major", "1"}, {"GNU.sparse.minor", "0"}, {"GNU.sparse.name", "f"}, {"GNU.sparse.realsize", "1073741824"}} {
		body := fmt.Sprintf(" %s=%s\n", r[0], r[1])
		records += fmt.Sprintf("%d%s", len(body)+2, body)
	}
	out := bytes.Clone(archive)
	copy(out[512:1024], make([]byte, 512))
	copy(out[512:], records)
	copy(out[124:136], fmt.Sprintf("%011o\x00", len(records))) // size of the records
	copy(out[148:156], "        ")
	sum := 0
	for _, b := range out[:512] {
		sum += int(b)
	}
	copy(out[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return out
}

func TestBombsAreRefused(t *testing.T) {
	for name, compress := range map[string]func(io.Writer) io.WriteCloser{
		"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"zstd": func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
	} {
		t.Run(name, func(t *testing.T) {
			tree, dir := open(t, extract.Limits{})
			r, w := io.Pipe()
			go writeBomb(w, compress(w))
			content, err := extract.Decompress(r)
			if err != nil {
				t.Fatal(err)
			}
			err = tree.Layer(t.Context(), content)
			_ = content.Close()
			_ = r.Close()
			if !errors.Is(err, extract.ErrRefused) || !strings.Contains(err.Error(), "decompress to more than") {
				t.Errorf("got %v", err)
			}
			if used := allocated(t, dir); used > 1<<20 {
				t.Errorf("the bomb takes %d bytes", used)
			}
		})
	}
}

// writeBomb writes 10 GiB of zeros as one file, or as much as is read.
func writeBomb(w *io.PipeWriter, out io.WriteCloser) {
	archive := tar.NewWriter(out)
	err := archive.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: 10 << 30, Mode: 0o644, Uid: os.Getuid(), Gid: os.Getgid()})
	zeros := make([]byte, 1<<20)
	for i := 0; i < 10<<10 && err == nil; i++ {
		_, err = archive.Write(zeros)
	}
	_ = w.CloseWithError(errors.Join(err, archive.Close(), out.Close()))
}

func TestTheLastBytesOfTheDiskAreLeftAlone(t *testing.T) {
	tree, dir := open(t, extract.Limits{MinFree: 1 << 60})
	err := tree.Layer(t.Context(), bytes.NewReader(treetest.Archive(t, treetest.File("a", "1"))))
	if !errors.Is(err, extract.ErrNoSpace) || errors.Is(err, extract.ErrRefused) {
		t.Errorf("got %v", err)
	}
	if got := paths(t, dir); len(got) != 0 {
		t.Errorf("the tree holds %q", got)
	}
}

func TestWhatIsCutOffIsAnError(t *testing.T) {
	whole := treetest.Archive(t, treetest.File("a", strings.Repeat("x", 5000)), treetest.File("b", "y"))
	for _, n := range []int{100, 512, 700, 4000, 5700} {
		tree, _ := open(t, extract.Limits{})
		if err := tree.Layer(t.Context(), bytes.NewReader(whole[:n])); n != 512 && err == nil {
			t.Errorf("%d bytes of an archive are unpacked", n)
		}
	}
}
