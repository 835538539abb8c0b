// Package durable writes small files so that a crash leaves the old content or the new,
// and never a part: into a temporary file beside the target, synced, renamed, and the
// directory synced. What it has returned from survives a loss of power.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// WriteFile replaces the file at path. Its permissions become mode, whatever the umask.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	f, err := renameio.NewPendingFile(path,
		renameio.WithTempDir(dir), renameio.WithStaticPermissions(mode))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { _ = f.Cleanup() }() // nothing is left to clean up once it was renamed
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return SyncDir(dir)
}

// Remove deletes the file at path for good; one that does not exist is no error.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// ErrTooOpen is matched by the error about a directory in which others may write.
var ErrTooOpen = errors.New("others may write to the directory")

// MakeDir makes a directory and its parents. The directory itself gets mode, whatever
// the umask; one that exists keeps its permissions. It is refused if its group or others
// may write to it and mode does not say so: what they put there would be believed. The
// error matches [ErrTooOpen].
func MakeDir(dir string, mode fs.FileMode) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return checkOpen(dir, info, mode)
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return nil
}

func checkOpen(dir string, info fs.FileInfo, mode fs.FileMode) error {
	if info.Mode().Perm()&0o022&^mode == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s has mode %#o, at most %#o is configured; change it with chmod, or the configured mode of its files",
		ErrTooOpen, dir, info.Mode().Perm(), mode)
}

// SyncDir makes renames and removals in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
