package inroot_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/paver/inroot"
)

func open(t *testing.T) (*inroot.Root, string) {
	t.Helper()
	dir := t.TempDir()
	top := filepath.Join(dir, "root")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "outside"), []byte("as it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := inroot.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close()
		if text, err := os.ReadFile(filepath.Join(dir, "outside")); err != nil || string(text) != "as it was" {
			t.Errorf("the file outside: %q, %v", text, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 2 {
			t.Errorf("outside there are %v, %v", entries, err)
		}
	})
	return r, top
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreWritten(t *testing.T) {
	r, top := open(t)
	for _, content := range []string{"first", "second, which is longer"} {
		if err := r.File("/etc/kubernetes/kubelet.yaml", []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Read("etc/kubernetes/kubelet.yaml", 100); err != nil || string(got) != content {
			t.Errorf("read %q, %v", got, err)
		}
	}
	if err := r.Link("/etc/wanted", "/usr/lib/unit"); err != nil {
		t.Fatal(err)
	}
	if err := r.Link("/etc/wanted", "/usr/lib/other"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(top, "etc/kubernetes/kubelet.yaml"))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	info, err = os.Stat(filepath.Join(top, "etc/kubernetes"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode of the directory %v, %v", info.Mode(), err)
	}
	if target, err := os.Readlink(filepath.Join(top, "etc/wanted")); err != nil || target != "/usr/lib/other" {
		t.Errorf("link to %q, %v", target, err)
	}
	if err := errors.Join(r.Sync(), r.Remove("/etc/wanted"), r.Remove("/etc/wanted"), r.Remove("/no/such"), r.Mkdir("/var/lib/x", 0o700)); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Join(top, "etc")); err != nil || len(entries) != 1 {
		t.Errorf("left in etc: %v, %v", entries, err)
	}
}

// What an image has in the way leads nowhere else.
func TestLinksLeadNowhereElse(t *testing.T) {
	r, top := open(t)
	outside := filepath.Join(filepath.Dir(top), "outside")
	link(t, outside, filepath.Join(top, "file"))
	link(t, "../outside", filepath.Join(top, "relative"))
	link(t, filepath.Dir(top), filepath.Join(top, "absolute"))
	link(t, "../../..", filepath.Join(top, "up"))
	link(t, "/real", filepath.Join(top, "inside"))
	if err := os.Mkdir(filepath.Join(top, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/file", "/relative", "/../../file2", "/up/file3", "/inside/file4"} {
		if err := r.File(name, []byte("x"), 0o644); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.File("/absolute/outside", []byte("x"), 0o644); err == nil {
		t.Error("a link to a directory that does not exist in the tree was followed")
	}
	if err := r.File("/file/below", []byte("x"), 0o644); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
	if err := r.File("/", nil, 0o644); err == nil {
		t.Error("the root was written")
	}
	if _, err := os.Stat(filepath.Join(top, "real/file4")); err != nil {
		t.Errorf("an absolute link does not begin at the tree's root: %v", err)
	}
	for _, name := range []string{"file2", "file3"} {
		if _, err := os.Stat(filepath.Join(top, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsNoFileIsNotRead(t *testing.T) {
	r, top := open(t)
	if err := unix.Mkfifo(filepath.Join(top, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.File("/large", make([]byte, 101), 0o644); err != nil {
		t.Fatal(err)
	}
	link(t, "../outside", filepath.Join(top, "relative"))
	for _, name := range []string{"/pipe", "/large", "/relative", "/missing", "/"} {
		if text, err := r.Read(name, 100); err == nil {
			t.Errorf("%s: %q", name, text)
		}
	}
}
