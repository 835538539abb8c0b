package dev

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/file"
)

const testUserdata = "#!/bin/sh\n"

func TestBox_keepsWhatIsThere(t *testing.T) {
	box := Box{Dir: filepath.Join(t.TempDir(), "d")}
	unlock, err := box.Prepare(t.Context(), ConfigOptions{Group: "web", Size: 3, Userdata: testUserdata})
	if err != nil {
		t.Fatal(err)
	}
	read := func() (key, config string) {
		sealing, err := os.ReadFile(box.sealKey())
		if err != nil {
			t.Fatal(err)
		}
		store, err := file.New(box.bucket())
		if err != nil {
			t.Fatal(err)
		}
		obj, err := store.Get(t.Context(), layout.ConfigKey(Shard))
		if err != nil {
			t.Fatal(err)
		}
		return string(sealing), string(obj.Data)
	}
	key, config := read()
	if _, err := box.Prepare(t.Context(), ConfigOptions{Group: "web", Size: 3, Userdata: testUserdata}); err == nil {
		t.Error("a second process was let in")
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	unlock, err = box.Prepare(t.Context(), ConfigOptions{Group: "other", Size: 9, Userdata: testUserdata})
	if err != nil {
		t.Fatal(err)
	}
	if key2, config2 := read(); key2 != key || config2 != config {
		t.Error("the second start changed the key or the configuration")
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestBox_aLostKeyIsNotReplacedWhileSecretsNeedIt(t *testing.T) {
	box := Box{Dir: filepath.Join(t.TempDir(), "d")}
	unlock, err := box.Prepare(t.Context(), ConfigOptions{Group: "web", Size: 3, Userdata: testUserdata})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unlock(), os.Mkdir(filepath.Join(box.bucket(), "secret"), 0o700), os.Remove(box.sealKey())); err != nil {
		t.Fatal(err)
	}
	if _, err := box.Prepare(t.Context(), ConfigOptions{Group: "web", Size: 3, Userdata: testUserdata}); err == nil {
		t.Error("a new key was made for old secrets")
	}
	if _, err := os.Stat(box.sealKey()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the key: %v, want none", err)
	}
}

func TestBox_isForItsUserAlone(t *testing.T) {
	box := Box{Dir: filepath.Join(t.TempDir(), "d")}
	unlock, err := box.Prepare(t.Context(), ConfigOptions{Group: "web", Size: 3, Userdata: testUserdata})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unlock() }()
	for path, want := range map[string]os.FileMode{box.Dir: 0o700, box.Machines(): 0o700, box.sealKey(): 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
}

func TestBox_refusesAnImpossibleSize(t *testing.T) {
	box := Box{Dir: filepath.Join(t.TempDir(), "d")}
	if _, err := box.Prepare(t.Context(), ConfigOptions{Group: "web", Size: -1, Userdata: testUserdata}); err == nil {
		t.Error("a negative size was taken")
	}
}
