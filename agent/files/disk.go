package files

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"nstance.dev/agent/durable"
)

// disk is everything that a [Store] does to the file system once it is open: one method
// for each step between which a machine can lose its power. Tests stop between any two.
type disk interface {
	// Write makes a new file, synced, with these permissions and this time; a zero time is
	// that of writing. A file of this name is replaced.
	Write(path string, content []byte, mode fs.FileMode, modTime time.Time) error
	// Replace puts a whole file in the place of another, in one step and durably.
	Replace(path string, content []byte, mode fs.FileMode) error
	// Rename moves a file, in one step.
	Rename(from, to string) error
	// Remove deletes a file for good; one that does not exist is no error.
	Remove(path string) error
	// SyncDir makes the renames in a directory durable.
	SyncDir(dir string) error
}

// operatingSystem is the disk of the machine.
type operatingSystem struct{}

func (operatingSystem) Write(path string, content []byte, mode fs.FileMode, modTime time.Time) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, writeErr := f.Write(content)
	err = errors.Join(writeErr, f.Chmod(mode))
	if !modTime.IsZero() {
		err = errors.Join(err, os.Chtimes(path, modTime, modTime))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func (operatingSystem) Replace(path string, content []byte, mode fs.FileMode) error {
	return durable.WriteFile(path, content, mode)
}

func (operatingSystem) Rename(from, to string) error { return os.Rename(from, to) }
func (operatingSystem) Remove(path string) error     { return durable.Remove(path) }
func (operatingSystem) SyncDir(dir string) error     { return durable.SyncDir(dir) }
