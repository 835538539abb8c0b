package clusterops_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"nstance.dev/admin/clusterops"
)

func TestMakePrivateDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "identity")
	for range 2 { // made, and found
		if err := clusterops.MakePrivateDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
}

func TestMakePrivateDirRefusesWhatOthersMayHavePrepared(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"open to others": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o750))
		},
		"a link": func(path string) error {
			return errors.Join(os.Mkdir(path+"-real", 0o700), os.Symlink(path+"-real", path))
		},
		"a file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"another user's": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 12345, 12345))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "identity")
			if err := prepare(path); errors.Is(err, os.ErrPermission) {
				t.Logf("only root can prepare this: %v", err)
				return
			} else if err != nil {
				t.Fatal(err)
			}
			if err := clusterops.MakePrivateDir(path); !errors.Is(err, clusterops.ErrNotPrivate) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestWritePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.key")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := clusterops.WritePrivate(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	if err := clusterops.CheckAbsent(filepath.Dir(path), "identity.key"); !errors.Is(err, clusterops.ErrFileExists) {
		t.Errorf("error is %v", err)
	}
}
