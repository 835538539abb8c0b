package artifact_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/cache"
	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/treetest"
)

func blobOf(t testing.TB, data []byte) *cache.Blob {
	t.Helper()
	c, err := cache.Open(t.Context(), t.TempDir(), cache.Options{MaxShare: 100, MinFree: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Blob(t.Context(), digest.Of(data), -1, func(_ context.Context, f *os.File) error {
		_, err := f.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func compressed(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// program is an executable entry that somebody else owns.
func program(name, content string) treetest.Entry {
	e := treetest.File(name, content)
	e.Mode, e.Uid, e.Gid = 0o6775, 1001, 127
	return e
}

func TestInstall(t *testing.T) {
	elf := "\x7fELF" + strings.Repeat("x", 1000)
	link := treetest.Symlink("bin/evil", "/etc/shadow")
	cases := []struct {
		name  string
		of    artifact.Name
		data  []byte
		want  string // paths
		error string
	}{
		{"a program", artifact.Kubelet, []byte(elf), "/usr/local/bin/kubelet", ""},
		{"a compressed program", artifact.Runc, compressed(t, []byte(elf)), "/usr/local/bin/runc", ""},
		{"a script", artifact.Kubelet, []byte("#!/bin/sh\n"), "/usr/local/bin/kubelet", ""},
		{"a program in an archive", artifact.Kubelet, compressed(t, treetest.Archive(t, treetest.Dir("kubernetes"), program("kubernetes/node/bin/kubelet", elf), program("kubernetes/node/bin/kubectl", elf))), "/usr/local/bin/kubelet", ""},
		{"containerd", artifact.Containerd, compressed(t, treetest.Archive(t, program("bin/containerd", elf), program("bin/containerd-shim-runc-v2", elf), program("bin/ctr", elf), treetest.File("etc/x", "x"), link, treetest.Device("bin/mem", 1, 1))),
			"/usr/local/bin/containerd /usr/local/bin/containerd-shim-runc-v2 /usr/local/bin/ctr", ""},
		{"plugins", artifact.CNIPlugins, compressed(t, treetest.Archive(t, program("./bridge", elf), program("./loopback", elf), treetest.File("./LICENSE", "l"))), "/opt/cni/bin/bridge /opt/cni/bin/loopback", ""},
		{"crictl", artifact.Crictl, treetest.Archive(t, program("crictl", elf)), "/usr/local/bin/crictl", ""},
		{"a name that leads up", artifact.Containerd, treetest.Archive(t, program("../../bin/containerd", elf)), "", `contains ".."`},
		{"containerd that is no archive", artifact.Containerd, []byte(elf), "", "not a tar archive"},
		{"an archive of something else", artifact.Kubelet, treetest.Archive(t, program("kubectl", elf)), "", "does not hold kubelet"},
		{"a half containerd", artifact.Containerd, treetest.Archive(t, program("bin/containerd", elf)), "", "does not hold containerd-shim-runc-v2"},
		{"a page that says where it has gone", artifact.Kubelet, []byte("<html>moved</html>"), "", "neither a tar archive nor a program"},
		{"nothing", artifact.Runc, nil, "", "read archive"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			base := t.TempDir()
			dir := filepath.Join(base, "tree")
			// A tree whose usr is elsewhere in it, by a link that leads out of it from outside.
			if err := errors.Join(os.MkdirAll(filepath.Join(dir, "real/local"), 0o755), os.Symlink("/real", filepath.Join(dir, "usr"))); err != nil {
				t.Fatal(err)
			}
			files, err := artifact.Install(t.Context(), dir, c.of, blobOf(t, c.data))
			if (err != nil) != (c.error != "") || err != nil && !strings.Contains(err.Error(), c.error) {
				t.Fatalf("got %v, want %q", err, c.error)
			}
			var paths []string
			for _, f := range files {
				paths = append(paths, f.Path)
				at := filepath.Join(dir, strings.Replace(f.Path, "/usr/", "/real/", 1))
				data, err := os.ReadFile(at)
				sum := sha256.Sum256(data)
				if err != nil || hex.EncodeToString(sum[:]) != f.SHA256 || !artifact.IsInstalled(f.Path) {
					t.Errorf("%+v: %v", f, err)
				}
				if info, err := os.Stat(at); err != nil || info.Mode() != 0o755 || f.Mode != 0o755 {
					t.Errorf("%+v: %v, %v", f, info.Mode(), err)
				}
			}
			if got := strings.Join(paths, " "); got != c.want {
				t.Errorf("written are %s, want %s", got, c.want)
			}
			if entries, err := os.ReadDir(base); err != nil || len(entries) != 1 {
				t.Errorf("outside of the tree: %v, %v", entries, err)
			}
		})
	}
}

func TestAnArtifactThatWentBadIsDiscarded(t *testing.T) {
	dir := t.TempDir()
	c, err := cache.Open(t.Context(), dir, cache.Options{MaxShare: 100, MinFree: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	data := []byte("#!/bin/sh\n")
	b, err := c.Blob(t.Context(), digest.Of(data), -1, func(_ context.Context, f *os.File) error { _, err := f.Write(data); return err })
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	path := filepath.Join(dir, "blobs", digest.Of(data).Hex())
	if err := os.WriteFile(path, []byte("#!/bin/zz\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := artifact.Install(t.Context(), t.TempDir(), artifact.Kubelet, b); !errors.Is(err, digest.ErrMismatch) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there still: %v", err)
	}
}

// newTree is an empty tree. Others may enter it, as in an image: programs are run without
// rights.
func newTree(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sayer is the program of say, built once. It is static: it needs nothing of a tree.
var sayer = sync.OnceValues(func() ([]byte, error) {
	const source = "testdata/say/main.go"
	if _, err := os.Stat(source); err != nil { // Go's test cache knows of it by that, and not by the build
		return nil, err
	}
	dir, err := os.MkdirTemp("", "say")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "say"), source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "say"))
})

// say puts a program into a tree that says a line.
func say(t testing.TB, dir, name, line string) {
	t.Helper()
	program, err := sayer()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, program, 0o755), os.WriteFile(path+".says", []byte(line), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestCheck(t *testing.T) {
	treetest.NeedRoot(t)
	complete := func(t *testing.T) string {
		dir := newTree(t)
		say(t, dir, "usr/bin/kubelet", "Kubernetes v1.36.3+vendor.1")
		say(t, dir, "usr/local/bin/containerd", "containerd github.com/containerd/containerd 2.1.0")
		say(t, dir, "usr/sbin/runc", "runc version 1.2.0")
		return dir
	}
	cases := []struct {
		name   string
		change func(t *testing.T, dir string)
		later  []artifact.Name
		says   string
	}{
		{name: "complete", change: func(*testing.T, string) {}},
		{name: "another kubelet comes first", change: func(t *testing.T, dir string) { say(t, dir, "usr/local/bin/kubelet", "Kubernetes v1.35.0") }, says: `/usr/local/bin/kubelet in the image says "Kubernetes v1.35.0", kubernetes.version is v1.36.3`},
		{name: "a kubelet that is close", change: func(t *testing.T, dir string) { say(t, dir, "usr/bin/kubelet", "Kubernetes v1.36.30") }, says: "says"},
		{name: "no kubelet", change: func(t *testing.T, dir string) { remove(t, dir, "usr/bin/kubelet") }, says: "the image has no kubelet"},
		{name: "the kubelet comes later", change: func(t *testing.T, dir string) { remove(t, dir, "usr/bin/kubelet") }, later: []artifact.Name{artifact.Kubelet}},
		{name: "no runc", change: func(t *testing.T, dir string) { remove(t, dir, "usr/sbin/runc") }, says: "the image has no runc"},
		{name: "containerd fails", change: func(t *testing.T, dir string) { say(t, dir, "usr/local/bin/containerd", "fail") }, says: "ends with status 3"},
		{name: "runc is for another machine", change: func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "usr/sbin/runc"), []byte("\x7fELFnot really"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, says: "run /usr/sbin/runc"},
		{name: "a kubelet that cannot be run", change: func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, "usr/bin/kubelet"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, says: "the image has no kubelet"},
		{name: "a kubelet outside of the tree", change: func(t *testing.T, dir string) {
			remove(t, dir, "usr/bin/kubelet")
			if err := os.Symlink("/proc/self/exe", filepath.Join(dir, "usr/bin/kubelet")); err != nil {
				t.Fatal(err)
			}
		}, says: "the image has no kubelet"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := complete(t)
			c.change(t, dir)
			found, err := artifact.Check(t.Context(), dir, "v1.36.3", c.later...)
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if err == nil && (len(found) != 3-len(c.later) || found[artifact.Runc] != artifact.Found{Path: "/usr/sbin/runc", Version: "runc version 1.2.0"}) {
				t.Errorf("found is %+v", found)
			}
		})
	}
}

// What is run sees nothing but the tree, is alone, and cannot write.
func TestProgramsOfAnImageAreRunWithoutRights(t *testing.T) {
	treetest.NeedRoot(t)
	dir := newTree(t)
	say(t, dir, "usr/bin/kubelet", "who")
	say(t, dir, "usr/bin/containerd", "x")
	say(t, dir, "usr/bin/runc", "x")
	_, err := artifact.Check(t.Context(), dir, "v1.36.3")
	const want = "user 65534, process 1, 1 interfaces, the host's files false, writing false"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "written")); err == nil {
		t.Error("the tree was written to")
	}
}

func remove(t testing.TB, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}
