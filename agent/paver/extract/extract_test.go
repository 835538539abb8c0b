package extract_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/paver/extract"
	"nstance.dev/agent/paver/treetest"
)

// open opens a new directory as a tree.
func open(t testing.TB, limits extract.Limits) (*extract.Tree, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := extract.Open(dir, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tree.Close)
	return tree, dir
}

// unpack makes a tree of layers.
func unpack(t testing.TB, layers ...[]treetest.Entry) string {
	t.Helper()
	tree, dir := open(t, extract.Limits{})
	for _, l := range layers {
		if err := tree.Layer(t.Context(), bytes.NewReader(treetest.Archive(t, l...))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// paths are the files and links below dir, without directories.
func paths(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLayersGoOverEachOther(t *testing.T) {
	lower := []treetest.Entry{
		treetest.Dir("etc"), treetest.File("etc/a", "1"), treetest.File("etc/b", "1"), treetest.Dir("etc/d"), treetest.File("etc/d/x", "1"),
		treetest.Dir("usr"), treetest.Dir("usr/lib"), treetest.File("usr/lib/l", "1"), treetest.Symlink("lib", "usr/lib"),
	}
	cases := []struct {
		name  string
		upper []treetest.Entry
		want  string
	}{
		{"nothing changes", nil, "etc/a etc/b etc/d/x lib usr/lib/l"},
		{"a whiteout removes a file", []treetest.Entry{treetest.File("etc/.wh.a", "")}, "etc/b etc/d/x lib usr/lib/l"},
		{"and a directory", []treetest.Entry{treetest.File("etc/.wh.d", "")}, "etc/a etc/b lib usr/lib/l"},
		{"a whiteout of what does not exist", []treetest.Entry{treetest.File("etc/.wh.none", ""), treetest.File("none/.wh.none", "")}, "etc/a etc/b etc/d/x lib usr/lib/l"},
		{"an opaque directory", []treetest.Entry{treetest.Dir("etc"), treetest.File("etc/.wh..wh..opq", ""), treetest.File("etc/new", "2")}, "etc/new lib usr/lib/l"},
		{"an opaque directory whose marker comes last", []treetest.Entry{treetest.File("etc/new", "2"), treetest.File("etc/d/y", "2"), treetest.File("etc/.wh..wh..opq", "")}, "etc/d/y etc/new lib usr/lib/l"},
		{"a whiteout reaches no entry of its own layer", []treetest.Entry{treetest.File("etc/a", "2"), treetest.File("etc/.wh.a", "")}, "etc/a etc/b etc/d/x lib usr/lib/l"},
		{"a second name for an earlier file is of this layer, the first is not", []treetest.Entry{treetest.Link("etc/c", "etc/a"), treetest.File("etc/.wh..wh..opq", "")}, "etc/c lib usr/lib/l"},
		{"a directory that is removed and made again", []treetest.Entry{treetest.File("etc/.wh.d", ""), treetest.Dir("etc/d"), treetest.File("etc/d/z", "2")}, "etc/a etc/b etc/d/z lib usr/lib/l"},
		{"a file where a directory was", []treetest.Entry{treetest.File("etc/d", "2")}, "etc/a etc/b etc/d lib usr/lib/l"},
		{"a directory where a file was", []treetest.Entry{treetest.Dir("etc/a"), treetest.File("etc/a/x", "2")}, "etc/a/x etc/b etc/d/x lib usr/lib/l"},
		{"a file through a link", []treetest.Entry{treetest.File("lib/m", "2")}, "etc/a etc/b etc/d/x lib usr/lib/l usr/lib/m"},
		{"records of another file system", []treetest.Entry{treetest.File(".wh..wh.plnk/1.2", ""), treetest.File("etc/.wh..wh.aufs", "")}, ".wh..wh.plnk/1.2 etc/a etc/b etc/d/x lib usr/lib/l"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(paths(t, unpack(t, lower, c.upper)), " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAnArchiveHasNoWhiteouts(t *testing.T) {
	tree, dir := open(t, extract.Limits{})
	if err := tree.Archive(t.Context(), bytes.NewReader(treetest.Archive(t, treetest.File("a", "1"), treetest.File(".wh.a", "")))); err != nil {
		t.Fatal(err)
	}
	if got := paths(t, dir); !slices.Equal(got, []string{".wh.a", "a"}) {
		t.Errorf("the tree holds %q", got)
	}
}

// What tar itself unpacks is the other side of the comparison.
func TestHonestArchivesComeOutAsTarUnpacksThem(t *testing.T) {
	long := strings.Repeat("long/", 30)
	archive := treetest.Archive(t,
		treetest.Entry{Header: tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o711}},
		treetest.Dir("usr/"), treetest.Dir("usr/bin"), treetest.File("usr/bin/program", strings.Repeat("x", 300_000)), treetest.Link("usr/bin/other", "usr/bin/program"),
		treetest.Entry{Header: tar.Header{Name: "usr/bin/su", Typeflag: tar.TypeReg, Mode: 0o4755}, Content: "s"},
		treetest.Entry{Header: tar.Header{Name: "tmp", Typeflag: tar.TypeDir, Mode: 0o1777}},
		treetest.Symlink("bin", "usr/bin"), treetest.Symlink("up", "../../etc"), treetest.Symlink("absolute", "/etc/passwd"),
		treetest.Link("linked-link", "bin"),
		treetest.File("empty", ""), treetest.File("zeros", string(make([]byte, 400_000))+"end"), treetest.File("a\nb\tc\xff", "name"),
		treetest.File(long+"file", "deep"),
		treetest.Entry{Header: tar.Header{Name: "pipe", Typeflag: tar.TypeFifo, Mode: 0o600}},
	)
	tree, dir := open(t, extract.Limits{})
	if err := tree.Archive(t.Context(), bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "tar", "-x", "--same-permissions", "--numeric-owner", "-C", other)
	cmd.Stdin = bytes.NewReader(archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	// Directories that no entry names get the time of the unpacking.
	unnamed := regexp.MustCompile(`(?m)^"long.*\n?`)
	got, want := unnamed.ReplaceAllString(treetest.Describe(t, dir), ""), unnamed.ReplaceAllString(treetest.Describe(t, other), "")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if data, err := os.ReadFile(filepath.Join(dir, long, "file")); err != nil || string(data) != "deep" {
		t.Errorf("the file below directories without entries: %q, %v", data, err)
	}
}

func TestZerosTakeNoRoom(t *testing.T) {
	dir := unpack(t, []treetest.Entry{treetest.File("zeros", string(make([]byte, 8<<20)))})
	info, err := os.Stat(filepath.Join(dir, "zeros"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); info.Size() != 8<<20 || st.Blocks != 0 {
		t.Errorf("%d bytes in %d blocks", info.Size(), st.Blocks)
	}
}

func TestOwnersDevicesAndAttributesAreKept(t *testing.T) {
	treetest.NeedRoot(t)
	acl := "\x02\x00\x00\x00\x01\x00\x06\x00\xff\xff\xff\xff\x02\x00\x04\x00\xe8\x03\x00\x00\x04\x00\x04\x00\xff\xff\xff\xff\x10\x00\x06\x00\xff\xff\xff\xff\x20\x00\x04\x00\xff\xff\xff\xff"
	capability := "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	owned := func(e treetest.Entry, uid, gid int) treetest.Entry { e.Uid, e.Gid = uid, gid; return e }
	ping := owned(treetest.File("ping", "p"), 0, 1)
	ping.PAXRecords = map[string]string{
		"SCHILY.xattr.security.capability": capability, "SCHILY.xattr.trusted.overlay.opaque": "y",
		"SCHILY.xattr.security.selinux": "system_u:object_r:bin_t:s0", "SCHILY.xattr.user.note": "n",
	}
	log := owned(treetest.Dir("log"), 0, 4)
	log.Mode = 0o664 // as the ACL says
	log.PAXRecords = map[string]string{"SCHILY.xattr.system.posix_acl_access": acl}
	setid := owned(treetest.File("setid", "s"), 1000, 4_000_000_000)
	setid.Mode = 0o6755
	dir := unpack(t, []treetest.Entry{ping, log, setid, owned(treetest.Symlink("link", "ping"), 7, 8), owned(treetest.Device("null", 1, 3), 0, 5)})

	get := func(name, key string) string {
		value := make([]byte, 256)
		n, err := unix.Lgetxattr(filepath.Join(dir, name), key, value)
		if err != nil {
			return err.Error()
		}
		return string(value[:n])
	}
	if get("ping", "security.capability") != capability || get("ping", "user.note") != "n" {
		t.Error("capabilities or attributes of users are lost")
	}
	if get("log", "system.posix_acl_access") != acl {
		t.Errorf("the ACL is %q", get("log", "system.posix_acl_access"))
	}
	if v := get("ping", "trusted.overlay.opaque"); v != unix.ENODATA.Error() {
		t.Errorf("an attribute of overlay file systems was unpacked: %q", v)
	}
	for name, want := range map[string][2]uint32{"ping": {0, 1}, "setid": {1000, 4_000_000_000}, "link": {7, 8}, "null": {0, 5}} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); [2]uint32{st.Uid, st.Gid} != want {
			t.Errorf("%s belongs to %d:%d, want %v", name, st.Uid, st.Gid, want)
		}
		if name == "setid" && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != os.ModeSetuid|os.ModeSetgid {
			t.Errorf("setid has mode %v", info.Mode())
		}
	}
}

func TestProgramsAreOrdinaryFiles(t *testing.T) {
	setid := treetest.File("bin/containerd", "c")
	setid.Mode, setid.Uid, setid.Gid = 0o6711, 1001, 1001
	archive := treetest.Archive(t, treetest.Dir("bin"), setid, treetest.File("README", "r"), treetest.Symlink("bin/link", "/etc"), treetest.Device("bin/null", 1, 3), treetest.File("./bin/.wh.x", "w"))
	tree, dir := open(t, extract.Limits{})
	if err := tree.Archive(t.Context(), bytes.NewReader(treetest.Archive(t, treetest.Dir("usr"), treetest.Symlink("usr/local", "/data")))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := tree.Programs(t.Context(), bytes.NewReader(archive), func(name string, _ bool) (string, bool) {
		return "usr/local/" + name, strings.HasPrefix(name, "bin/")
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(paths(t, dir), " "); got != "data/bin/.wh.x data/bin/containerd usr/local" {
		t.Errorf("the tree holds %s", got)
	}
	info, err := os.Stat(filepath.Join(dir, "data/bin/containerd"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); info.Mode() != 0o755 || int(st.Uid) != os.Getuid() {
		t.Errorf("mode %v, owner %d", info.Mode(), st.Uid)
	}
}

func TestUnpackingEndsWithItsContext(t *testing.T) {
	tree, _ := open(t, extract.Limits{})
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if err := tree.Layer(ctx, bytes.NewReader(treetest.Archive(t, treetest.File("a", "1")))); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}
