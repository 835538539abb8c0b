package tree_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/paver/extract"
	"nstance.dev/agent/paver/tree"
	"nstance.dev/agent/paver/treetest"
)

// unpack unpacks entries into a new directory.
func unpack(t *testing.T, entries ...treetest.Entry) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "from")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tr, err := extract.Open(dir, extract.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Archive(t.Context(), bytes.NewReader(treetest.Archive(t, entries...))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestACopyIsLikeTheOriginal(t *testing.T) {
	noted := treetest.File("noted", "n")
	noted.PAXRecords = map[string]string{"SCHILY.xattr.user.note": "a\x00b"}
	setid := treetest.File("usr/setid", "s")
	setid.Mode = 0o4711
	from := unpack(t,
		treetest.Entry{Header: tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o751}},
		treetest.Dir("usr"), treetest.File("usr/a", strings.Repeat("a", 500_000)), treetest.Link("usr/b", "usr/a"), setid, noted,
		treetest.Dir("empty"), treetest.Entry{Header: tar.Header{Name: "tmp", Typeflag: tar.TypeDir, Mode: 0o1777}},
		treetest.Symlink("link", "../../../etc/passwd"), treetest.Link("link2", "link"), treetest.Symlink("dir", "usr"), treetest.File("dir2/x", "x"),
		treetest.File("zeros", string(make([]byte, 1<<20))+"end"), treetest.File("none", ""), treetest.File("a\nb\xff", "odd"),
		treetest.Entry{Header: tar.Header{Name: "pipe", Typeflag: tar.TypeFifo, Mode: 0o640}},
	)
	to := filepath.Join(t.TempDir(), "to")
	usage, err := tree.Copy(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := treetest.Describe(t, to), treetest.Describe(t, from); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	value := make([]byte, 16)
	if n, err := unix.Getxattr(filepath.Join(to, "noted"), "user.note", value); err != nil || string(value[:n]) != "a\x00b" {
		t.Errorf("the attribute is %q, %v", value[:n], err)
	}
	if lines := strings.Count(treetest.Describe(t, from), "\n"); usage.Entries != int64(lines) {
		t.Errorf("%d entries are counted, %d exist", usage.Entries, lines)
	}
	same, err := tree.Measure(t.Context(), to)
	if err != nil || same.Entries != usage.Entries {
		t.Errorf("%+v are measured, %+v were copied: %v", same, usage, err)
	}
	if same.Bytes > 700_000 {
		t.Errorf("holes were filled: %d bytes are allocated", same.Bytes)
	}
}

func TestACopyKeepsOwnersAndDevices(t *testing.T) {
	treetest.NeedRoot(t)
	owned := func(e treetest.Entry, uid, gid int) treetest.Entry { e.Uid, e.Gid = uid, gid; return e }
	capable := owned(treetest.File("ping", "p"), 12, 13)
	capable.PAXRecords = map[string]string{
		"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	}
	from := unpack(t, owned(treetest.Dir("d"), 1, 2), owned(treetest.File("d/f", "f"), 3, 4_000_000_000), owned(treetest.Symlink("l", "d"), 5, 6), owned(treetest.Device("null", 1, 3), 0, 7), capable)
	to := filepath.Join(t.TempDir(), "to")
	if _, err := tree.Copy(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	if got, want := treetest.Describe(t, to), treetest.Describe(t, from); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := unix.Getxattr(filepath.Join(to, "ping"), "security.capability", make([]byte, 64)); err != nil {
		t.Errorf("the capability of a file: %v", err)
	}
}

func TestCopyIsRefused(t *testing.T) {
	from := unpack(t, treetest.Dir("a"), treetest.File("a/b", "c"))
	if _, err := tree.Copy(t.Context(), from, t.TempDir()); !errors.Is(err, os.ErrExist) {
		t.Errorf("over what exists: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if _, err := tree.Copy(ctx, from, filepath.Join(t.TempDir(), "to")); !errors.Is(err, stop) {
		t.Errorf("after the end: %v", err)
	}
}

func TestSocketsAreNotCopied(t *testing.T) {
	from := unpack(t, treetest.File("a", "b"))
	socket, err := net.Listen("unix", filepath.Join(from, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	to := filepath.Join(t.TempDir(), "to")
	if usage, err := tree.Copy(t.Context(), from, to); err != nil || usage.Entries != 1 {
		t.Errorf("%+v, %v", usage, err)
	}
}

func TestContentThroughMemory(t *testing.T) {
	content := []byte(strings.Repeat("0123456789", 300_000))
	path := filepath.Join(t.TempDir(), "from")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(path + "2")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := tree.CopyThroughMemory(t.Context(), from, to, int64(len(content))); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path + "2"); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := tree.CopyThroughMemory(t.Context(), from, to, int64(len(content))+1); err == nil {
		t.Error("content that ends early is copied")
	}
}

func TestRemoveFollowsNoLink(t *testing.T) {
	outside := unpack(t, treetest.File("file", "mine"))
	before := treetest.Describe(t, outside)
	dir := unpack(t, treetest.Dir("a/b"), treetest.File("a/b/c", "d"), treetest.Symlink("a/out", outside), treetest.Symlink("out", outside+"/file"), treetest.Entry{Header: tar.Header{Name: "locked", Typeflag: tar.TypeDir, Mode: 0o700}})
	if err := tree.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	if got := treetest.Describe(t, outside); got != before {
		t.Errorf("outside\n%s\nbefore\n%s", got, before)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	if err := tree.Remove(link); err != nil {
		t.Fatal(err)
	}
	if got := treetest.Describe(t, outside); got != before {
		t.Errorf("outside\n%s\nbefore\n%s", got, before)
	}
	for _, path := range []string{link, filepath.Join(link, "none")} {
		if err := tree.Remove(path); err != nil {
			t.Errorf("what does not exist: %v", err)
		}
	}
}

// Content of a file system that is mounted in a tree is neither removed nor copied.
func TestMountsAreLeftAlone(t *testing.T) {
	treetest.NeedRoot(t)
	dir := unpack(t, treetest.Dir("a"), treetest.Dir("a/mounted"))
	mounted := filepath.Join(dir, "a/mounted")
	if err := syscall.Mount("tmpfs", mounted, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mounted, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(mounted, "file"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tree.Remove(dir); !errors.Is(err, tree.ErrMount) {
		t.Errorf("remove: %v", err)
	}
	if _, err := tree.Copy(t.Context(), dir, filepath.Join(t.TempDir(), "to")); !errors.Is(err, tree.ErrMount) {
		t.Errorf("copy: %v", err)
	}
	if _, err := tree.Measure(t.Context(), dir); !errors.Is(err, tree.ErrMount) {
		t.Errorf("measure: %v", err)
	}
	if _, err := os.Stat(filepath.Join(mounted, "file")); err != nil {
		t.Error(err)
	}
}

func TestRemoveManyEntries(t *testing.T) {
	dir := t.TempDir()
	for i := range 5000 {
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("x", 1+i%200)+string(rune('a'+i%26))+strings.Repeat("y", i/200)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.Remove(dir); err != nil {
		t.Fatal(err)
	}
}

func TestStatSeesNothingButTheTree(t *testing.T) {
	root := unpack(t, treetest.Dir("usr/lib"), treetest.File("usr/lib/init", "i"), treetest.Symlink("sbin", "/usr/lib"), treetest.Symlink("up", "../../../../../../usr/lib/init"), treetest.Symlink("out", "/etc/passwd"))
	for path, exists := range map[string]bool{
		"usr/lib/init": true, "/usr/lib/init": true, "sbin/init": true, "up": true, "../../usr/lib/init": true,
		"out": false, "etc/passwd": false, "/proc/self": false,
	} {
		if _, err := tree.Stat(root, path); (err == nil) != exists {
			t.Errorf("%s: %v", path, err)
		}
	}
}
