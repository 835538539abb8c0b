package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

const testID identity.ID = "knc068a3cp3thz5z2mv1gejwftabc"

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A machine's directory appears once and complete, and is gone as a whole.
func TestMachineAppearsOnce(t *testing.T) {
	s := open(t)
	req := driver.CreateRequest{InstanceID: testID, Owner: driver.Owner{Cluster: "dev", Shard: "local"}, UserData: []byte("exit 0\n")}
	if _, err := s.Metadata(string(testID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v, want %v", err, fs.ErrNotExist)
	}
	if err := s.Build(req); err != nil {
		t.Fatal(err)
	}
	if err := s.Build(req); !errors.Is(err, fs.ErrExist) {
		t.Errorf("built twice: %v, want %v", err, fs.ErrExist)
	}
	if meta, err := s.Metadata(string(testID)); err != nil || meta != MetadataOf(req) {
		t.Errorf("%+v, %v; want %+v", meta, err, MetadataOf(req))
	}
	var seen []string
	if err := s.Each(t.Context(), req.Owner, func(name string, _ Metadata) error { seen = append(seen, name); return nil }); err != nil || len(seen) != 1 {
		t.Errorf("%v, %v; want the one machine", seen, err)
	}
	for range 2 {
		if err := s.Remove(testID); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(s.Dir(testID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the removal: %v", err)
	}
}

// What has a machine's name already is never replaced, not even an empty directory.
func TestMachineReplacesNothing(t *testing.T) {
	s := open(t)
	if err := os.Mkdir(s.Dir(testID), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Build(driver.CreateRequest{InstanceID: testID}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v, want %v", err, fs.ErrExist)
	}
}

// A directory of a machine without its file was damaged by hand: that is no machine that is gone.
func TestF21_DamagedDirectoryIsAnError(t *testing.T) {
	s := open(t)
	if err := os.Mkdir(s.Dir(testID), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Metadata(string(testID)); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its file: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(s.Root, MarksDir)); err != nil {
		t.Fatal(err)
	}
	if err := s.Every(t.Context(), func(string, Metadata) error { return nil }); err == nil {
		t.Error("a store without its marks is listed")
	}
}

func TestLockIsHeldByOne(t *testing.T) {
	s := open(t)
	unlock, err := s.Lock(t.Context(), testID)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.TryLock(testID); again != nil || err != nil {
		t.Errorf("a second one has it too (%v)", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Lock(ctx, testID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for it: %v, want %v", err, context.DeadlineExceeded)
	}
	unlock()
	unlock, err = s.Lock(t.Context(), testID)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
