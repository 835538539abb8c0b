package durable_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"nstance.dev/agent/durable"
)

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, tt := range []struct {
		content string
		mode    fs.FileMode
	}{{"one", 0o600}, {"two", 0o644}, {"", 0o600}} {
		if err := durable.WriteFile(path, []byte(tt.content), tt.mode); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != tt.content || mode(t, path) != tt.mode {
			t.Errorf("%q with mode %v, error %v; want %q with %v", data, mode(t, path), err, tt.content, tt.mode)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := durable.WriteFile(filepath.Join(dir, "no", "a"), nil, 0o600); err == nil {
		t.Error("a file was written into no directory")
	}
}

func TestTheUmaskChangesNoMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := filepath.Join(t.TempDir(), "d")
	if err := durable.MakeDir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a")
	if err := durable.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if mode(t, dir) != 0o750 || mode(t, path) != 0o644 {
		t.Errorf("directory %v, file %v", mode(t, dir), mode(t, path))
	}
}

func TestMakeDirKeepsWhatIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for _, m := range []fs.FileMode{0o700, 0o755} {
		if err := durable.MakeDir(dir, m); err != nil {
			t.Fatal(err)
		}
	}
	if mode(t, dir) != 0o700 {
		t.Errorf("mode %v of a directory that existed", mode(t, dir))
	}
	path := filepath.Join(dir, "a")
	if err := durable.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.MakeDir(path, 0o700); err == nil {
		t.Error("a file passes for a directory")
	}
}

func TestRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := durable.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := durable.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
